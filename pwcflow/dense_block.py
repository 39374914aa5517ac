"""A dense block for training: as PyTorch computes it, without the passes that only move memory.

Each layer sees all that the block was given and all that the layers before it found. Written with
`torch.cat`, every layer costs a copy of it all forward, and two passes over it all backward, in
which gradients of the same channels meet. Here a layer's bias, its LeakyReLU and the copy are one
pass, and gradients lie where they were computed until a layer needs the sum of some of their
channels.

Source: Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks", CVPR
2017, section 3 (arXiv 1608.06993), with the results in the order of PWC-Net's released models.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.ops.append import MOST_PARTS, add_up, append, append_backward


def dense_block(x: Tensor, layers: Sequence[tuple[Tensor, Tensor]], slope: float) -> Tensor:
    """Return the results of all layers, the last one first, and then what the block was given.

    Args:
        x: (N, C, H, W), float16, bfloat16, float32 or float64; the CUDA kernels take channels-last
            ones whose channels are multiples of 16 bytes, PyTorch computes the others.
        layers: the weight (K, C', 3, 3) and the bias (K,) of each convolution, whose C' is the C of
            `x` and the K of the layers before it; of the dtype of `x`; fewer than MOST_PARTS.
        slope: of the LeakyReLU behind each, above 0.

    Returns:
        (N, C + the sum of K, H, W), in the dtype of `x`. It has gradients for `x` and the layers,
        which have none themselves.
    """
    assert len(layers) < MOST_PARTS
    flat = [parameter for layer in layers for parameter in layer]
    block: Tensor = _DenseBlock.apply(x, slope, *flat)  # type: ignore[no-untyped-call]
    return block


class _DenseBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float, *parameters: Tensor) -> Tensor:
        weights, biases = parameters[::2], parameters[1::2]
        seen = [x]
        for weight, bias in zip(weights, biases, strict=True):
            y = F.conv2d(seen[-1], weight, None, 1, 1)
            seen.append(append(y, bias, seen[-1], slope))
        ctx.slope = slope
        ctx.save_for_backward(*seen, *weights)
        return seen[-1]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.saved_tensors) // 2
        seen, weights = ctx.saved_tensors[: count + 1], ctx.saved_tensors[count + 1 :]
        # The gradients of what each layer saw. The channels of one are the last of the next.
        gradients = [grad]
        of_parameters: list[Tensor] = []
        for before, after, weight in zip(seen[-2::-1], seen[:0:-1], weights[::-1], strict=True):
            width = after.shape[1] - before.shape[1]
            parts = [part[:, -after.shape[1] :][:, :width] for part in gradients]
            grad_y, grad_bias = append_backward(parts, after[:, :width], ctx.slope)
            grad_before, grad_weight, _ = torch.ops.aten.convolution_backward(
                grad_y,
                before,
                weight,
                None,
                (1, 1),
                (1, 1),
                (1, 1),
                False,
                (0, 0),
                1,
                (True, True, False),
            )
            gradients.append(grad_before)
            of_parameters = [grad_weight, grad_bias, *of_parameters]
        grad_x = add_up([part[:, -seen[0].shape[1] :] for part in gradients])
        return grad_x, None, *of_parameters
