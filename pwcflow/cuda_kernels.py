"""Compiles and launches CUDA kernels through CuPy, on PyTorch's stream, device and memory.

The only file that imports CuPy, and only when a kernel is wanted: everything else works without.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

logger = logging.getLogger(__name__)

Dim3 = tuple[int, int, int]
MAX_GRID = 65535
"""Most blocks of a grid along its second axis, and along its third."""
Argument = Tensor | np.generic | npt.NDArray[Any]

_INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
_STRIDES = np.dtype([(axis, np.int64) for axis in "nchw"])


class Kernel(Protocol):
    """A compiled kernel, as CuPy has it."""

    max_dynamic_shared_size_bytes: int

    def __call__(
        self, grid: Dim3, block: Dim3, arguments: tuple[Any, ...], *, shared_mem: int = 0
    ) -> None:
        """Queue it on CuPy's current stream."""


@cache  # for the life of the process: unloading a module would break a captured graph
def load_kernels(
    package: str, file: str, symbols: tuple[str, ...], device_index: int
) -> dict[str, Kernel] | None:
    """Return kernels of a source file by symbol, loaded on one device; None where they cannot run.

    Compiles them on the first call (CuPy keeps the result on disk), so that call must not happen
    inside a CUDA-graph capture. Where they cannot run, one warning says why.

    Args:
        package: the package that holds the file.
        file: the name of a CUDA C++ file.
        symbols: kernels as C++ names them, template arguments included: `scale<float>`.
        device_index: number of the CUDA device.
    """
    try:
        import cupy
        from cupy.cuda.compiler import CompileException
    except ImportError as error:
        _say_unavailable(f"CuPy cannot be imported ({error})")
        return None
    source = kernel_source(package, file)
    try:
        with torch.cuda.device(device_index), cupy.cuda.Device(device_index):
            module = cupy.RawModule(
                code=source, options=("-std=c++17",), name_expressions=list(symbols)
            )
            return {symbol: module.get_function(symbol) for symbol in symbols}
    except (CompileException, RuntimeError, OSError) as error:
        # No NVRTC, no headers, or a GPU that this NVRTC or driver does not know.
        card = torch.cuda.get_device_name(device_index)
        _say_unavailable(f"CuPy {cupy.__version__} cannot compile for {card} ({error})")
        return None


def kernel_source(package: str, file: str) -> str:
    """Return a CUDA C++ file with those of its folder that it includes in their places.

    CuPy keeps what it compiled by the text that it was given: a file that the compiler found by
    itself could change unseen.

    Args:
        package: the package that holds the file.
        file: its name.
    """
    folder = files(package)

    def text(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    return _INCLUDE.sub(lambda include: text(include[1]), text(file))


def launch(
    kernel: Kernel,
    blocks: int | Dim3,
    block: Dim3,
    arguments: Sequence[Argument],
    *,
    shared_bytes: int = 0,
) -> None:
    """Queue a kernel on PyTorch's current stream; returns before it has run.

    Args:
        kernel: from `load_kernels`, for the device of the tensors.
        blocks: size of the grid, all above 0; a number for a grid of one dimension.
        block: threads of a block.
        arguments: tensors, all on one device, passed as pointers; numpy scalars of the exact
            types of the kernel's parameters; and numpy arrays of one element, passed by value,
            such as structs.
        shared_bytes: shared memory of a block, beside what the kernel declares.
    """
    import cupy

    device = next(value.device for value in arguments if isinstance(value, Tensor))
    grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
    values = tuple(
        np.uintp(value.data_ptr()) if isinstance(value, Tensor) else value for value in arguments
    )
    stream = _TorchStream(torch.cuda.current_stream(device))
    # PyTorch and CuPy may each bring a CUDA runtime with a current device of its own.
    with (
        torch.cuda.device(device),
        cupy.cuda.Device(device.index),
        cupy.cuda.Stream.from_external(stream),
    ):
        if shared_bytes > kernel.max_dynamic_shared_size_bytes:
            kernel.max_dynamic_shared_size_bytes = shared_bytes
        kernel(grid, block, values, shared_mem=shared_bytes)


def int32(*values: int) -> tuple[np.int32, ...]:
    """Return sizes as the kernels' C ints; numpy refuses what does not fit."""
    return tuple(np.int32(value) for value in values)


def strides(tensor: Tensor) -> npt.NDArray[np.void]:
    """Return the strides of a tensor (N, C, H, W) as the kernels' struct of that name."""
    return np.array(tensor.stride(), _STRIDES)


def ceil_div(dividend: int, divisor: int) -> int:
    """Return how many blocks of `divisor` cover `dividend`."""
    return -(-dividend // divisor)


@dataclass(frozen=True)
class _TorchStream:
    """Lends a PyTorch stream to CuPy by the CUDA stream protocol, which older torch lacks."""

    stream: torch.cuda.Stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.stream.cuda_stream


@cache  # one sentence, however many files of kernels there are
def _say_unavailable(reason: str) -> None:
    logger.warning(
        "the GPU runs plain PyTorch, slower but equal, in place of our kernels, because %s; "
        "run: pip install -U cupy-cuda12x nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12",
        " ".join(reason.split())[:300],
    )
