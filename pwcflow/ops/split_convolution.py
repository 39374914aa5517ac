"""The operator `pwcflow::split_convolution`: the network's first convolution, in two parts."""

import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.cuda_kernels import MAX_GRID, Dim3, ceil_div, int32, launch, strides
from pwcflow.ops.dtypes import HALVES, sum_scalar
from pwcflow.ops.image import IMAGE_CHANNELS, NETWORK_CHANNELS, joined_parts
from pwcflow.ops.kernels import has_tensor_cores, kernels_of_dtype
from pwcflow.ops.layout import fits_packs

THREADS = 128
"""Of a block of either kernel, as in their files."""
AT_ONCE = 2
"""Neighbouring pixels of a result that a thread owns, as in split_convolution.cu."""
STRIP = 16
"""Columns of a result that a block owns, as in split_convolution_strips.cu."""
BLOCK_ROWS = 28
"""Rows likewise: ROWS of each of its WARPS."""
MOST_THREADS = 2**31 - 1
"""Of one image, in split_convolution.cu."""
OUTPUTS = 16
WINDOW = (3, 3)


def split_convolution(
    images: Tensor, weight: Tensor, bias: Tensor, slope: float, out: Tensor
) -> None:
    """Write LeakyReLU of a convolution of images plus a bias as the sum of two halves.

    What the first layer sees and finds of a bright image of little contrast is little beside the
    image's brightness, and would be lost in what is rounded off: that was most of what float16
    differed by from float32. Has no gradient.

    Args:
        images: (N, 8, H, W) of float16 or bfloat16, as from `prepare_images`: the first three
            channels plus the next three are seen. Neighbouring channels together, each pixel at a
            multiple of 16 bytes; H, W even.
        weight: (16, 3, 3, 3) float32, of a convolution of stride 2 and padding 1. Tensor cores take
            it in two parts of the images' dtype, within whose range it must be.
        bias: (16,) float32.
        slope: what negative values are multiplied by, at most 1.
        out: (N, 32, H / 2, W / 2), as `images`. In channels 0 to 15 the result rounded to its
            dtype, in 16 to 31 what that leaves over, rounded likewise.

    Raises:
        ValueError: the shapes, dtypes, layouts or the slope are not what is described above.

    Source: the sum of two numbers for one of more digits, Dekker, "A floating-point technique for
    extending the available precision", Numerische Mathematik 1971.
    """
    fits = images.ndim == 4 and images.shape[1] == NETWORK_CHANNELS
    n, _, h, w = images.shape if fits else (0, 0, 0, 0)
    if not (fits and h and w) or h % 2 or w % 2 or out.shape != (n, 2 * OUTPUTS, h // 2, w // 2):
        raise ValueError(
            "images and out must be (N, 8, 2H, 2W) and (N, 32, H, W), but they are "
            f"{tuple(images.shape)} and {tuple(out.shape)}"
        )
    shapes = (("weight", weight, (OUTPUTS, IMAGE_CHANNELS, *WINDOW)), ("bias", bias, (OUTPUTS,)))
    for name, tensor, shape in shapes:
        if tensor.shape != shape or tensor.dtype != torch.float32:
            raise ValueError(
                f"{name} must be {shape} of float32, but it is {tuple(tensor.shape)} of "
                f"{tensor.dtype}"
            )
    for name, tensor in (("weight", weight), ("bias", bias), ("out", out)):
        if tensor.device != images.device:
            raise ValueError(
                f"{name} must be on {images.device}, as images, but it is on {tensor.device}"
            )
    if images.dtype not in HALVES or out.dtype != images.dtype:
        raise ValueError(
            "images and out must be of one dtype, float16 or bfloat16, but they are of "
            f"{images.dtype} and {out.dtype}"
        )
    if not (fits_packs(images) and fits_packs(out)):
        raise ValueError(
            "images and out must have neighbouring channels together and pixels at multiples of 16 "
            f"bytes, but their strides are {images.stride()} and {out.stride()}"
        )
    if not slope <= 1:
        raise ValueError(f"the slope must be at most 1, but it is {slope}")
    torch.ops.pwcflow.split_convolution(images, weight, bias, slope, out)


torch.library.define(
    "pwcflow::split_convolution",
    "(Tensor images, Tensor weight, Tensor bias, float slope, Tensor(a!) out) -> ()",
)


def _plain(images: Tensor, weight: Tensor, bias: Tensor, slope: float, out: Tensor) -> None:
    result = F.leaky_relu(F.conv2d(joined_parts(images), weight, bias, stride=2, padding=1), slope)
    out[:, :OUTPUTS] = result
    out[:, OUTPUTS:] = result - out[:, :OUTPUTS]


torch.library.impl("pwcflow::split_convolution", "cpu")(_plain)


@torch.library.impl("pwcflow::split_convolution", "cuda")
def _on_gpu(images: Tensor, weight: Tensor, bias: Tensor, slope: float, out: Tensor) -> None:
    if not out.numel():
        return
    chosen = choose_kernel(out, has_tensor_cores(out.device))
    if chosen is None:
        _plain(images, weight, bias, slope, out)
        return
    name, blocks = chosen
    kernels = kernels_of_dtype(f"{name}.cu", (name,), out.dtype, out.device)
    if kernels is None:
        _plain(images, weight, bias, slope, out)
        return
    launch(
        kernels[name],
        blocks,
        (THREADS, 1, 1),
        (
            *(images, weight.contiguous(), bias.contiguous(), out),
            *(strides(images), strides(out)),
            *int32(*out.shape[2:]),
            sum_scalar(slope, out),
        ),
    )


def choose_kernel(out: Tensor, tensor_cores: bool) -> tuple[str, int | Dim3] | None:
    """Return the fastest kernel that can write a result, and its blocks; None if none can.

    Args:
        out: as of `split_convolution`.
        tensor_cores: whether its device `has_tensor_cores`.
    """
    n, _, h, w = out.shape
    down = ceil_div(h, BLOCK_ROWS)
    if tensor_cores and max(n, down) <= MAX_GRID:
        return "split_convolution_strips", (ceil_div(w, STRIP), down, n)
    threads = h * ceil_div(w, AT_ONCE)
    if threads > MOST_THREADS:
        return None
    return "split_convolution", n * ceil_div(threads, THREADS)


def _fake(images: Tensor, weight: Tensor, bias: Tensor, slope: float, out: Tensor) -> None:
    """Nothing is returned."""


torch.library.register_fake("pwcflow::split_convolution", _fake)
