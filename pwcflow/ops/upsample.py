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
DECODED_CHANNELS = 16
"""Of a decoder's result: flow 2, feature 2 of each of 2 x 2 finer pixels, and a gap."""
DECODED_FEATURE = slice(2, 10)
"""Where the feature is, as `F.pixel_shuffle` takes it."""


def upsample_flow(
    decoded: Tensor, weight: Tensor, bias: Tensor, flow: Tensor, packed: Tensor
) -> None:
    """Write a decoder's flow and feature at the next finer level's size; has no gradient.

    Args:
        decoded: (N, 16, H, W), any strides: in channels 0 and 1 the flow, and in channel
            2 + 4 k + 2 i + j channel k of the feature of the finer pixel (2 y + i, 2 x + j).
        weight: of the flow's transposed convolution, (2, 2, 4, 4) float32, stride 2, padding 1.
        bias: (2,) float32.
        flow: (N, 2, 2H, 2W) float32, any strides; becomes the transposed convolution of the flow.
        packed: (N, 8, 2H, 2W), float16, bfloat16 or float32, as `decoded`; neighbouring channels
            together, each pixel at a multiple of 16 bytes. Channels 0 and 1 become the flow, 2 and
            3 the feature, the rest becomes 0.

    Raises:
        ValueError: the shapes, dtypes or layouts are not what is described above.
    """
    n, _, h, w = flow.shape
    expected = ((n, DECODED_CHANNELS, h // 2, w // 2), (n, PACKED_CHANNELS, h, w))
    if h % 2 or w % 2 or (decoded.shape, packed.shape) != expected:
        raise ValueError(
            "decoded, flow and packed must be (N, 16, H, W), (N, 2, 2H, 2W) and (N, 8, 2H, 2W), "
            f"but they are {tuple(decoded.shape)}, {tuple(flow.shape)} and {tuple(packed.shape)}"
        )
    for name, tensor, shape in (("weight", weight, (2, 2, 4, 4)), ("bias", bias, (2,))):
        if tensor.shape != shape:
            raise ValueError(f"{name} must be {shape}, but it is {tuple(tensor.shape)}")
    for name, tensor in (("flow", flow), ("weight", weight), ("bias", bias)):
        if tensor.dtype != torch.float32:
            raise ValueError(f"{name} must be float32, but it is {tensor.dtype}")
    others = {"decoded": decoded, "flow": flow, "weight": weight, "bias": bias}
    for name, tensor in others.items():
        if tensor.device != packed.device:
            raise ValueError(
                f"{name} must be on {packed.device}, as packed, but it is on {tensor.device}"
            )
    check_dtype(packed)
    if decoded.dtype != packed.dtype:
        raise ValueError(
            f"decoded and packed must have one dtype, but they are {decoded.dtype} and "
            f"{packed.dtype}"
        )
    if packed.dtype == torch.float64 or not fits_packs(packed):
        raise ValueError(
            "packed must have at most 32 bits a value, and pixels of 8 values at multiples of 16 "
            f"bytes, but it is {packed.dtype} with strides {packed.stride()}"
        )
    torch.ops.pwcflow.upsample_flow(decoded, weight, bias, flow, packed)


torch.library.define(
    "pwcflow::upsample_flow",
    "(Tensor decoded, Tensor weight, Tensor bias, Tensor(a!) flow, Tensor(b!) packed) -> ()",
)


def _plain(decoded: Tensor, weight: Tensor, bias: Tensor, flow: Tensor, packed: Tensor) -> None:
    coarse = decoded[:, :2].float()
    flow.copy_(F.conv_transpose2d(coarse, weight, bias, stride=2, padding=1))
    packed[:, FLOW_PLACE] = flow
    packed[:, FEATURE_PLACE] = F.pixel_shuffle(decoded[:, DECODED_FEATURE], 2)
    packed[:, FEATURE_PLACE.stop :] = 0


torch.library.impl("pwcflow::upsample_flow", "cpu")(_plain)


@torch.library.impl("pwcflow::upsample_flow", "cuda")
def _on_gpu(decoded: Tensor, weight: Tensor, bias: Tensor, flow: Tensor, packed: Tensor) -> None:
    kernels = kernels_of_dtype("upsample.cu", ("upsample_flow",), packed.dtype, packed.device)
    if kernels is None:
        _plain(decoded, weight, bias, flow, packed)
        return
    n, _, h, w = flow.shape
    pixels = n * h * w
    if not pixels:
        return
    tensors = (decoded, weight.contiguous(), bias.contiguous(), flow, packed)
    layouts = (strides(decoded), strides(flow), strides(packed))
    launch(
        kernels["upsample_flow"],
        ceil_div(pixels, THREADS),
        (THREADS, 1, 1),
        (*tensors, *layouts, *int32(h, w), np.int64(pixels)),
    )


def _fake(decoded: Tensor, weight: Tensor, bias: Tensor, flow: Tensor, packed: Tensor) -> None:
    """Nothing is returned."""


torch.library.register_fake("pwcflow::upsample_flow", _fake)
