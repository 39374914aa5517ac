"""The operators' CUDA kernels by dtype: each file has templates over the type of the elements."""

import torch

from pwcflow.cuda_kernels import Kernel, load_kernels
from pwcflow.ops.dtypes import SCALAR_TYPES

TENSOR_CORE_CAPABILITY = (8, 0)
"""Of the first GPUs with the matrix products of tensor_cores.cuh."""


def kernels_of_dtype(
    file: str, names: tuple[str, ...], dtype: torch.dtype, device: torch.device
) -> dict[str, Kernel] | None:
    """Return kernels of a file of this package by name, or None where they cannot run.

    Compiles them on the first call for a dtype, which must not happen inside a CUDA-graph capture.

    Args:
        file: the name of a CUDA C++ file.
        names: templates in it that take one type.
        dtype: what they are to be compiled for, one of SCALAR_TYPES.
        device: a CUDA device with its number.
    """
    symbols = {name: f"{name}<{SCALAR_TYPES[dtype]}>" for name in names}
    kernels = load_kernels("pwcflow.ops", file, tuple(symbols.values()), device.index)
    if kernels is None:
        return None
    return {name: kernels[symbol] for name, symbol in symbols.items()}


def has_tensor_cores(device: torch.device) -> bool:
    """Return whether a CUDA device can run the kernels that include tensor_cores.cuh."""
    return torch.cuda.get_device_capability(device) >= TENSOR_CORE_CAPABILITY
