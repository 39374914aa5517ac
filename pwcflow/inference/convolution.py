"""Convolutions into and out of some channels of a tensor, by what is fastest for their type.

The same results on every device: what cuDNN refuses, PyTorch computes in more steps.
"""

from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow import cudnn
from pwcflow.cudnn import CudnnError, Geometry
from pwcflow.ops import bias_leaky_relu_, convolve_floats
from pwcflow.ops.append import append


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
        fused: in one kernel where that can be had, as float32 always is. It rounds to a half
            precision once, not twice; cuDNN compiles it on first use, for a quarter of a second
            and more, or in parallel with others: see `pwcflow.cudnn.planning`.
    """
    if x.dtype == torch.float32:
        convolve_floats(x, weight, bias, out, geometry, slope)
        return
    if fused:
        with suppress(CudnnError):
            cudnn.convolve(x, weight, bias, out, geometry, slope)
            return
    _convolve_alone(x, weight, out, geometry)
    bias_leaky_relu_(out, bias, slope)


def convolve_and_append(x: Tensor, weight: Tensor, bias: Tensor, slope: float) -> Tensor:
    """Return LeakyReLU of a 3 x 3 convolution plus a bias, with what it saw behind it.

    For half precision without fused convolutions: cuDNN's ready ones take and give no channels of
    a larger tensor without copies. This is one copy, in the pass for bias and LeakyReLU. Has no
    gradient.

    Args:
        x: (N, C, H, W), channels-last.
        weight: (K, C, 3, 3), channels-last, of the dtype and device of `x`.
        bias: (K,), likewise.
        slope: what negative values are multiplied by, above 0.

    Returns:
        (N, K + C, H, W), channels-last; the K channels come first.
    """
    n, _, h, w = x.shape
    y = torch.empty(
        (n, len(bias), h, w), dtype=x.dtype, device=x.device, memory_format=torch.channels_last
    )
    _convolve_alone(x, weight, y, Geometry())
    return append(y, bias, x, slope)


def _convolve_alone(x: Tensor, weight: Tensor, out: Tensor, geometry: Geometry) -> None:
    try:
        cudnn.convolve(x, weight, None, out, geometry)
    except CudnnError:
        stride, padding, dilation = geometry.stride, geometry.padding, geometry.dilation
        out.copy_(F.conv2d(x, weight, None, stride, padding, dilation))
