"""Launches the CUDA kernels through CuPy, on PyTorch's stream, device and memory.

The only file that imports CuPy, and only when a kernel is wanted: everything else works without.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor

from pwcflow.ops.reference import COST_VOLUME_CHANNELS, MAX_DISPLACEMENT

logger = logging.getLogger(__name__)

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

Kernel = Callable[[tuple[int, int, int], tuple[int, int, int], tuple[np.generic, ...]], None]


def available(tensor: Tensor) -> bool:
    """Return whether the kernels run for the dtype and device of `tensor`.

    Compiles them on the first call for a dtype (CuPy keeps the result on disk), so that call must
    not happen inside a CUDA-graph capture. Where they cannot run, one warning says why.
    """
    return _kernels(tensor.dtype, tensor.device.index) is not None


def cost_volume(first: Tensor, second: Tensor) -> Tensor:
    """Return the cost volume of two CUDA tensors; see `pwcflow.ops.cost_volume`."""
    n, c, h, w = first.shape
    volume = first.new_empty((n, COST_VOLUME_CHANNELS, h, w))
    if volume.numel():
        operands = (_rearranged(first, 0), _rearranged(second, MAX_DISPLACEMENT), volume)
        blocks = n * h * _ceil_div(w, FORWARD_TILE)
        _launch("cost_volume_forward", blocks, FORWARD_BLOCK, operands, _int32(c, h, w))
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
        operands = (grad, _rearranged(other, MAX_DISPLACEMENT), result)
        blocks = n * h * _ceil_div(w, GRADIENT_TILE)
        block = (32, min(_ceil_div(c, 32), GRADIENT_WARPS), 1)
        _launch(kernel, blocks, block, operands, _int32(c, h, w))
    return result


def _rearranged(feature: Tensor, pad: int) -> Tensor:
    """Return (N, C, H, W) of any strides as (N, H + 2 pad, W + 2 pad, C), zeros around."""
    n, c, h, w = feature.shape
    target = feature.new_empty((n, h + 2 * pad, w + 2 * pad, c))
    blocks = (
        n * (h + 2 * pad) * _ceil_div(w + 2 * pad, REARRANGE_TILE) * _ceil_div(c, REARRANGE_TILE)
    )
    strides = tuple(np.int64(stride) for stride in feature.stride())
    _launch(
        "rearrange", blocks, REARRANGE_BLOCK, (feature, target), (*strides, *_int32(c, h, w, pad))
    )
    return target


def _launch(
    name: str,
    blocks: int,
    block: tuple[int, int, int],
    tensors: Sequence[Tensor],
    scalars: Sequence[np.generic],
) -> None:
    """Queue one kernel on PyTorch's current stream; returns before it has run."""
    import cupy

    dtype, device = tensors[0].dtype, tensors[0].device
    kernels = _kernels(dtype, device.index)
    assert kernels is not None, "callers ask `available` first"
    pointers = tuple(np.uintp(tensor.data_ptr()) for tensor in tensors)
    stream = _TorchStream(torch.cuda.current_stream(device))
    # PyTorch and CuPy may each bring a CUDA runtime with a current device of its own.
    with (
        torch.cuda.device(device),
        cupy.cuda.Device(device.index),
        cupy.cuda.Stream.from_external(stream),
    ):
        kernels[name]((blocks, 1, 1), block, (*pointers, *scalars))


@dataclass(frozen=True)
class _TorchStream:
    """Lends a PyTorch stream to CuPy by the CUDA stream protocol, which older torch lacks."""

    stream: torch.cuda.Stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.stream.cuda_stream


@cache  # for the life of the process: unloading a module would break a captured graph
def _kernels(dtype: torch.dtype, device_index: int) -> dict[str, Kernel] | None:
    """Return the kernels of one dtype by name, loaded on one device; None where they cannot run."""
    try:
        import cupy
        from cupy.cuda.compiler import CompileException
    except ImportError as error:
        _say_unavailable(f"CuPy cannot be imported ({error})")
        return None
    symbols = {name: f"{name}<{SCALAR_TYPES[dtype]}>" for name in KERNELS}
    source = files("pwcflow.ops").joinpath("cost_volume.cu").read_text(encoding="utf-8")
    try:
        with torch.cuda.device(device_index), cupy.cuda.Device(device_index):
            module = cupy.RawModule(
                code=source, options=("-std=c++17",), name_expressions=list(symbols.values())
            )
            return {name: module.get_function(symbol) for name, symbol in symbols.items()}
    except (CompileException, RuntimeError, OSError) as error:
        # No NVRTC, no headers, or a GPU that this NVRTC or driver does not know.
        card = torch.cuda.get_device_name(device_index)
        _say_unavailable(f"CuPy {cupy.__version__} cannot compile for {card} ({error})")
        return None


def _say_unavailable(reason: str) -> None:
    logger.warning(
        "the cost volume runs in plain PyTorch, slower but equal, because %s; "
        "run: pip install -U cupy-cuda12x nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12",
        " ".join(reason.split())[:300],
    )


def _int32(*values: int) -> tuple[np.int32, ...]:
    """Return sizes as the kernels' C ints; numpy refuses what does not fit."""
    return tuple(np.int32(value) for value in values)


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
