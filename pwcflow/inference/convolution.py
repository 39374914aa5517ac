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
    try:
        cudnn.convolve(x, weight, None, out, geometry)
    except CudnnError:
        stride, padding, dilation = geometry.stride, geometry.padding, geometry.dilation
        out.copy_(F.conv2d(x, weight, None, stride, padding, dilation))
    bias_leaky_relu_(out, bias, slope)
