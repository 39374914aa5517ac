"""What training makes small: the distance of estimated flow from the true one, at each level."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.network import DECODER_LEVELS
from pwcflow.ops import FLOW_SCALE

LEVEL_WEIGHTS = (0.32, 0.08, 0.02, 0.02, 0.02)
"""Weight of each level's error, from level 6 to 2.

Source: Sun et al., PWC-Net, CVPR 2018, section 4 (arXiv 1709.02371), with 0.02 in place of their
0.01 and 0.005 at levels 3 and 2.
"""
FULL_WEIGHT = 0.005 / 4
"""Weight of the error at the images' resolution, which has 16 times the pixels of level 2."""
LOSS_UNIT = 12288
"""Pixels of level 2 of a 384 x 512 image: keeps loss and gradients within reach of float16."""
_TINY = 1e-8
"""Under the root, so that a perfect estimate has a gradient."""
_ROBUST_OFFSET_PX = 0.01
"""Keeps the gradient of a power below 1 finite.

Source: Sun et al., PWC-Net, section 3, "Training loss": epsilon of its robust loss.
"""


def multiscale_loss(
    flows: Sequence[Tensor], truth: Tensor, valid: Tensor, q: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return the training loss and the mean end-point error.

    At each level the truth is its mean over the area of a pixel there, and a pixel weighs as much
    as the share of its area whose truth is known. Errors are summed over an image's pixels, and
    averaged over the batch.

    Args:
        flows: at levels 6, 5, 4, 3, 2, (N, 2, H / 2**level, W / 2**level), in FLOW_SCALE pixels.
        truth: (N, 2, H, W), in pixels; H, W multiples of 64. May hold anything where not valid.
        valid: (N, 1, H, W), 1 where the truth counts, else 0.
        q: takes errors in pixels to this power, below 1: what is nearly right matters more, and
            what is beyond rescue less, as in the paper's fine-tuning, where it is 0.4.

    Returns:
        the loss, and the mean distance in pixels at full resolution, which has no gradient.

    Source: Sun et al., PWC-Net, CVPR 2018, section 3, "Training loss" (arXiv 1709.02371).
    """
    truth = torch.where(valid > 0, truth / FLOW_SCALE, 0.0)
    loss = truth.new_zeros(())
    # Sums of known flow beside the share known; each level halves the one before it.
    weighted = F.avg_pool2d(torch.cat((truth, valid), dim=1), 2 ** DECODER_LEVELS[-1])
    for flow, weight in reversed(list(zip(flows, LEVEL_WEIGHTS, strict=True))):
        if flow.shape[2:] != weighted.shape[2:]:
            weighted = F.avg_pool2d(weighted, 2)
        share = weighted[:, 2:]
        target = weighted[:, :2] / share.clamp(min=_TINY)
        error = _robust(_distance(flow, target), q) * share
        loss = loss + weight * error.sum() / len(error)
    full = F.interpolate(flows[-1], truth.shape[2:], mode="bilinear", align_corners=False)
    error = _distance(full, truth)
    loss = loss + FULL_WEIGHT * (_robust(error, q) * valid).sum() / len(error)
    mean_px = FLOW_SCALE * (error.detach() * valid).sum() / valid.sum().clamp(min=1.0)
    return loss / LOSS_UNIT, mean_px


def _distance(flow: Tensor, target: Tensor) -> Tensor:
    """Return the end-point error of each pixel, (N, 1, H, W), in the unit of its arguments."""
    return ((flow - target).square().sum(1, keepdim=True) + _TINY).sqrt()


def _robust(error: Tensor, q: float | None) -> Tensor:
    if q is None:
        return error
    return (error * FLOW_SCALE + _ROBUST_OFFSET_PX).pow(q) / FLOW_SCALE
