"""The operator `pwcflow::warp_features`, for inference only.

`pwcflow.warp.backward_warp` in one pass over channels-last features, where PyTorch takes a dozen.
It writes into a tensor that it is given, which may be some channels of a wider one; it has no
gradient.
"""

import numpy as np
import torch
from torch import Tensor

from pwcflow.cuda_kernels import PACK_BYTES, Kernel, ceil_div, int32, launch, load_kernels
from pwcflow.ops.dtypes import SCALAR_TYPES, check_dtype
from pwcflow.ops.image import MOST_PIXELS, check_out
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
    if not _has_rows(out):
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
    if not _has_rows(feature):
        feature = feature.contiguous(memory_format=torch.channels_last)
    width = min(_pack_width(feature), _pack_width(out))
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
            np.int64(_pitch(feature)),
            np.int64(_pitch(out)),
            *(np.int64(stride) for stride in flow.stride()),
            *int32(c, h, w),
        ),
    )


def _fake(feature: Tensor, flow: Tensor, scale: float, out: Tensor) -> None:
    """Write nothing: only `out` changes, and not its shape."""


torch.library.register_fake("pwcflow::warp_features", _fake)

_warp_features = torch.ops.pwcflow.warp_features.default


def _pitch(tensor: Tensor) -> int:
    """Return how many elements lie from pixel to pixel of (N, C, H, W) that `_has_rows`."""
    n, c, h, w = tensor.shape
    if w > 1:
        return tensor.stride(3)
    if h > 1:
        return tensor.stride(2)
    return tensor.stride(0) if n > 1 else c


def _has_rows(tensor: Tensor) -> bool:
    """Return whether the pixels of (N, C, H, W) lie evenly, each with its channels together.

    They do in channels-last tensors and in some channels of one.
    """
    n, c, h, w = tensor.shape
    pitch = _pitch(tensor)
    wanted = (h * w * pitch, 1, w * pitch, pitch)
    strides = zip(tensor.shape, tensor.stride(), wanted, strict=True)
    even = all(size == 1 or stride == right for size, stride, right in strides)
    return not tensor.numel() or (even and (pitch >= c or n * h * w == 1))


def _pack_width(tensor: Tensor) -> int:
    """Return how many channels the kernels take at once: what 16 bytes hold, or 1."""
    width = PACK_BYTES // tensor.element_size()
    aligned = (
        tensor.shape[1] % width == 0
        and _pitch(tensor) % width == 0
        and tensor.data_ptr() % PACK_BYTES == 0
    )
    return width if aligned else 1


def _kernels(feature: Tensor) -> dict[str, Kernel] | None:
    """Return the kernels by name for the dtype and device of `feature`; None to do without.

    Compiles them on the first call for a dtype, which must not happen inside a CUDA-graph capture.
    """
    _, _, h, w = feature.shape
    if h * w > MOST_PIXELS:
        return None
    symbols = {name: f"{name}<{SCALAR_TYPES[feature.dtype]}>" for name in KERNELS}
    kernels = load_kernels("pwcflow.ops", "warp.cu", tuple(symbols.values()), feature.device.index)
    if kernels is None:
        return None
    return {name: kernels[symbol] for name, symbol in symbols.items()}
