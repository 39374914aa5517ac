"""Convolutions of float32 on tensor cores, as exact as sums in float32 are."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.cuda_kernels import Kernel, ceil_div, int32, launch, load_kernels
from pwcflow.cudnn import Geometry
from pwcflow.ops.layout import known_pitch, pack_width, pixel_pitch

FILE = "convolution.cu"
WINDOW = (3, 3)
GAP = 4
"""Of floats behind each row in shared memory, as in convolution.cu."""
OUTPUTS_ALIGNMENT = 8
"""Channels of the result must be a multiple of it."""
BUSY_BLOCKS = 90
"""As many keep most of a large GPU busy; of fewer, smaller ones are taken."""
CAPABILITIES = {(8, 0), (9, 0), (10, 0), (10, 3)}
"""Of the GPUs whose tensor cores multiply TF32 about eight times as fast as their other units
multiply float32, or faster: there three such products take less time than one. On others they take
more. Measured on (9, 0) alone."""


class Tiling(NamedTuple):
    """What a block of the kernel owns and holds, as convolution.cu says."""

    height: int
    width: int
    outputs: int
    pixel_warps: int
    output_warps: int
    split: int
    chunk: int
    stages: int

    @property
    def symbol(self) -> str:
        """The kernel, as C++ names it."""
        return f"convolution<{', '.join(map(str, self))}>"

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.pixel_warps * self.output_warps * self.split

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        return 4 * (self.chunk + GAP) * self.stages * (self.height * self.width + self.outputs)

    def blocks(self, out: Tensor) -> int:
        """Return how many blocks cover a result (N, K, H, W)."""
        n, k, h, w = out.shape
        tiles = ceil_div(h, self.height) * ceil_div(w, self.width)
        return n * tiles * ceil_div(k, self.outputs)


LARGE_TILINGS = {
    128: [Tiling(8, 16, 128, 2, 4, 1, 32, 3), Tiling(8, 16, 64, 2, 2, 1, 32, 3)],
    96: [Tiling(8, 16, 96, 4, 3, 1, 32, 3)],
    64: [Tiling(8, 16, 64, 2, 2, 1, 32, 3)],
    32: [Tiling(8, 16, 32, 4, 1, 1, 32, 3)],
    16: [Tiling(8, 16, 16, 4, 1, 1, 32, 3)],
}
"""By the channels of a result, up to a multiple of 16, that they are fast for; largest first."""
SMALL_TILINGS = [
    Tiling(4, 8, 64, 1, 1, 4, 32, 4),
    Tiling(8, 8, 32, 2, 1, 2, 32, 3),
    Tiling(4, 8, 32, 1, 1, 8, 64, 3),
]
"""For fewer pixels, of which several warps share the sums; largest first."""
SMALLEST_TILING = Tiling(4, 8, 16, 1, 1, 16, 128, 3)

Kernels = dict[str, Kernel]


def convolve_floats(
    x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, geometry: Geometry, slope: float
) -> None:
    """Write LeakyReLU of a convolution plus a bias to `out`; has no gradient.

    On GPUs that `has_fast_floats`, with a window of 3 x 3, by a kernel that takes each number as
    the sum of two that TF32 holds, and adds up three of the four products of such sums. The result
    is the same in every run; an infinite value becomes NaN in it.

    Args:
        x: (N, C, H, W) float32, channels-last, or some channels of a channels-last tensor; the
            kernel takes a multiple of 4 channels.
        weight: (K, C, R, S) float32, channels-last; the kernel takes a K that is a multiple of 8.
        bias: (K,) float32.
        out: (N, K, H', W') float32, as `x`; may be other channels of the same tensor.
        geometry: stride, padding and dilation.
        slope: what negative values are multiplied by; 1 for no LeakyReLU.

    Raises:
        ValueError: the shapes do not fit each other, or dtype or device differ from the above.

    Source: Markidis et al., "NVIDIA Tensor Core Programmability, Performance & Precision", IPDPS
    workshops 2018; with three products, and sums taken outside tensor cores, Ootomo and Yokota,
    "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical
    peak performance", IJHPCA 2022 (arXiv 2203.03341).
    """
    _check(x, weight, bias, out, geometry)
    kernels = _kernels(x, weight, bias, out)
    if kernels is None:
        sums = F.conv2d(x, weight, bias, geometry.stride, geometry.padding, geometry.dilation)
        out.copy_(F.leaky_relu(sums, slope))
        return
    launch_convolution(kernels, tiling_for(out), x, weight, bias, out, geometry, slope)


def has_fast_floats(device: torch.device) -> bool:
    """Return whether `convolve_floats` has a kernel for a GPU that is faster than cuDNN's there.

    Compiles it on the first call, which must not happen inside a CUDA-graph capture.
    """
    return load_convolutions(device) is not None


def tiling_for(out: Tensor) -> Tiling:
    """Return the tiling for a result (N, K, H, W): the largest that fits K and keeps a GPU busy."""
    outputs = ceil_div(out.shape[1], SMALLEST_TILING.outputs) * SMALLEST_TILING.outputs
    tilings: list[Tiling] = [*LARGE_TILINGS.get(outputs, []), *SMALL_TILINGS]
    for tiling in tilings:
        if outputs % tiling.outputs == 0 and tiling.blocks(out) >= BUSY_BLOCKS:
            return tiling
    return SMALLEST_TILING


def tiled_kernels() -> list[str]:
    """Return how C++ names the kernels."""
    large = [tiling for tilings in LARGE_TILINGS.values() for tiling in tilings]
    return sorted({tiling.symbol for tiling in (*large, *SMALL_TILINGS, SMALLEST_TILING)})


def launch_convolution(
    kernels: Kernels,
    tiling: Tiling,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    out: Tensor,
    geometry: Geometry,
    slope: float,
) -> None:
    """Do what `convolve_floats` does by the kernel of one tiling; the tensors are on a GPU."""
    launch(
        kernels[tiling.symbol],
        tiling.blocks(out),
        (tiling.threads, 1, 1),
        (
            x,
            weight,
            bias,
            out,
            np.int64(known_pitch(x)),
            np.int64(known_pitch(out)),
            *int32(x.shape[1], out.shape[1], *x.shape[2:], *out.shape[2:]),
            *int32(geometry.stride, geometry.padding, geometry.dilation),
            np.float32(slope),
        ),
        shared_bytes=tiling.shared_bytes,
    )


@cache  # asked for before every launch
def load_convolutions(device: torch.device) -> Kernels | None:
    """Return the kernels by name, or None where they cannot run or are not faster than cuDNN's."""
    if torch.cuda.get_device_capability(device) not in CAPABILITIES:
        return None
    return load_kernels("pwcflow.ops", FILE, tuple(tiled_kernels()), device.index)


def _check(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, geometry: Geometry) -> None:
    """Raise `ValueError` where a kernel would read or write what is not there."""
    n, _, *size = x.shape
    k, c, *window = weight.shape
    out_size = (
        (side + 2 * geometry.padding - geometry.dilation * (taps - 1) - 1) // geometry.stride + 1
        for side, taps in zip(size, window, strict=True)
    )
    expected = {
        "x": (x, (n, c, *size)),
        "weight": (weight, weight.shape),
        "bias": (bias, (k,)),
        "out": (out, (n, k, *out_size)),
    }
    for name, (tensor, shape) in expected.items():
        if tensor.shape != shape:
            raise ValueError(
                f"{name} must be {shape} for this weight, but it is {tuple(tensor.shape)}"
            )
        if tensor.dtype != torch.float32 or tensor.device != x.device:
            raise ValueError(
                f"{name} must be float32 on {x.device}, as x, but it is {tensor.dtype} on "
                f"{tensor.device}"
            )


def _kernels(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> Kernels | None:
    """Return the kernels by name where they take the tensors; else None."""
    k, _, *window = weight.shape
    if not x.is_cuda or not out.numel() or (*window,) != WINDOW or k % OUTPUTS_ALIGNMENT:
        return None
    evenly = all(pixel_pitch(tensor) is not None for tensor in (x, out))
    packed = all(pack_width(tensor) > 1 for tensor in (x, weight, out))
    gapless = weight.is_contiguous(memory_format=torch.channels_last) and bias.is_contiguous()
    in_pairs = bias.data_ptr() % (2 * bias.element_size()) == 0
    return load_convolutions(x.device) if evenly and packed and gapless and in_pairs else None
