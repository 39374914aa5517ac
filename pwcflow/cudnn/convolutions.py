"""Convolutions of half precision on channels of larger tensors."""

from functools import partial

import torch
from torch import Tensor

from pwcflow.cudnn import operations
from pwcflow.cudnn.descriptors import CudnnError, is_available
from pwcflow.cudnn.operations import (
    ALIGNMENT,
    BIAS,
    PLAIN,
    Geometry,
    Layout,
    W,
    X,
    Y,
)
from pwcflow.cudnn.plan_search import Request, compute

CANDIDATES = 4
"""Ways to compute a convolution, of those that cuDNN thinks fastest, that are tried out."""
FUSED_CANDIDATES = 3
"""With bias and LeakyReLU: cuDNN compiles those when they are first used, a quarter of a second
each by one thread."""
HALVES = (torch.float16, torch.bfloat16)
"""Without TF32 cuDNN computes float32 on channels-last tensors several times as slowly as it can,
so none is asked of it here."""
_NAMES = (X, W, Y)
_WRITTEN = _NAMES.index(Y)


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    out: Tensor,
    geometry: Geometry = PLAIN,
    slope: float = 1.0,
) -> None:
    """Write LeakyReLU of the convolution of `x` plus a bias to `out`; without a bias, neither.

    Args:
        x: (N, C, H, W) on a GPU, float16 or bfloat16; channels-last, or some channels of a
            channels-last tensor, from a multiple of 16 bytes on.
        weight: (K, C, R, S), channels-last.
        bias: (K,) of the same dtype.
        out: (N, K, H', W'), as `x`; may be other channels of the same memory.
        geometry: stride, padding and dilation.
        slope: what negative values are multiplied by.

    Sums are in float32.

    Raises:
        CudnnError: cuDNN cannot do it, or is not asked to: see HALVES.
    """
    tensors = [x, weight, out] if bias is None else [x, weight, out, bias.view(1, -1, 1, 1)]
    _check_tensors(*tensors)
    of_x, of_weight, of_out = layouts = tuple(Layout.of(tensor) for tensor in (x, weight, out))
    added: Layout | None = None
    if bias is not None:  # of its strides only that of the channels counts
        added = Layout(bias.dtype, (1, len(bias), 1, 1), (len(bias), 1, len(bias), len(bias)))
        layouts += (added,)
    request = Request(
        key=(x.device, *layouts, geometry, slope),
        device=x.device,
        operations=partial(operations.forward, of_x, of_weight, added, of_out, geometry, slope),
        names=(*_NAMES, BIAS)[: len(tensors)],
        layouts=layouts,
        written=_WRITTEN,
        most=CANDIDATES if bias is None else FUSED_CANDIDATES,
    )
    compute(request, tensors)


def _check_tensors(*tensors: Tensor) -> None:
    """Raise `CudnnError` unless cuDNN is there and may take the tensors."""
    for tensor in tensors:
        if not tensor.is_cuda or not is_available():
            raise CudnnError(f"there is no cuDNN for a tensor on {tensor.device}")
        if tensor.dtype not in HALVES or tensor.data_ptr() % ALIGNMENT:
            raise CudnnError(f"cuDNN is given no {tensor.dtype} at {tensor.data_ptr():#x}")
