"""The cost volume and its gradients in plain torch: the CPU kernel, and what CUDA is tested by."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.ops.dtypes import sum_dtype
from pwcflow.ops.layout import layout_of

MAX_DISPLACEMENT = 4
"""How far the cost volume looks in each direction, in pixels of its pyramid level."""
_SIDE = 2 * MAX_DISPLACEMENT + 1
COST_VOLUME_CHANNELS = _SIDE**2
ALIGNED_CHANNELS = 88
"""With a gap of zeros behind them, up to the next multiple of 8."""


def cost_volume(first: Tensor, second: Tensor) -> Tensor:
    """Return the cost volume of two (N, C, H, W) tensors; see `pwcflow.ops.cost_volume`."""
    n, c, h, w = first.shape
    dtype = sum_dtype(first)  # products of halves overflow, or lose what their sum needs
    first = first.to(dtype)
    windows = _padded(second).unfold(2, h, 1).unfold(3, w, 1)  # (N, C, 9, 9, H, W), a view
    volume = first.new_zeros((n, _SIDE, _SIDE, h, w))
    for channel in range(c):  # 3 times as fast on a CPU as one displacement after the other
        volume.addcmul_(first[:, channel, None, None], windows[:, channel])
    return (volume / c).to(second.dtype).flatten(1, 2)


def cost_volume_backward(grad: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of `first` and `second` for the gradient `grad` of their volume.

    Each has the layout of its tensor.
    """
    _, c, h, w = first.shape
    dtype = sum_dtype(first)
    padded = _padded(second)
    grad_first = torch.zeros_like(first, dtype=dtype, memory_format=torch.contiguous_format)
    grad_padded = torch.zeros_like(padded, memory_format=torch.contiguous_format)
    for channel, dy, dx in _displacements():
        weight = grad[:, channel : channel + 1].to(dtype) / c
        grad_first += weight * padded[:, :, dy : dy + h, dx : dx + w]
        grad_padded[:, :, dy : dy + h, dx : dx + w] += weight * first
    d = MAX_DISPLACEMENT
    grad_second = grad_padded[:, :, d : d + h, d : d + w]
    return (
        grad_first.to(first.dtype).contiguous(memory_format=layout_of(first)),
        grad_second.to(second.dtype).contiguous(memory_format=layout_of(second)),
    )


def _displacements() -> Iterator[tuple[int, int, int]]:
    """Yield (channel, row, column) of each window of the padded second tensor."""
    for channel in range(COST_VOLUME_CHANNELS):
        yield channel, channel // _SIDE, channel % _SIDE


def _padded(feature: Tensor) -> Tensor:
    return F.pad(feature.to(sum_dtype(feature)), (MAX_DISPLACEMENT,) * 4)
