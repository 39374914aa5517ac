"""The types of the operators' tensors."""

import numpy as np
import torch
from torch import Tensor

SCALAR_TYPES = {
    torch.float16: "__half",
    torch.bfloat16: "__nv_bfloat16",
    torch.float32: "float",
    torch.float64: "double",
}
"""The dtypes that the operators take, and what CUDA calls them."""
HALVES = (torch.float16, torch.bfloat16)
"""Those of half precision."""


def check_dtype(tensor: Tensor) -> None:
    """Raise `ValueError` unless the operators take the dtype of `tensor`."""
    if tensor.dtype not in SCALAR_TYPES:
        allowed = ", ".join(str(dtype) for dtype in SCALAR_TYPES)
        raise ValueError(f"dtype must be one of {allowed}, but it is {tensor.dtype}")


def sum_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of sums over `tensor`: float32 for the halves, their own for the others."""
    return torch.promote_types(tensor.dtype, torch.float32)


def sum_scalar(value: float, tensor: Tensor) -> np.float32 | np.float64:
    """Return a number as the kernels take it, in the dtype of sums over `tensor`."""
    return np.float64(value) if sum_dtype(tensor) == torch.float64 else np.float32(value)
