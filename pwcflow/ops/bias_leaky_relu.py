"""The operators `pwcflow::bias_leaky_relu`, `..._` in place, and `..._backward`.

What follows a convolution in one pass over its output, and the gradient of it in one more. PyTorch
takes two passes forward, two backward, and is slow at the gradient of the bias.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.cuda_kernels import Kernel, launch
from pwcflow.ops.dtypes import check_dtype, sum_dtype, sum_scalar
from pwcflow.ops.kernels import kernels_of_dtype
from pwcflow.ops.layout import (
    empty_like_layout,
    known_pitch,
    layout_of,
    pack_width,
    with_pitch,
)
from pwcflow.ops.pixel_rows import BACKWARD_BLOCKS, FORWARD_BLOCKS, THREADS, grid

FILE = "bias_leaky_relu.cu"
KERNELS = (
    "bias_leaky_relu_packs",
    "bias_leaky_relu_scalars",
    "bias_leaky_relu_backward_packs",
    "bias_leaky_relu_backward_scalars",
    "sum_partial_gradients",
)


def bias_leaky_relu(x: Tensor, bias: Tensor, slope: float) -> Tensor:
    """Return LeakyReLU of x + bias.

    Args:
        x: (N, C, H, W); float16, bfloat16, float32 or float64; any strides, of which the CUDA
            kernels take channels-last ones.
        bias: (C,), of the dtype and device of x.
        slope: what negative values are multiplied by, above 0.

    Returns:
        (N, C, H, W), channels-last if x is, else contiguous, in the dtype of x. The addition is in
        float32 (float64 for float64), as is the sum that is the gradient of the bias.

    Raises:
        ValueError: the shapes, dtypes, devices or the slope are not what is described above.
    """
    _check(x, bias, slope)
    y: Tensor = _bias_leaky_relu(x, bias, slope)
    return y


def bias_leaky_relu_(x: Tensor, bias: Tensor, slope: float) -> None:
    """Make LeakyReLU of x + bias of `x`; has no gradient.

    Takes what `bias_leaky_relu` takes; `x` may be some channels of a larger tensor.
    """
    _check(x, bias, slope)
    torch.ops.pwcflow.bias_leaky_relu_(x, bias, slope)


def _check(x: Tensor, bias: Tensor, slope: float) -> None:
    if x.ndim != 4 or bias.shape != x.shape[1:2]:
        raise ValueError(
            "x and bias must have the shapes (N, C, H, W) and (C,), but they are "
            f"{tuple(x.shape)} and {tuple(bias.shape)}"
        )
    if x.dtype != bias.dtype or x.device != bias.device:
        raise ValueError(
            "x and bias must have one dtype and device, but they are "
            f"{x.dtype} on {x.device} and {bias.dtype} on {bias.device}"
        )
    check_dtype(x)
    if not slope > 0:
        raise ValueError(f"slope must be above 0, but it is {slope}")


def plain_bias_leaky_relu(x: Tensor, bias: Tensor, slope: float) -> Tensor:
    """Return the operator's result in plain PyTorch."""
    dtype = sum_dtype(x)
    y = F.leaky_relu(x.to(dtype) + bias.to(dtype).view(-1, 1, 1), slope)
    return y.to(x.dtype).contiguous(memory_format=layout_of(x))


def plain_bias_leaky_relu_backward(grad: Tensor, y: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and bias in plain PyTorch."""
    grad = grad.to(sum_dtype(y))
    grad_x = torch.where(y > 0, grad, grad * slope)
    grad_bias = grad_x.sum((0, 2, 3))
    return grad_x.to(y.dtype).contiguous(memory_format=layout_of(y)), grad_bias.to(y.dtype)


torch.library.define("pwcflow::bias_leaky_relu", "(Tensor x, Tensor bias, float slope) -> Tensor")
torch.library.define(
    "pwcflow::bias_leaky_relu_backward",
    "(Tensor grad, Tensor y, float slope) -> (Tensor, Tensor)",
)
torch.library.define("pwcflow::bias_leaky_relu_", "(Tensor(a!) x, Tensor bias, float slope) -> ()")
torch.library.impl("pwcflow::bias_leaky_relu", "cpu")(plain_bias_leaky_relu)
torch.library.impl("pwcflow::bias_leaky_relu_backward", "cpu")(plain_bias_leaky_relu_backward)


@torch.library.impl("pwcflow::bias_leaky_relu", "cuda")
def _on_gpu(x: Tensor, bias: Tensor, slope: float) -> Tensor:
    kernels = _kernels(x)
    if kernels is None:
        return plain_bias_leaky_relu(x, bias, slope)
    y = torch.empty_like(x, memory_format=torch.channels_last)
    _launch_forward(kernels, x, bias, slope, y)
    return y


def _plain_in_place(x: Tensor, bias: Tensor, slope: float) -> None:
    """Do to `x` what the operator does, in plain PyTorch."""
    x.copy_(plain_bias_leaky_relu(x, bias, slope))


torch.library.impl("pwcflow::bias_leaky_relu_", "cpu")(_plain_in_place)


@torch.library.impl("pwcflow::bias_leaky_relu_", "cuda")
def _in_place_on_gpu(x: Tensor, bias: Tensor, slope: float) -> None:
    kernels = _kernels(x)
    if kernels is None:
        _plain_in_place(x, bias, slope)
    else:
        _launch_forward(kernels, x, bias, slope, x)


def _launch_forward(
    kernels: dict[str, Kernel], x: Tensor, bias: Tensor, slope: float, y: Tensor
) -> None:
    width = min(pack_width(x), pack_width(y))
    groups, chunks = grid(y, width, FORWARD_BLOCKS)
    launch(
        kernels["bias_leaky_relu_packs" if width > 1 else "bias_leaky_relu_scalars"],
        groups * chunks,
        (THREADS, 1, 1),
        (
            x,
            bias.contiguous(),
            y,
            sum_scalar(slope, y),
            np.int64(known_pitch(x)),
            np.int64(known_pitch(y)),
            *_sizes(y),
        ),
    )


@torch.library.impl("pwcflow::bias_leaky_relu_backward", "cuda")
def _backward_on_gpu(grad: Tensor, y: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    kernels = _kernels(y)
    if kernels is None:
        return plain_bias_leaky_relu_backward(grad, y, slope)
    c = y.shape[1]
    grad_x = torch.empty_like(y, memory_format=torch.channels_last)
    grad, grad_pitch = with_pitch(grad)
    width = min(pack_width(grad), pack_width(y))
    groups, chunks = grid(y, width, BACKWARD_BLOCKS)
    partial = y.new_empty((c, chunks), dtype=sum_dtype(y))
    launch(
        kernels[
            "bias_leaky_relu_backward_packs" if width > 1 else "bias_leaky_relu_backward_scalars"
        ],
        groups * chunks,
        (THREADS, 1, 1),
        (
            grad,
            y,
            grad_x,
            partial,
            sum_scalar(slope, y),
            np.int64(grad_pitch),
            np.int64(known_pitch(y)),
            *_sizes(y),
        ),
    )
    return grad_x, sum_partial_gradients(partial, y.dtype)


def _fake(x: Tensor, bias: Tensor, slope: float) -> Tensor:
    return empty_like_layout(x)


def _fake_in_place(x: Tensor, bias: Tensor, slope: float) -> None:
    """Nothing is returned."""


def _fake_backward(grad: Tensor, y: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    return empty_like_layout(y), y.new_empty(y.shape[1])


torch.library.register_fake("pwcflow::bias_leaky_relu", _fake)
torch.library.register_fake("pwcflow::bias_leaky_relu_", _fake_in_place)
torch.library.register_fake("pwcflow::bias_leaky_relu_backward", _fake_backward)

_bias_leaky_relu = torch.ops.pwcflow.bias_leaky_relu.default
_bias_leaky_relu_backward = torch.ops.pwcflow.bias_leaky_relu_backward.default


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
    ctx.slope = inputs[2]
    ctx.save_for_backward(output)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    # Where y is above 0, x + bias is, since the slope is above 0: x need not be kept.
    (y,) = ctx.saved_tensors
    grad_x, grad_bias = _bias_leaky_relu_backward(grad, y, ctx.slope)
    return grad_x, grad_bias, None


torch.library.register_autograd("pwcflow::bias_leaky_relu", _backward, setup_context=_save)


def sum_partial_gradients(partial: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sums (C,) of `partial` (C, chunks), which `store_sums` in pixel_rows.cuh left."""
    channels, chunks = partial.shape
    sums = partial.new_empty(channels, dtype=dtype)
    kernels = kernels_of_dtype(FILE, KERNELS, dtype, partial.device)
    assert kernels is not None, "what left the partial sums is of the same kind"
    launch(
        kernels["sum_partial_gradients"],
        channels,
        (THREADS, 1, 1),
        (partial, sums, np.int32(chunks)),
    )
    return sums


def _sizes(y: Tensor) -> tuple[np.int64, np.int32]:
    """Return the pixels and the channels, as the kernels take them."""
    n, c, h, w = y.shape
    return np.int64(n * h * w), np.int32(c)


def _kernels(tensor: Tensor) -> dict[str, Kernel] | None:
    """Return the kernels by name for the dtype and device of `tensor`; None to do without."""
    if not tensor.numel() or layout_of(tensor) != torch.channels_last:
        return None
    return kernels_of_dtype(FILE, KERNELS, tensor.dtype, tensor.device)
