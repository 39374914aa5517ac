"""Launches the cost volume's CUDA kernels."""

import numpy as np
import torch
from torch import Tensor

from pwcflow.cuda_kernels import Kernel, ceil_div, int32, launch, load_kernels
from pwcflow.ops.reference import COST_VOLUME_CHANNELS, MAX_DISPLACEMENT

SCALAR_TYPES = {
    torch.float16: "__half",
    torch.bfloat16: "__nv_bfloat16",
    torch.float32: "float",
    torch.float64: "double",
}
"""The kernels' name of each dtype they take."""

# Each kernel's tile and block, as the comment above it in cost_volume.cu says.
REARRANGE_TILE = 32
REARRANGE_BLOCK = (32, 8, 1)
FORWARD_TILE = 32
FORWARD_BLOCK = (32, 9, 1)
GRADIENT_TILE = 16
GRADIENT_WARPS = 8
KERNELS = (
    "rearrange",
    "cost_volume_forward",
    "cost_volume_gradient_first",
    "cost_volume_gradient_second",
)


def available(tensor: Tensor) -> bool:
    """Return whether the kernels run for the dtype and device of `tensor`.

    Compiles them on the first call for a dtype, which must not happen inside a CUDA-graph capture.
    """
    return _loaded(tensor) is not None


def cost_volume(first: Tensor, second: Tensor) -> Tensor:
    """Return the cost volume of two CUDA tensors; see `pwcflow.ops.cost_volume`."""
    n, c, h, w = first.shape
    volume = first.new_empty((n, COST_VOLUME_CHANNELS, h, w))
    if volume.numel():
        launch(
            _kernel("cost_volume_forward", first),
            n * h * ceil_div(w, FORWARD_TILE),
            FORWARD_BLOCK,
            (
                _rearranged(first, 0),
                _rearranged(second, MAX_DISPLACEMENT),
                volume,
                *int32(c, h, w),
            ),
        )
    return volume


def cost_volume_backward(grad: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of `first` and `second`, contiguous (N, C, H, W)."""
    grad = grad.contiguous()
    return (
        _gradient("cost_volume_gradient_first", grad, second),
        _gradient("cost_volume_gradient_second", grad, first),
    )


def _gradient(kernel: str, grad: Tensor, other: Tensor) -> Tensor:
    n, c, h, w = other.shape
    result = other.new_empty(other.shape)
    if result.numel():
        launch(
            _kernel(kernel, other),
            n * h * ceil_div(w, GRADIENT_TILE),
            (32, min(ceil_div(c, 32), GRADIENT_WARPS), 1),
            (grad, _rearranged(other, MAX_DISPLACEMENT), result, *int32(c, h, w)),
        )
    return result


def _rearranged(feature: Tensor, pad: int) -> Tensor:
    """Return (N, C, H, W) of any strides as (N, H + 2 pad, W + 2 pad, C), zeros around."""
    n, c, h, w = feature.shape
    target = feature.new_empty((n, h + 2 * pad, w + 2 * pad, c))
    tiles = ceil_div(w + 2 * pad, REARRANGE_TILE) * ceil_div(c, REARRANGE_TILE)
    strides = tuple(np.int64(stride) for stride in feature.stride())
    launch(
        _kernel("rearrange", feature),
        n * (h + 2 * pad) * tiles,
        REARRANGE_BLOCK,
        (feature, target, *strides, *int32(c, h, w, pad)),
    )
    return target


def _kernel(name: str, tensor: Tensor) -> Kernel:
    kernels = _loaded(tensor)
    assert kernels is not None, "callers ask `available` first"
    return kernels[_symbol(name, tensor.dtype)]


def _loaded(tensor: Tensor) -> dict[str, Kernel] | None:
    symbols = tuple(_symbol(name, tensor.dtype) for name in KERNELS)
    return load_kernels("pwcflow.ops", "cost_volume.cu", symbols, tensor.device.index)


def _symbol(name: str, dtype: torch.dtype) -> str:
    return f"{name}<{SCALAR_TYPES[dtype]}>"
