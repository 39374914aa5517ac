"""Random features, and how close two results must be: for every test of an operator."""

import math

import pytest
import torch
from torch import Tensor

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
# No images, no pixels, one value, C no multiple of a warp, the pyramid's widest level, a batch.
SHAPES = [(0, 3, 4, 4), (2, 3, 0, 4), (1, 1, 1, 1), (3, 33, 5, 7), (1, 196, 7, 17), (3, 16, 33, 65)]
# ‖error‖ / ‖reference‖: a few roundings of each dtype.
TOLERANCES = {
    torch.float64: 1e-13,
    torch.float32: 1e-6,
    torch.float16: 1e-3,
    torch.bfloat16: 1e-2,
}


def features(shape, device, dtype, *, seed=0, requires_grad=False) -> tuple[Tensor, Tensor]:
    """Return two tensors of normal noise, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return (
        first.to(device, dtype).requires_grad_(requires_grad),
        second.to(device, dtype).requires_grad_(requires_grad),
    )


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Return ‖actual - expected‖ / ‖expected‖; 0 of nothing, infinite with a NaN."""
    actual, expected = actual.detach().double().cpu(), expected.detach().double().cpu()
    assert actual.shape == expected.shape
    if expected.numel() == 0:
        return 0.0
    error = (actual - expected).norm() / expected.norm().clamp_min(1e-300)
    return math.inf if error.isnan() else float(error)
