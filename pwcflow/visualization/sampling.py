"""Reading the second frame, or its flow, where the flow leads."""

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.color import row_blocks
from pwcflow.flow_file import Flow, Mask


def sampled(values: npt.NDArray[Any], flow: Flow) -> Iterator[tuple[slice, npt.NDArray[Any], Mask]]:
    """Yield `values` of the second frame at (x + u, y + v) of each pixel, some rows at a time.

    Args:
        values: (H, W, C), uint8 or float32, with pixel centres at whole numbers.
        flow: (H, W, 2), in pixels.

    Yields:
        the rows, the bilinear samples (h, W, C) there, and where there are any, (h, W): where
        the flow is known and leads to a place between the outermost pixel centres.
    """
    height, width = flow.shape[:2]
    columns = np.arange(width, dtype=np.float32)
    for rows in row_blocks(flow):
        part = np.asarray(flow[rows], np.float32)
        x = part[..., 0] + columns
        y = part[..., 1] + np.arange(rows.start, rows.stop, dtype=np.float32)[:, None]
        # What is unknown is NaN, or far outside.
        inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
        if not inside.all():
            x[~inside] = y[~inside] = 0  # far numbers overflow in OpenCV
        there = cv2.remap(values, x, y, cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE)
        yield rows, there.reshape(*inside.shape, -1), inside
