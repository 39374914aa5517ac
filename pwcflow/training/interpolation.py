"""Weights between those that a run came to and others, such as those that it began with."""

from collections.abc import Mapping

import torch
from torch import Tensor


def interpolated(
    trained: Mapping[str, Tensor], kept: Mapping[str, Tensor] | None, keep: float
) -> Mapping[str, Tensor]:
    """Return a share `keep` of the weights `kept` plus 1 - `keep` of the trained ones, by name.

    Where both are equal, the result is equal to them to the last bit. Without any to keep it is the
    trained ones.

    Source: Wortsman et al., "Robust fine-tuning of zero-shot models" (WiSE-FT), CVPR 2022 (arXiv
    2109.01903), section 3, with alpha = 1 - keep.
    """
    if kept is None:
        return trained
    return {name: _between(weights, kept[name], keep) for name, weights in trained.items()}


def _between(trained: Tensor, kept: Tensor, keep: float) -> Tensor:
    # In float64: a GPU rounds a product and a sum at once, and would come to other float32 weights
    # than a CPU does.
    return torch.lerp(trained.double(), kept.double(), keep).to(trained.dtype)
