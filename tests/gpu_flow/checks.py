"""Sizes of the frames, and checks of flows and of the errors that come after them."""

import numpy as np
import pytest

HEIGHT, WIDTH = 60, 120
"""Stretched to 64 x 128; as many frames as there may be go through the network at a time."""
LARGE = 1072, 1900
"""One frame at a time."""
CLOSE = 1e-3


def check(flows, expected):
    """Check that flows are those expected, but for roundings."""
    assert len(flows) == len(expected)
    for flow, right in zip(flows, expected, strict=True):
        assert flow.dtype == np.float32
        assert flow.shape == right.shape
        assert np.abs(flow - right).max() <= CLOSE


def until_error(flows, kind, problem):
    """Return the flows that come before an error, and nothing comes after."""
    found = []
    with pytest.raises(kind, match=problem):
        for flow in flows:
            found.append(flow)
    assert list(flows) == []
    return found
