"""Convolutions into and out of some channels of a tensor, by cuDNN itself or else by PyTorch.

The same results on every device: what cuDNN refuses, PyTorch computes in more steps.
"""

from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow import cudnn_graph
from pwcflow.cudnn_graph import PLAIN, CudnnError, Geometry
from pwcflow.ops import bias_leaky_relu_


def convolve_into(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    out: Tensor,
    geometry: Geometry,
    slope: float,
    *,
    fused: bool = False,
) -> None:
    """Write LeakyReLU of a convolution plus a bias to `out`; has no gradient.

    Args:
        x: (N, C, H, W), channels-last, or some channels of a channels-last tensor.
        weight: (K, C, R, S), channels-last, of the dtype and device of `x`.
        bias: (K,), likewise.
        out: (N, K, H', W'), as `x`; may be other channels of the same tensor.
        geometry: stride, padding and dilation.
        slope: what negative values are multiplied by; 1 for no LeakyReLU.
        fused: in one kernel where that can be had. It rounds to a half precision once, not twice;
            cuDNN compiles it on first use, for a quarter of a second and more.
    """
    if fused:
        with suppress(CudnnError):
            cudnn_graph.convolve(x, weight, bias, out, geometry, slope)
            return
    try:
        cudnn_graph.convolve(x, weight, None, out, geometry)
    except CudnnError:
        stride, padding, dilation = geometry.stride, geometry.padding, geometry.dilation
        out.copy_(F.conv2d(x, weight, None, stride, padding, dilation))
    bias_leaky_relu_(out, bias, slope)


def transpose_into(x: Tensor, weight: Tensor, out: Tensor, geometry: Geometry) -> None:
    """Write a transposed convolution to `out`; has no gradient.

    Args:
        x: (N, C, H, W), as `convolve_into` takes it.
        weight: (C, K, R, S), channels-last.
        out: (N, K, H', W'), as `x`.
        geometry: stride and padding.
    """
    try:
        cudnn_graph.add_input_gradient(x, weight, out, geometry, beta=0.0)
    except CudnnError:
        out.copy_(
            F.conv_transpose2d(x, weight, None, stride=geometry.stride, padding=geometry.padding)
        )


def add_input_gradient(grad: Tensor, weight: Tensor, target: Tensor) -> None:
    """Add to `target`, (N, C, H, W), the gradient of the input of a PLAIN convolution.

    Args:
        grad: gradient of its result, (N, K, H, W).
        weight: (K, C, 3, 3), channels-last.
        target: some channels of a channels-last tensor.
    """
    try:
        cudnn_graph.add_input_gradient(grad, weight, target, PLAIN)
    except CudnnError:
        target += F.conv_transpose2d(grad, weight, None, padding=PLAIN.padding)


def weight_gradient(x: Tensor, grad: Tensor, weight: Tensor) -> Tensor:
    """Return the gradient of the weight of a PLAIN convolution, channels-last.

    Args:
        x: its input, (N, C, H, W), as `convolve_into` takes it.
        grad: gradient of its result, (N, K, H, W).
        weight: (K, C, 3, 3).
    """
    target = torch.empty_like(weight, memory_format=torch.channels_last)
    try:
        cudnn_graph.weight_gradient(x, grad, target, PLAIN)
    except CudnnError:
        _, found, _ = torch.ops.aten.convolution_backward(
            grad, x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
        )
        target.copy_(found)
    return target
