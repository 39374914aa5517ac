"""The cost volume on a GPU: what cost_volume.cu is launched with."""

import numpy as np
from torch import Tensor

from pwcflow.cuda_kernels import Kernel, ceil_div, int32, launch, load_kernels
from pwcflow.ops.dtypes import SCALAR_TYPES
from pwcflow.ops.reference import COST_VOLUME_CHANNELS, MAX_DISPLACEMENT

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


Kernels = dict[str, Kernel]
"""By name, those of one dtype on one device."""


def kernels_for(tensor: Tensor) -> Kernels | None:
    """Return the kernels for the dtype and device of `tensor`, or None where they cannot run.

    Compiles them on the first call for a dtype, which must not happen inside a CUDA-graph capture.
    """
    symbols = {name: f"{name}<{SCALAR_TYPES[tensor.dtype]}>" for name in KERNELS}
    loaded = load_kernels(
        "pwcflow.ops", "cost_volume.cu", tuple(symbols.values()), tensor.device.index
    )
    return loaded and {name: loaded[symbol] for name, symbol in symbols.items()}


def available(tensor: Tensor) -> bool:
    """Return whether the kernels run for the dtype and device of `tensor`."""
    return kernels_for(tensor) is not None


def cost_volume(kernels: Kernels, first: Tensor, second: Tensor) -> Tensor:
    """Return the cost volume of two CUDA tensors; see `pwcflow.ops.cost_volume`."""
    n, c, h, w = first.shape
    volume = first.new_empty((n, COST_VOLUME_CHANNELS, h, w))
    if volume.numel():
        rearranged = _rearranged(kernels, first, 0), _rearranged(kernels, second, MAX_DISPLACEMENT)
        launch(
            kernels["cost_volume_forward"],
            n * h * ceil_div(w, FORWARD_TILE),
            FORWARD_BLOCK,
            (*rearranged, volume, *int32(c, h, w)),
        )
    return volume


def cost_volume_backward(
    kernels: Kernels, grad: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `first` and `second`, contiguous (N, C, H, W)."""
    grad = grad.contiguous()
    return (
        _gradient(kernels, "cost_volume_gradient_first", grad, second),
        _gradient(kernels, "cost_volume_gradient_second", grad, first),
    )


def _gradient(kernels: Kernels, name: str, grad: Tensor, other: Tensor) -> Tensor:
    n, c, h, w = other.shape
    result = other.new_empty(other.shape)
    if result.numel():
        launch(
            kernels[name],
            n * h * ceil_div(w, GRADIENT_TILE),
            (32, min(ceil_div(c, 32), GRADIENT_WARPS), 1),
            (grad, _rearranged(kernels, other, MAX_DISPLACEMENT), result, *int32(c, h, w)),
        )
    return result


def _rearranged(kernels: Kernels, feature: Tensor, pad: int) -> Tensor:
    """Return (N, C, H, W) of any strides as (N, H + 2 pad, W + 2 pad, C), zeros around."""
    n, c, h, w = feature.shape
    target = feature.new_empty((n, h + 2 * pad, w + 2 * pad, c))
    tiles = ceil_div(w + 2 * pad, REARRANGE_TILE) * ceil_div(c, REARRANGE_TILE)
    strides = tuple(np.int64(stride) for stride in feature.stride())
    launch(
        kernels["rearrange"],
        n * (h + 2 * pad) * tiles,
        REARRANGE_BLOCK,
        (feature, target, *strides, *int32(c, h, w, pad)),
    )
    return target
