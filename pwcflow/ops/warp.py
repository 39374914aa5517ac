"""The operator `pwcflow::warp_features`, for inference only.

`pwcflow.warp.backward_warp` in one pass over channels-last features, where PyTorch takes a dozen.
It writes into a tensor that it is given, which may be some channels of a wider one; it has no
gradient.
"""

import numpy as np
import torch
from torch import Tensor

from pwcflow.cuda_kernels import Kernel, ceil_div, int32, launch
from pwcflow.ops.dtypes import check_dtype
from pwcflow.ops.image import MOST_PIXELS, check_out
from pwcflow.ops.kernels import kernels_of_dtype
from pwcflow.ops.layout import known_pitch, pack_width, pixel_pitch, with_pitch
from pwcflow.warp import backward_warp

THREADS = 256
"""Of a block, as in warp.cu."""
KERNELS = ("warp_features_packs", "warp_features_scalars")


def warp_features(feature: Tensor, flow: Tensor, scale: float, out: Tensor | None = None) -> Tensor:
    """Return `feature` sampled at each pixel's position displaced by `flow * scale`.

    Args:
        feature: features of the second image, (N, C, H, W); float16, bfloat16, float32 or
            float64; channels-last, or some channels of such a tensor (others are copied first).
        flow: (N, 2, H, W), float32, any strides; channel 0 points right, channel 1 points down.
        scale: pixels of this pyramid level in one unit of `flow`.
        out: what to write into and return; None to make one. Of the shape, dtype and device of
            `feature`, channels-last or some channels of such a tensor; not in the memory of
            `feature` or `flow`.

    Returns:
        (N, C, H, W), channels-last or `out`, in the dtype of `feature`: what
        `backward_warp(feature, flow * scale)` returns. Positions and sums are in float32 (float64
        for float64) and rounded once. 0 where the flow is not finite, which is for a GPU only:
        what a CPU gives there may be NaN.

    Raises:
        ValueError: shapes, dtypes, layouts or devices are not what is described above.
    """
    if feature.ndim != 4:
        raise ValueError(f"feature must be (N, C, H, W), but it is {tuple(feature.shape)}")
    n, _, h, w = feature.shape
    if flow.shape != (n, 2, h, w):
        raise ValueError(f"flow must be {(n, 2, h, w)}, but it is {tuple(flow.shape)}")
    if flow.dtype != torch.float32 or flow.device != feature.device:
        raise ValueError(
            f"flow must be torch.float32 on {feature.device}, but it is {flow.dtype} on "
            f"{flow.device}"
        )
    check_dtype(feature)
    if out is None:
        out = torch.empty(
            feature.shape,
            dtype=feature.dtype,
            device=feature.device,
            memory_format=torch.channels_last,
        )
    check_out(out, tuple(feature.shape), feature.dtype, feature.device)
    if out.numel() and pixel_pitch(out) is None:
        raise ValueError(
            "out must be channels-last or some channels of such a tensor, but its strides are "
            f"{out.stride()}"
        )
    _warp_features(feature, flow, scale, out)
    return out


def _plain(feature: Tensor, flow: Tensor, scale: float, out: Tensor) -> None:
    """Compute the operator's result in plain PyTorch."""
    if out.numel():
        out.copy_(backward_warp(feature, flow * scale))


torch.library.define(
    "pwcflow::warp_features", "(Tensor feature, Tensor flow, float scale, Tensor(a!) out) -> ()"
)
torch.library.impl("pwcflow::warp_features", "cpu")(_plain)


@torch.library.impl("pwcflow::warp_features", "cuda")
def _on_gpu(feature: Tensor, flow: Tensor, scale: float, out: Tensor) -> None:
    if not out.numel():
        return
    n, c, h, w = feature.shape
    kernels = _kernels(feature)
    if kernels is None:
        _plain(feature, flow, scale, out)
        return
    feature, feature_pitch = with_pitch(feature)
    width = min(pack_width(feature), pack_width(out))
    pixels_per_block = THREADS // min(c // width, THREADS)
    launch(
        kernels["warp_features_packs" if width > 1 else "warp_features_scalars"],
        n * ceil_div(h * w, pixels_per_block),
        (THREADS, 1, 1),
        (
            feature,
            flow,
            out,
            np.float32(scale),
            np.int64(feature_pitch),
            np.int64(known_pitch(out)),
            *(np.int64(stride) for stride in flow.stride()),
            *int32(c, h, w),
        ),
    )


def _fake(feature: Tensor, flow: Tensor, scale: float, out: Tensor) -> None:
    """Write nothing: only `out` changes, and not its shape."""


torch.library.register_fake("pwcflow::warp_features", _fake)

_warp_features = torch.ops.pwcflow.warp_features.default


def _kernels(feature: Tensor) -> dict[str, Kernel] | None:
    """Return the kernels by name for the dtype and device of `feature`; None to do without."""
    _, _, h, w = feature.shape
    if h * w > MOST_PIXELS:
        return None
    return kernels_of_dtype("warp.cu", KERNELS, feature.dtype, feature.device)
