"""What a decoder's dense block is given, for training, written straight to where it is read.

    cost volume 81, 7 of zeros
    first feature, flow 2, feature 2, 4 of zeros        but for level 6

The cost volume's kernel computes its LeakyReLU, writes the zeros, and puts the first feature behind
them, as in inference.
"""

from typing import Any

import torch
from torch import Tensor

from pwcflow.ops import (
    ALIGNED_CHANNELS,
    COST_VOLUME_CHANNELS,
    FEATURE_PLACE,
    FLOW_PLACE,
    PACKED_CHANNELS,
    cost_volume_backward,
    leaky_cost_volume,
)


def decoder_input(
    first: Tensor, second: Tensor, upsampled: tuple[Tensor, Tensor] | None, slope: float
) -> Tensor:
    """Return (N, 88, H, W), or (N, 88 + C + 8, H, W) with `upsampled`; channels-last.

    It has gradients for the tensors, which have none themselves.

    Args:
        first: features of the first image, (N, C, H, W), as `cost_volume` takes them.
        second: those of the second image, warped to the first; same shape, dtype, device.
        upsampled: flow and feature from the coarser level, (N, 2, H, W) each, in the dtype of
            `first`; None at the coarsest level.
        slope: of the LeakyReLU behind the cost volume, above 0.

    Raises:
        ValueError: as `leaky_cost_volume`.
    """
    x: Tensor = _DecoderInput.apply(first, second, slope, *(upsampled or ()))  # type: ignore[no-untyped-call]
    return x


class _DecoderInput(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, slope: float, *upsampled: Tensor
    ) -> Tensor:
        n, c, h, w = first.shape
        behind = c + PACKED_CHANNELS if upsampled else 0
        x = torch.empty(
            (n, ALIGNED_CHANNELS + behind, h, w),
            dtype=first.dtype,
            device=first.device,
            memory_format=torch.channels_last,
        )
        leaky_cost_volume(first, second, slope, x[:, : ALIGNED_CHANNELS + c] if upsampled else x)
        if upsampled:
            packed = x[:, -PACKED_CHANNELS:]
            packed.zero_()
            for place, tensor in zip((FLOW_PLACE, FEATURE_PLACE), upsampled, strict=True):
                packed[:, place].copy_(tensor)
        ctx.slope = slope
        ctx.save_for_backward(first, second, x)
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        first, second, x = ctx.saved_tensors
        volume = slice(0, COST_VOLUME_CHANNELS)
        grad_volume = torch.ops.aten.leaky_relu_backward(
            grad[:, volume], x[:, volume], ctx.slope, True
        )
        grad_first, grad_second = cost_volume_backward(grad_volume, first, second)
        if x.shape[1] == ALIGNED_CHANNELS:
            return grad_first, grad_second, None
        grad_first += grad[:, ALIGNED_CHANNELS:-PACKED_CHANNELS]
        packed = grad[:, -PACKED_CHANNELS:]
        return grad_first, grad_second, None, packed[:, FLOW_PLACE], packed[:, FEATURE_PLACE]
