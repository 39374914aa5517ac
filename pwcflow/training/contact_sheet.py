"""Contact sheets: pictures of training pairs and their flow in one image."""

from collections.abc import Sequence

import cv2
import numpy as np
import torch
from torch import Tensor

from pwcflow.color import flow_to_color
from pwcflow.color.scale import scale_of
from pwcflow.flow_file import Flow
from pwcflow.image_file import Image, eight_bits
from pwcflow.training.step import Batch

PICTURE_WIDTH = 320


def frames_of(batch: Batch, count: int) -> list[tuple[Image, Image]]:
    """Return the two frames of the first `count` pairs."""
    pairs = len(batch.flow)
    chosen = torch.cat((batch.images[:count], batch.images[pairs : pairs + count]))
    rgb = chosen[:, :3].flip(1).float().permute(0, 2, 3, 1).cpu().numpy()
    images = [eight_bits(image) for image in rgb]
    return list(zip(images[:count], images[count:], strict=True))


def true_flows_of(batch: Batch, count: int) -> list[Flow]:
    """Return the true flow of the first `count` pairs, NaN where it is unknown."""
    known = torch.where(batch.valid[:count] > 0, batch.flow[:count], torch.nan)
    return flows_of(known)


def flows_of(flow: Tensor) -> list[Flow]:
    """Return each flow of (N, 2, H, W)."""
    return list(flow.float().permute(0, 2, 3, 1).contiguous().cpu().numpy())


def preview_sheet(batch: Batch) -> Image:
    """Return first frame, second frame and true flow of every pair, two pairs in a row."""
    count = len(batch.flow)
    rows = [
        [*frames, flow_to_color(flow)]
        for frames, flow in zip(frames_of(batch, count), true_flows_of(batch, count), strict=True)
    ]
    return _sheet(rows, across=2)


def comparison_sheet(batch: Batch, estimates: Tensor) -> Image:
    """Return first frame, estimated flow and true flow, a pair in a row, flows in one scale.

    Args:
        batch: the pairs.
        estimates: flow of the first of them, (N, 2, H, W), pixels.
    """
    count = len(estimates)
    rows = []
    for (frame, _), estimate, truth in zip(
        frames_of(batch, count), flows_of(estimates), true_flows_of(batch, count), strict=True
    ):
        scale = scale_of(truth)
        rows.append([frame, *(flow_to_color(flow, scale) for flow in (estimate, truth))])
    return _sheet(rows, across=1)


def _sheet(rows: Sequence[Sequence[Image]], across: int) -> Image:
    """Return the pictures of each row side by side, shrunk, `across` rows beside each other."""
    strips = [np.concatenate(row, axis=1).astype(np.uint8) for row in rows]
    height, width = strips[0].shape[:2]
    wide = len(rows[0]) * PICTURE_WIDTH
    size = (wide, max(1, round(wide * height / width)))
    small = [cv2.resize(strip, size, interpolation=cv2.INTER_AREA) for strip in strips]
    lines = [np.concatenate(small[i : i + across], axis=1) for i in range(0, len(small), across)]
    return np.concatenate(lines, axis=0).astype(np.uint8)
