"""Fixtures of the tests of flow on a GPU."""

import pytest

from pwcflow import FlowEstimator
from pwcflow.inference.gpu_flow import MOST_FRAMES
from tests.gpu_flow.checks import HEIGHT, WIDTH
from tests.moving_textures import one_by_one, video


@pytest.fixture(autouse=True)
def recorded_from_the_second_frame_on(monkeypatch):
    monkeypatch.setattr("pwcflow.estimator.UNRECORDED", 1)


@pytest.fixture(scope="module")
def gpu():
    estimator = FlowEstimator(device="cuda")
    estimator(*video(2, HEIGHT, WIDTH))  # the first pair of a size is not recorded
    return estimator


@pytest.fixture(scope="module")
def frames():
    return video(2 * MOST_FRAMES + 4, HEIGHT, WIDTH)


@pytest.fixture(scope="module")
def expected(frames):
    """Return the flows of `frames` on the CPU."""
    return one_by_one(frames)
