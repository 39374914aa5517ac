"""What a dense block does around its convolutions, in one pass each way.

These are plain functions, no operators: `pwcflow.dense_block` has the gradient of them all, for
training. Inference appends too, where convolutions cannot write into the block themselves.
A layer's result becomes the first channels of a tensor whose others are what the layer saw. That
tensor is seen by several later layers, whose gradients of these channels are added up.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pwcflow.cuda_kernels import Kernel, launch
from pwcflow.ops.bias_leaky_relu import (
    plain_bias_leaky_relu,
    plain_bias_leaky_relu_backward,
    sum_partial_gradients,
)
from pwcflow.ops.dtypes import sum_dtype, sum_scalar
from pwcflow.ops.kernels import kernels_of_dtype
from pwcflow.ops.layout import PACK_BYTES, known_pitch, layout_of, pack_width, pixel_pitch
from pwcflow.ops.pixel_rows import BACKWARD_BLOCKS, FORWARD_BLOCKS, THREADS, grid

MOST_PARTS = 6
"""Gradients that are added up at once, as in append.cu."""
KERNELS = ("append_packs", "append_backward_packs", "add_up_packs")
_PARTS = np.dtype(
    [("data", np.uint64, MOST_PARTS), ("pitch", np.int64, MOST_PARTS), ("count", np.int32)],
    align=True,
)


def append(y: Tensor, bias: Tensor, x: Tensor, slope: float) -> Tensor:
    """Return LeakyReLU of y + bias with the channels of x behind it; has no gradient by itself.

    Args:
        y: (N, K, H, W), what a convolution without a bias gave; float16, bfloat16, float32 or
            float64.
        bias: (K,).
        x: (N, C, H, W), what the convolution saw.
        slope: what negative values are multiplied by, above 0.

    Returns:
        (N, K + C, H, W), channels-last if y is, in the one dtype of the arguments. The addition is
        in float32 (float64 for float64).
    """
    kernels = _kernels(y, x)
    if kernels is None:
        first = plain_bias_leaky_relu(y, bias, slope)
        return torch.cat((first, x), dim=1).contiguous(memory_format=layout_of(y))
    n, k, h, w = y.shape
    c = x.shape[1]
    out = torch.empty(
        (n, k + c, h, w), dtype=y.dtype, device=y.device, memory_format=torch.channels_last
    )
    groups, chunks = grid(out, PACK_BYTES // y.element_size(), FORWARD_BLOCKS)
    launch(
        kernels["append_packs"],
        groups * chunks,
        (THREADS, 1, 1),
        (
            y,
            bias.contiguous(),
            x,
            out,
            sum_scalar(slope, y),
            np.int64(known_pitch(y)),
            np.int64(known_pitch(x)),
            np.int64(n * h * w),
            np.int32(k),
            np.int32(c),
        ),
    )
    return out


def append_backward(
    gradients: Sequence[Tensor], activated: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """Return the gradients of y (N, K, H, W) and of bias (K,), in the dtype of `activated`.

    Args:
        gradients: of the channels that y became, (N, K, H, W) each, any strides, which add up; at
            most MOST_PARTS. Their sum, and that over the pixels, are in float32 (float64 for
            float64) and rounded once.
        activated: these channels, from `append`.
        slope: of the LeakyReLU.
    """
    kernels = _kernels(activated, *gradients)
    if kernels is None:
        return plain_bias_leaky_relu_backward(_sum(gradients), activated, slope)
    grad_y = torch.empty_like(activated, memory_format=torch.channels_last)
    n, k, h, w = activated.shape
    groups, chunks = grid(grad_y, PACK_BYTES // grad_y.element_size(), BACKWARD_BLOCKS)
    partial = grad_y.new_empty((k, chunks), dtype=sum_dtype(grad_y))
    launch(
        kernels["append_backward_packs"],
        groups * chunks,
        (THREADS, 1, 1),
        (
            _parts(gradients),
            activated,
            grad_y,
            partial,
            sum_scalar(slope, grad_y),
            np.int64(known_pitch(activated)),
            np.int64(n * h * w),
            np.int32(k),
        ),
    )
    return grad_y, sum_partial_gradients(partial, grad_y.dtype)


def add_up(tensors: Sequence[Tensor]) -> Tensor:
    """Return the sum of tensors (N, C, H, W) of any strides, at most MOST_PARTS.

    The sum is in float32 (float64 for float64) and rounded once.
    """
    first = tensors[0]
    kernels = _kernels(*tensors)
    if kernels is None:
        return _sum(tensors).to(first.dtype).contiguous(memory_format=layout_of(first))
    total = torch.empty_like(first, memory_format=torch.channels_last)
    n, c, h, w = first.shape
    groups, chunks = grid(total, PACK_BYTES // total.element_size(), FORWARD_BLOCKS)
    launch(
        kernels["add_up_packs"],
        groups * chunks,
        (THREADS, 1, 1),
        (_parts(tensors), total, np.int64(n * h * w), np.int32(c)),
    )
    return total


def _sum(tensors: Sequence[Tensor]) -> Tensor:
    dtype = sum_dtype(tensors[0])
    total = tensors[0].to(dtype)
    for tensor in tensors[1:]:
        total = total + tensor.to(dtype)
    return total


def _parts(tensors: Sequence[Tensor]) -> npt.NDArray[np.void]:
    """Return the struct Parts of append.cu."""
    parts = np.zeros(1, _PARTS)
    for i, tensor in enumerate(tensors):
        parts["data"][0, i] = tensor.data_ptr()
        parts["pitch"][0, i] = known_pitch(tensor)
    parts["count"] = len(tensors)
    return parts


def _kernels(*tensors: Tensor) -> dict[str, Kernel] | None:
    """Return the kernels by name, where they take all of the tensors; else None."""
    first = tensors[0]
    if not first.is_cuda or not first.numel():
        return None
    if any(pixel_pitch(tensor) is None or pack_width(tensor) == 1 for tensor in tensors):
        return None
    return kernels_of_dtype("append.cu", KERNELS, first.dtype, first.device)
