"""The operator `pwcflow::upsample_flow`: what a decoder hands to the next finer level."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.cuda_kernels import ceil_div, int32, launch, strides
from pwcflow.ops.dtypes import check_dtype
from pwcflow.ops.kernels import kernels_of_dtype
from pwcflow.ops.layout import fits_packs

THREADS = 256
PACKED_CHANNELS = 8
"""Flow 2, feature 2, and a gap of zeros."""
FLOW_PLACE, FEATURE_PLACE = slice(0, 2), slice(2, 4)
"""Where among them they are."""


def upsample_flow(
    coarse: Tensor,
    weight: Tensor,
    bias: Tensor,
    feature_bias: Tensor,
    flow: Tensor,
    packed: Tensor,
) -> None:
    """Write a coarse flow at twice the size, alone and beside its feature; has no gradient.

    Args:
        coarse: (N, 2, H, W) float32, any strides.
        weight: of the flow's transposed convolution, (2, 2, 4, 4) float32, stride 2, padding 1.
        bias: (2,) float32.
        feature_bias: (2,) float32, what the feature's transposed convolution left out.
        flow: (N, 2, 2H, 2W) float32, any strides; becomes the transposed convolution of `coarse`.
        packed: (N, 8, 2H, 2W), float16, bfloat16 or float32; neighbouring channels together, each
            pixel at a multiple of 16 bytes. Channels 0 and 1 become the flow, `feature_bias` is
            added to 2 and 3, the rest becomes 0.

    Raises:
        ValueError: the shapes, dtypes or layouts are not what is described above.
    """
    n, _, h, w = flow.shape
    expected = ((n, 2, h // 2, w // 2), (n, PACKED_CHANNELS, h, w))
    if h % 2 or w % 2 or (coarse.shape, packed.shape) != expected:
        raise ValueError(
            "coarse, flow and packed must be (N, 2, H, W), (N, 2, 2H, 2W) and (N, 8, 2H, 2W), but "
            f"they are {tuple(coarse.shape)}, {tuple(flow.shape)} and {tuple(packed.shape)}"
        )
    parameters = [
        ("weight", weight, (2, 2, 4, 4)),
        ("bias", bias, (2,)),
        ("feature_bias", feature_bias, (2,)),
    ]
    for name, tensor, shape in parameters:
        if tensor.shape != shape:
            raise ValueError(f"{name} must be {shape}, but it is {tuple(tensor.shape)}")
    exact = {"coarse": coarse, "flow": flow} | {name: tensor for name, tensor, _ in parameters}
    for name, tensor in exact.items():
        if tensor.dtype != torch.float32:
            raise ValueError(f"{name} must be float32, but it is {tensor.dtype}")
        if tensor.device != packed.device:
            raise ValueError(
                f"{name} must be on {packed.device}, as packed, but it is on {tensor.device}"
            )
    check_dtype(packed)
    if packed.dtype == torch.float64 or not fits_packs(packed):
        raise ValueError(
            "packed must have at most 32 bits a value, and pixels of 8 values at multiples of 16 "
            f"bytes, but it is {packed.dtype} with strides {packed.stride()}"
        )
    torch.ops.pwcflow.upsample_flow(coarse, weight, bias, feature_bias, flow, packed)


torch.library.define(
    "pwcflow::upsample_flow",
    "(Tensor coarse, Tensor weight, Tensor bias, Tensor feature_bias, Tensor(a!) flow, "
    "Tensor(b!) packed) -> ()",
)


def _plain(
    coarse: Tensor,
    weight: Tensor,
    bias: Tensor,
    feature_bias: Tensor,
    flow: Tensor,
    packed: Tensor,
) -> None:
    flow.copy_(F.conv_transpose2d(coarse, weight, bias, stride=2, padding=1))
    packed[:, FLOW_PLACE] = flow
    feature = packed[:, FEATURE_PLACE]
    feature.copy_(feature.float() + feature_bias.view(-1, 1, 1))
    packed[:, FEATURE_PLACE.stop :] = 0


torch.library.impl("pwcflow::upsample_flow", "cpu")(_plain)


@torch.library.impl("pwcflow::upsample_flow", "cuda")
def _on_gpu(
    coarse: Tensor,
    weight: Tensor,
    bias: Tensor,
    feature_bias: Tensor,
    flow: Tensor,
    packed: Tensor,
) -> None:
    kernels = kernels_of_dtype("upsample.cu", ("upsample_flow",), packed.dtype, packed.device)
    if kernels is None:
        _plain(coarse, weight, bias, feature_bias, flow, packed)
        return
    n, _, h, w = flow.shape
    pixels = n * h * w
    if not pixels:
        return
    tensors = (
        coarse,
        *(parameter.contiguous() for parameter in (weight, bias, feature_bias)),
        flow,
        packed,
    )
    layouts = (strides(coarse), strides(flow), strides(packed))
    launch(
        kernels["upsample_flow"],
        ceil_div(pixels, THREADS),
        (THREADS, 1, 1),
        (*tensors, *layouts, *int32(h, w), np.int64(pixels)),
    )


def _fake(
    coarse: Tensor,
    weight: Tensor,
    bias: Tensor,
    feature_bias: Tensor,
    flow: Tensor,
    packed: Tensor,
) -> None:
    """Nothing is returned."""


torch.library.register_fake("pwcflow::upsample_flow", _fake)
