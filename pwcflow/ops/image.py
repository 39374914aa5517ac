"""The operators `pwcflow::prepare_images` and `pwcflow::finish_flow`, for inference only.

Images into what the network sees, and what it says into flow in pixels of the image: each in one
pass, where PyTorch takes half a dozen. They write into a tensor that they are given, so that a CUDA
graph can; they have no gradient.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.cuda_kernels import Kernel, ceil_div, int32, launch
from pwcflow.ops.dtypes import check_dtype, sum_dtype
from pwcflow.ops.kernels import kernels_of_dtype

THREADS = 256
"""Of a block, as in image.cu."""
IMAGE_CHANNELS = 3
"""Blue, green, red."""
NETWORK_CHANNELS = 8
"""Blue, green, red, what rounding left over of them, and zeros, as in image.cu."""
FLOW_SCALE = 20.0
"""Pixels of the network's image in one unit of its flow, at every level."""
FLOW_STRIDE = 4
"""Pixels of the network's image, in each axis, to one of its flow."""
FULL_SCALES = {torch.uint8: 255.0, torch.uint16: 65535.0, torch.float32: 1.0}
"""What is white, by the dtype of an image."""
MOST_PIXELS = 2**31 - 1
"""Of one image, in the kernels."""
PIXEL_BYTES = 16
FLOW_BYTES = 8
"""What the kernels write at once must begin at a multiple of its size."""


def prepare_images(
    pixels: Tensor, height: int, width: int, dtype: torch.dtype, out: Tensor | None = None
) -> Tensor:
    """Return images as the network wants them: resized, in 0..1, BGR, in two parts.

    Args:
        pixels: (N, H, W, C), contiguous; C = 1 (gray), 3 (RGB) or 4 (RGB and alpha, which is
            ignored); uint8, uint16, or float32 in 0..1.
        height: of the result, in pixels, from 1 on.
        width: likewise.
        dtype: of the result: float16, bfloat16, float32 or float64.
        out: what to write into and return; None to make one. (N, 8, height, width), channels-last
            without gaps, of this dtype and on the device of `pixels`.

    Returns:
        (N, 8, height, width), channels-last: blue, green, red, what rounding to `dtype` left over
        of each, rounded likewise, and two channels of zeros. Bilinear with `align_corners=False`,
        as `F.interpolate`: pixel centres are at halves. An axis that keeps its size is not
        filtered. Computed in float32.

    Raises:
        ValueError: shapes, dtypes, layouts or devices are not what is described above.
    """
    if pixels.ndim != 4 or pixels.shape[3] not in (1, 3, 4) or 0 in pixels.shape[1:]:
        raise ValueError(
            "pixels must be (N, H, W, C) with C = 1, 3 or 4, but their shape is "
            f"{tuple(pixels.shape)}"
        )
    if pixels.dtype not in FULL_SCALES or not pixels.is_contiguous():
        allowed = ", ".join(str(dtype) for dtype in FULL_SCALES)
        raise ValueError(
            f"pixels must be contiguous and one of {allowed}, but they are {pixels.dtype} with the "
            f"strides {pixels.stride()}"
        )
    _check_size(height, width)
    shape = (pixels.shape[0], NETWORK_CHANNELS, height, width)
    if out is None:
        out = torch.empty(
            shape, dtype=dtype, device=pixels.device, memory_format=torch.channels_last
        )
    check_out(out, shape, dtype, pixels.device)
    check_dtype(out)
    if not out.permute(0, 2, 3, 1).is_contiguous():
        raise ValueError(f"out must be channels-last, but its strides are {out.stride()}")
    _prepare_images(pixels, out)
    return out


def joined_parts(images: Tensor) -> Tensor:
    """Return (N, 3, H, W) float32 of (N, 8, H, W) of `prepare_images`: both parts added up."""
    rounded, left_over, _ = images.tensor_split((IMAGE_CHANNELS, 2 * IMAGE_CHANNELS), dim=1)
    return rounded.float() + left_over.float()


def finish_flow(
    flow: Tensor,
    height: int,
    width: int,
    out: Tensor | None = None,
    finite: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the network's flow at the size of the image and in its pixels.

    The network saw the image stretched to 4 h x 4 w, each axis by its own factor: its flow shrinks
    back by the same factors.

    Args:
        flow: (N, 2, h, w), in units of 20 px of the network's image, 4 h x 4 w; channel 0 is u
            (right), 1 is v (down); float16, bfloat16, float32 or float64; any strides.
        height: of the image, in pixels, from 1 on.
        width: likewise.
        out: what to write into and return; None to make one. (N, height, width, 2), contiguous,
            float32, on the device of `flow`.
        finite: likewise for what is told of it. (N,), contiguous, bool, on the device of `flow`.

    Returns:
        The flow, (N, height, width, 2), contiguous, float32: u, v in pixels of the image. Bilinear
        with `align_corners=False`, as `F.interpolate`; in float32 (float64 for float64). And of
        each image whether all numbers of its flow are finite, (N,) bool.

    Raises:
        ValueError: shapes, dtypes, layouts or devices are not what is described above.
    """
    if flow.ndim != 4 or flow.shape[1] != 2 or 0 in flow.shape[2:]:
        raise ValueError(f"flow must be (N, 2, h, w), but its shape is {tuple(flow.shape)}")
    check_dtype(flow)
    _check_size(height, width)
    shape = (flow.shape[0], height, width, 2)
    if out is None:
        out = flow.new_empty(shape, dtype=torch.float32)
    if finite is None:
        finite = flow.new_empty(shape[:1], dtype=torch.bool)
    check_out(out, shape, torch.float32, flow.device)
    check_out(finite, shape[:1], torch.bool, flow.device, name="finite")
    for name, tensor in (("out", out), ("finite", finite)):
        if not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous, but its strides are {tensor.stride()}")
    _finish_flow(flow, out, finite)
    return out, finite


def check_out(
    out: Tensor,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    *,
    name: str = "out",
) -> None:
    """Raise `ValueError` unless a result of such a kind can be written into `out`."""
    if out.shape != shape or out.dtype != dtype or out.device != device:
        raise ValueError(
            f"{name} must be {shape}, {dtype} on {device}, but it is {tuple(out.shape)}, "
            f"{out.dtype} on {out.device}"
        )


def _check_size(height: int, width: int) -> None:
    if height < 1 or width < 1:
        raise ValueError(f"height and width must be 1 or more, but they are {height} and {width}")


def _plain_images(pixels: Tensor, out: Tensor) -> None:
    """Compute the operator's result in plain PyTorch."""
    images = pixels.permute(0, 3, 1, 2).to(torch.float32) / FULL_SCALES[pixels.dtype]
    if images.shape[1] == 1:
        images = images.expand(-1, IMAGE_CHANNELS, -1, -1)
    images = images[:, :IMAGE_CHANNELS].flip(1)
    if images.shape[2:] != out.shape[2:]:
        images = F.interpolate(images, out.shape[2:], mode="bilinear", align_corners=False)
    rounded, left_over, zeros = out.tensor_split((IMAGE_CHANNELS, 2 * IMAGE_CHANNELS), dim=1)
    rounded.copy_(images)
    left_over.copy_(images - rounded)
    zeros.zero_()


def _plain_flow(flow: Tensor, out: Tensor, finite: Tensor) -> None:
    """Compute the operator's result in plain PyTorch."""
    _, height, width, _ = out.shape
    factor_u, factor_v = _factors(flow, height, width)
    flow = flow.to(sum_dtype(flow))
    flow = F.interpolate(flow, (height, width), mode="bilinear", align_corners=False)
    out[..., 0].copy_(flow[:, 0] * factor_u)
    out[..., 1].copy_(flow[:, 1] * factor_v)
    torch.all(out.isfinite().flatten(1), dim=1, out=finite)


def _factors(flow: Tensor, height: int, width: int) -> tuple[float, float]:
    """Return the image's pixels, right and down, in one unit of the network's flow."""
    _, _, h, w = flow.shape
    return FLOW_SCALE * width / (FLOW_STRIDE * w), FLOW_SCALE * height / (FLOW_STRIDE * h)


torch.library.define("pwcflow::prepare_images", "(Tensor pixels, Tensor(a!) out) -> ()")
torch.library.define(
    "pwcflow::finish_flow", "(Tensor flow, Tensor(a!) out, Tensor(b!) finite) -> ()"
)
torch.library.impl("pwcflow::prepare_images", "cpu")(_plain_images)
torch.library.impl("pwcflow::finish_flow", "cpu")(_plain_flow)


@torch.library.impl("pwcflow::prepare_images", "cuda")
def _images_on_gpu(pixels: Tensor, out: Tensor) -> None:
    if not out.numel():
        return
    n, source_height, source_width, channels = pixels.shape
    _, _, height, width = out.shape
    name = f"prepare_images_{str(pixels.dtype).removeprefix('torch.')}"
    kernel = _kernel(name, out.dtype, out, PIXEL_BYTES, height * width)
    if kernel is None:
        _plain_images(pixels, out)
        return
    launch(
        kernel,
        n * ceil_div(height * width, THREADS),
        (THREADS, 1, 1),
        (
            pixels,
            out,
            np.float32(FULL_SCALES[pixels.dtype]),
            np.float32(source_height / height),
            np.float32(source_width / width),
            *int32(channels, source_height, source_width, height, width),
        ),
    )


@torch.library.impl("pwcflow::finish_flow", "cuda")
def _flow_on_gpu(flow: Tensor, out: Tensor, finite: Tensor) -> None:
    if not out.numel():
        return
    n, _, source_height, source_width = flow.shape
    _, height, width, _ = out.shape
    kernel = _kernel("finish_flow", flow.dtype, out, FLOW_BYTES, height * width)
    if kernel is None:
        _plain_flow(flow, out, finite)
        return
    finite.fill_(True)
    real = np.float64 if flow.dtype == torch.float64 else np.float32
    scales = source_height / height, source_width / width
    launch(
        kernel,
        n * ceil_div(height * width, THREADS),
        (THREADS, 1, 1),
        (
            flow,
            out,
            finite,
            *(real(value) for value in (*_factors(flow, height, width), *scales)),
            *(np.int64(stride) for stride in flow.stride()),
            *int32(source_height, source_width, height, width),
        ),
    )


def _fake_images(pixels: Tensor, out: Tensor) -> None:
    """Write nothing: only `out` changes, and not its shape."""


def _fake_flow(flow: Tensor, out: Tensor, finite: Tensor) -> None:
    """Write nothing: only `out` and `finite` change, and not their shapes."""


torch.library.register_fake("pwcflow::prepare_images", _fake_images)
torch.library.register_fake("pwcflow::finish_flow", _fake_flow)

_prepare_images = torch.ops.pwcflow.prepare_images.default
_finish_flow = torch.ops.pwcflow.finish_flow.default


def _kernel(
    name: str, dtype: torch.dtype, out: Tensor, alignment: int, pixels: int
) -> Kernel | None:
    """Return a kernel of image.cu for a dtype and the device of `out`; None to do without."""
    if out.data_ptr() % alignment or pixels > MOST_PIXELS:
        return None
    kernels = kernels_of_dtype("image.cu", (name,), dtype, out.device)
    return None if kernels is None else kernels[name]
