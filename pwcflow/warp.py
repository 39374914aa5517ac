"""Backward warping: what the second image's features look like from the first."""

import torch
import torch.nn.functional as F
from torch import Tensor

# The released network keeps a pixel only where a plane of ones, warped alike, exceeds this.
MINIMUM_COVERAGE = 0.999


def backward_warp(feature: Tensor, flow: Tensor) -> Tensor:
    """Return `feature` sampled at each pixel's position displaced by `flow`.

    Args:
        feature: features of the second image, (N, C, H, W), any floating dtype.
        flow: displacement from the first image to the second, (N, 2, H, W), in pixels of this
            pyramid level; channel 0 points right, channel 1 points down.

    Returns:
        (N, C, H, W) in the dtype of `feature`: bilinear samples at (x + u, y + v), with pixel
        centres at whole numbers (`align_corners=True`); 0 where more than 0.1 % of the bilinear
        weight lies outside the image. An axis of one pixel has only the coordinate 0, whatever
        the flow.

    Raises:
        ValueError: the shapes do not belong together.

    Source: Sun et al., PWC-Net, CVPR 2018, section 3, "Warping layer" (arXiv 1709.02371).
    """
    if feature.ndim != 4:
        raise ValueError(f"feature must be (N, C, H, W), but it is {tuple(feature.shape)}")
    n, _, h, w = feature.shape
    if flow.shape != (n, 2, h, w):
        raise ValueError(f"flow must be {(n, 2, h, w)}, but it is {tuple(flow.shape)}")
    # Half precision holds whole pixels only up to 2048: positions are float32 at the least.
    dtype = torch.promote_types(torch.promote_types(flow.dtype, feature.dtype), torch.float32)
    x = _positions(w, flow[:, 0].to(dtype), axis=2)
    y = _positions(h, flow[:, 1].to(dtype), axis=1)
    grid = torch.stack((_normalised(x, w), _normalised(y, h)), dim=-1)
    sampled = F.grid_sample(feature.to(dtype), grid, "bilinear", "zeros", align_corners=True)
    inside = _coverage(x, w) * _coverage(y, h) > MINIMUM_COVERAGE
    return (sampled * inside.unsqueeze(1)).to(feature.dtype)


def _positions(size: int, displacement: Tensor, axis: int) -> Tensor:
    """Return the sampled coordinate of each pixel along one axis, (N, H, W)."""
    if size == 1:
        return torch.zeros_like(displacement)
    shape = [1, 1, 1]
    shape[axis] = size
    steps = torch.arange(size, device=displacement.device, dtype=displacement.dtype)
    return steps.view(shape) + displacement


def _normalised(position: Tensor, size: int) -> Tensor:
    """Return pixel coordinates as `grid_sample` wants them: outer pixel centres at -1 and 1."""
    return position * (2.0 / max(size - 1, 1)) - 1.0


def _coverage(position: Tensor, size: int) -> Tensor:
    """Return how much of a bilinear sample along one axis comes from inside the image, 0 to 1."""
    return torch.minimum(position + 1.0, size - position).clamp(0.0, 1.0)
