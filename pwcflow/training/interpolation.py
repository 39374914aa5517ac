"""Weights between those that a run began with and those that it came to."""

from collections.abc import Mapping

import torch
from torch import Tensor


def interpolated(
    trained: Mapping[str, Tensor], initial: Mapping[str, Tensor] | None, keep: float
) -> Mapping[str, Tensor]:
    """Return `keep` of the initial weights plus 1 - `keep` of the trained ones, by name.

    Where both are equal, the result is equal to them to the last bit. Without initial weights, none
    of which are kept, it is the trained ones.

    Source: Wortsman et al., "Robust fine-tuning of zero-shot models" (WiSE-FT), CVPR 2022 (arXiv
    2109.01903), section 3, with alpha = 1 - keep.
    """
    if initial is None:
        return trained
    return {name: torch.lerp(weights, initial[name], keep) for name, weights in trained.items()}
