"""The floating-point types of the operators."""

import torch
from torch import Tensor

SCALAR_TYPES = {
    torch.float16: "__half",
    torch.bfloat16: "__nv_bfloat16",
    torch.float32: "float",
    torch.float64: "double",
}
"""The dtypes that the operators take, and what CUDA calls them."""


def check_dtype(tensor: Tensor) -> None:
    """Raise `ValueError` unless the operators take the dtype of `tensor`."""
    if tensor.dtype not in SCALAR_TYPES:
        allowed = ", ".join(str(dtype) for dtype in SCALAR_TYPES)
        raise ValueError(f"dtype must be one of {allowed}, but it is {tensor.dtype}")


def sum_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of sums over `tensor`: float32 for the halves, their own for the others."""
    return torch.promote_types(tensor.dtype, torch.float32)
