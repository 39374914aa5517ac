"""A decoder's cost volume and dense block as one differentiable function on a GPU.

Everything is written into the one channels-last tensor where the next convolution reads it, and
gradients are added up in another of the same shape: no concatenations, no additions. See
`pwcflow.inference` for the order of the channels.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pwcflow import cudnn_graph
from pwcflow.convolution import add_input_gradient, convolve_into, weight_gradient
from pwcflow.cudnn_graph import PLAIN
from pwcflow.network import LEAKY_SLOPE
from pwcflow.ops import (
    ALIGNED_CHANNELS,
    COST_VOLUME_CHANNELS,
    FEATURE_PLACE,
    FLOW_PLACE,
    PACKED_CHANNELS,
    bias_leaky_relu_backward,
    cost_volume_backward,
    leaky_cost_volume,
)

Gradients = tuple[Tensor | None, ...]


def pays(first: Tensor) -> bool:
    """Return whether `matched_block` of such features is the faster way."""
    return first.is_cuda and first.element_size() == 2 and cudnn_graph.is_available()


def matched_block(
    first: Tensor,
    second: Tensor,
    coarser: tuple[Tensor, Tensor] | None,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> Tensor:
    """Return a decoder's features: what it compares, and its convolutions of all that.

    Args:
        first: features of the first images, (N, C, H, W), channels-last.
        second: features of the second ones, warped to the first; likewise.
        coarser: upsampled flow and feature of the coarser level, (N, 2, H, W) each.
        weights: of the dense block's convolutions, (K, ..., 3, 3), channels-last.
        biases: (K,) each.

    Returns:
        (N, sum of K + 88, H, W), or with `coarser` (N, sum of K + 88 + C + 8, H, W),
        channels-last: the convolutions' results, last one first; the cost volume and 7 channels of
        zeros; then `first`, flow, feature and 4 channels of zeros.
    """
    flow, feature = coarser if coarser else (None, None)
    result: Tensor = _MatchedBlock.apply(  # type: ignore[no-untyped-call]
        first, second, flow, feature, *weights, *biases
    )
    return result


class _MatchedBlock(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        flow: Tensor | None,
        feature: Tensor | None,
        *parameters: Tensor,
    ) -> Tensor:
        weights, biases = _halves(parameters)
        n, c, h, w = first.shape
        grown = sum(len(bias) for bias in biases)
        matched = ALIGNED_CHANNELS if flow is None else ALIGNED_CHANNELS + c
        packed = 0 if flow is None else PACKED_CHANNELS
        x = first.new_empty((n, h, w, grown + matched + packed)).permute(0, 3, 1, 2)
        leaky_cost_volume(first, second, LEAKY_SLOPE, x[:, grown : grown + matched])
        if flow is not None and feature is not None:
            gap = flow.new_zeros(()).expand(n, PACKED_CHANNELS - FEATURE_PLACE.stop, h, w)
            x[:, -PACKED_CHANNELS:] = torch.cat((flow, feature, gap), dim=1)
        place = grown
        for weight, bias in zip(weights, biases, strict=True):
            start = place - len(bias)
            convolve_into(x[:, place:], weight, bias, x[:, start:place], PLAIN, LEAKY_SLOPE)
            place = start
        ctx.save_for_backward(x, first, second, *weights)
        ctx.widths = [len(bias) for bias in biases]
        ctx.with_coarser = flow is not None
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        x, first, second, *weights = ctx.saved_tensors
        c = first.shape[1]
        # What the convolutions hand down is added to it; the caller's own must stay.
        total = grad.clone(memory_format=torch.channels_last)
        place = 0
        of_weights: list[Tensor] = []
        of_biases: list[Tensor] = []
        for weight, width in reversed(list(zip(weights, ctx.widths, strict=True))):
            behind = place + width
            result = slice(place, behind)
            of_result, of_bias = bias_leaky_relu_backward(
                total[:, result], x[:, result], LEAKY_SLOPE
            )
            of_weights.insert(0, weight_gradient(x[:, behind:], of_result, weight))
            add_input_gradient(of_result, weight, total[:, behind:])
            of_biases.insert(0, of_bias)
            place = behind
        volume = slice(place, place + ALIGNED_CHANNELS)
        of_volume, _ = bias_leaky_relu_backward(total[:, volume], x[:, volume], LEAKY_SLOPE)
        of_first, of_second = cost_volume_backward(
            of_volume[:, :COST_VOLUME_CHANNELS], first, second
        )
        of_flow = of_feature = None
        if ctx.with_coarser:
            of_first += total[:, volume.stop : volume.stop + c]
            packed = total[:, volume.stop + c :]
            of_flow, of_feature = packed[:, FLOW_PLACE], packed[:, FEATURE_PLACE]
        return of_first, of_second, of_flow, of_feature, *of_weights, *of_biases


def _halves(parameters: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    half = len(parameters) // 2
    return parameters[:half], parameters[half:]
