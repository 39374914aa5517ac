"""The types and layouts of the operators' tensors."""

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


def empty_like_layout(tensor: Tensor) -> Tensor:
    """Return an uninitialised tensor without gaps, in the layout of what is computed from one."""
    return torch.empty_like(tensor, memory_format=layout_of(tensor))


def layout_of(tensor: Tensor) -> torch.memory_format:
    """Return the layout of what is computed from `tensor`: channels-last if it is, else contiguous.

    Some channels of a channels-last tensor count as channels-last too.
    """
    if tensor.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    _, _, h, w = tensor.shape
    n_step, c_step, h_step, w_step = tensor.stride()
    if c_step == 1 and h_step == w * w_step and n_step == h * h_step:
        return torch.channels_last
    return torch.contiguous_format
