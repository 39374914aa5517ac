"""The cost volume on a GPU: what the kernels of cost_volume*.cu are launched with."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from pwcflow.cuda_kernels import (
    MAX_GRID,
    Dim3,
    Kernel,
    ceil_div,
    int32,
    launch,
    load_kernels,
    strides,
)
from pwcflow.ops.dtypes import SCALAR_TYPES, sum_scalar
from pwcflow.ops.kernels import has_tensor_cores
from pwcflow.ops.layout import PACK_BYTES, empty_like_layout, fits_packs
from pwcflow.ops.reference import ALIGNED_CHANNELS, MAX_DISPLACEMENT

# Each kernel's tile and block, as the comment above it says.
TILE = 16
SPAN = TILE + 2 * MAX_DISPLACEMENT
FORWARD_KERNELS = {4: ("cost_volume_large", 1), 1: ("cost_volume_small", 8)}
"""By the rows of a block: the kernel, and among how many threads it splits a pixel's channels."""
FORWARD_WORKERS = 36
CHUNK_BYTES = {1: 128, 8: 256}
"""Of the channels that pass through shared memory at a time, by that number of threads."""
ANY_CHANNELS = 1 << 31
GRADIENT_TILES = {2: {32: (4, 32), ANY_CHANNELS: (2, 64)}, 4: {ANY_CHANNELS: (4, 32)}}
"""By the bytes of a value, and by up to how many channels: rows and channels of a block of
`cost_volume_gradients_bands`. Up to 32 channels of halves waste none; for 64 of floats there is not
the shared memory."""
BANDS = {2: SPAN + 16, 4: SPAN}
"""By the bytes of a value: elements of shared memory from one pixel's band of gradients to the next
one's; `BAND` in cost_volume_gradients.cu."""
REARRANGE_TILE = 32
REARRANGE_BLOCK = (32, 8, 1)
GRADIENT_WARPS = 8

BUSY_BLOCKS = 500
"""As many blocks keep a large GPU busy; an image of fewer is cut into smaller ones."""
STRIP = 8
STRIP_BYTES = 64
"""Of the channels of a pixel that a matrix product takes at a time."""
WHOLE = {2: 1, 4: 2}
"""By the bytes of a value: how many times `STRIP_BYTES` of channels may all be loaded at once."""


class Tiling(NamedTuple):
    """What a warp of `cost_volume_strips` owns, how many of such a block has, and `AHEAD` there."""

    rows: int
    offsets: int
    across: int
    down: int
    ahead: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * (2 * MAX_DISPLACEMENT + 1) // self.offsets * self.across * self.down

    def grid(self, n: int, h: int, w: int) -> Dim3:
        """Return how many blocks cover a row and a column of n images of h x w pixels, and n."""
        return ceil_div(w, STRIP * self.across), ceil_div(h, self.rows * self.down), n


UNPACKED_TILINGS = {
    600: Tiling(2, 3, 1, 1, 1),
    150: Tiling(1, 3, 2, 1, 2),
    0: Tiling(1, 1, 1, 1, 4),
}
TILINGS = {
    (2, True, WHOLE[2]): {
        2500: Tiling(4, 9, 1, 2, 12),
        600: Tiling(2, 9, 2, 2, 10),
        0: Tiling(1, 3, 2, 1, 3),
    },
    (2, True, 0): {
        2500: Tiling(4, 3, 2, 1, 1),
        600: Tiling(2, 3, 1, 1, 1),
        150: Tiling(2, 3, 1, 1, 3),
        0: Tiling(1, 3, 1, 1, 4),
    },
    (2, False, 0): UNPACKED_TILINGS,
    (4, True, WHOLE[4]): {
        10000: Tiling(2, 9, 2, 2, 2),
        2500: Tiling(4, 9, 2, 2, 3),
        600: Tiling(2, 9, 2, 2, 2),
        0: Tiling(1, 3, 1, 1, 3),
    },
    (4, True, 0): {
        600: Tiling(2, 3, 1, 1, 1),
        150: Tiling(1, 3, 1, 1, 1),
        50: Tiling(1, 1, 1, 1, 2),
        0: Tiling(1, 1, 1, 1, 3),
    },
    (4, False, 0): UNPACKED_TILINGS,
}
"""By the bytes of a value, whether channels are loaded in packs, and the kernel's `WHOLE`: tilings,
from how many strips on."""

ANYWHERE_FILE = "cost_volume.cu"
STRIPS_FILE = "cost_volume_strips.cu"
GRADIENTS_FILE = "cost_volume_gradients.cu"

ANYWHERE = (
    "rearrange",
    "cost_volume_large",
    "cost_volume_small",
    "cost_volume_gradient_first",
    "cost_volume_gradient_second",
)

Kernels = dict[str, Kernel]
"""By name, those of one dtype on one device."""


def kernels_for(tensor: Tensor) -> Kernels | None:
    """Return the kernels for the dtype and device of `tensor`, or None where they cannot run.

    Compiles them on the first call for a dtype, which must not happen inside a CUDA-graph capture.
    """
    kernels: Kernels = {}
    for file, symbols in _symbols(tensor.dtype, has_tensor_cores(tensor.device)).items():
        loaded = load_kernels("pwcflow.ops", file, tuple(symbols.values()), tensor.device.index)
        if loaded is None:
            return None
        kernels.update((name, loaded[symbol]) for name, symbol in symbols.items())
    return kernels


@cache
def _symbols(dtype: torch.dtype, tensor_cores: bool) -> dict[str, dict[str, str]]:
    """Return how C++ names the kernels for a dtype, by their files and their names here."""
    scalar = SCALAR_TYPES[dtype]
    files = {ANYWHERE_FILE: {name: f"{name}<{scalar}>" for name in ANYWHERE}}
    if tensor_cores and dtype != torch.float64:
        strips = [
            _strips(tiling, packed, whole)
            for (size, packed, whole), tilings in TILINGS.items()
            if size == dtype.itemsize
            for tiling in tilings.values()
        ]
        gradients = [_bands(*tile) for tile in GRADIENT_TILES[dtype.itemsize].values()]
        for file, tiled in ((STRIPS_FILE, strips), (GRADIENTS_FILE, gradients)):
            files[file] = {name: name.replace("<", f"<{scalar}, ") for name in tiled}
    return files


def tiled_kernels() -> list[str]:
    """Return how C++ names the kernels whose templates take more than a type."""
    symbols = {
        symbol
        for dtype in SCALAR_TYPES
        for by_name in _symbols(dtype, True).values()
        for symbol in by_name.values()
    }
    return sorted(symbol for symbol in symbols if "," in symbol)


def cost_volume(
    kernels: Kernels, first: Tensor, second: Tensor, slope: float, volume: Tensor
) -> None:
    """Write the cost volume of two CUDA tensors after a LeakyReLU; see `pwcflow.ops.cost_volume`.

    Args:
        kernels: from `kernels_for`.
        first: (N, C, H, W), any strides.
        second: likewise.
        slope: of the LeakyReLU; 1 for none.
        volume: (N, 81, H, W), or (N, 88, H, W) for zeros behind the 81, or (N, 88 + C, H, W) for
            `first` itself behind those; any strides.
    """
    if not volume.numel():
        return
    n, c, h, w = first.shape
    filled = min(volume.shape[1], ALIGNED_CHANNELS)
    behind = volume.shape[1] > filled
    packs_in = c % (16 // first.element_size()) == 0 and fits_packs(first) and fits_packs(second)
    tensors = (first, second, volume, strides(first), strides(second), strides(volume))
    blocks: int | Dim3
    strips = any(name.startswith("cost_volume_strips") for name in kernels)
    if strips and slope <= 1 and max(n, h) <= MAX_GRID:
        packs_out = filled == ALIGNED_CHANNELS and fits_packs(volume)
        copied = behind and packs_in and packs_out
        tiling, whole = choose_tiling(first, packs_in)
        name = _strips(tiling, packs_in, whole)
        blocks, threads, shared = tiling.grid(n, h, w), tiling.threads, 0
        rest = int32(packs_out, filled, copied)
    else:
        rows = _rows(tuple(FORWARD_KERNELS), first)
        name, split = FORWARD_KERNELS[rows]
        copied = behind
        blocks = n * ceil_div(h, rows) * ceil_div(w, TILE)
        threads, shared = FORWARD_WORKERS * rows * split, _shared_bytes(first, rows, split)
        rest = int32(packs_in, filled, copied)
    launch(
        kernels[name],
        blocks,
        (threads, 1, 1),
        (*tensors, *int32(c, h, w), sum_scalar(slope, first), *rest),
        shared_bytes=shared,
    )
    if behind and not copied:
        volume[:, filled:].copy_(first)


def cost_volume_backward(
    kernels: Kernels, grad: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `first` and `second`, each in the layout of its tensor.

    Args:
        kernels: from `kernels_for`.
        grad: gradient of the cost volume, (N, 81, H, W), any strides.
        first: (N, C, H, W), any strides.
        second: likewise.
    """
    results = empty_like_layout(first), empty_like_layout(second)
    if not first.numel():
        return results
    for most, tile in GRADIENT_TILES.get(first.element_size(), {}).items():
        if first.shape[1] <= most and (on_tensor_cores := kernels.get(_bands(*tile))):
            _gradients_by_bands(on_tensor_cores, tile, grad, first, second, results)
            return results
    grad = grad.contiguous()
    _gradient(kernels, "cost_volume_gradient_first", grad, second, results[0])
    _gradient(kernels, "cost_volume_gradient_second", grad, first, results[1])
    return results


def _gradients_by_bands(
    kernel: Kernel,
    tile: tuple[int, int],
    grad: Tensor,
    first: Tensor,
    second: Tensor,
    results: tuple[Tensor, Tensor],
) -> None:
    n, c, h, w = first.shape
    rows, channels = tile
    size = first.element_size()
    pack = PACK_BYTES // size
    packs_in = c % pack == 0 and fits_packs(first) and fits_packs(second)
    pairs_out = c % pack == 0 and fits_packs(results[0]) and fits_packs(results[1])
    tensors = (grad, first, second, *results)
    launch(
        kernel,
        2 * n * ceil_div(h, rows) * ceil_div(w, TILE) * ceil_div(c, channels),
        (2 * rows * channels, 1, 1),
        (*tensors, *map(strides, tensors), *int32(c, h, w, packs_in, pairs_out)),
        shared_bytes=bands_bytes(size, rows, channels),
    )


def bands_bytes(size: int, rows: int, channels: int) -> int:
    """Return the shared memory of `cost_volume_gradients_bands`, for values of `size` bytes."""
    bands = rows * (SPAN - TILE + 1) * TILE * BANDS[size]
    pixels = (rows + 2 * MAX_DISPLACEMENT) * SPAN
    return size * (bands + pixels * (channels + PACK_BYTES // size))


def _gradient(kernels: Kernels, name: str, grad: Tensor, other: Tensor, result: Tensor) -> None:
    n, c, h, w = other.shape
    target = result if result.is_contiguous() else result.new_empty(result.shape)
    launch(
        kernels[name],
        n * h * ceil_div(w, TILE),
        (32, min(ceil_div(c, 32), GRADIENT_WARPS), 1),
        (grad, _rearranged(kernels, other), target, *int32(c, h, w)),
    )
    if target is not result:
        result.copy_(target)


def _rearranged(kernels: Kernels, feature: Tensor) -> Tensor:
    """Return (N, C, H, W) of any strides as (N, H + 8, W + 8, C), zeros around."""
    n, c, h, w = feature.shape
    pad = MAX_DISPLACEMENT
    target = feature.new_empty((n, h + 2 * pad, w + 2 * pad, c))
    tiles = ceil_div(w + 2 * pad, REARRANGE_TILE) * ceil_div(c, REARRANGE_TILE)
    launch(
        kernels["rearrange"],
        n * (h + 2 * pad) * tiles,
        REARRANGE_BLOCK,
        (feature, target, strides(feature), *int32(c, h, w, pad)),
    )
    return target


def _rows(choices: tuple[int, ...], first: Tensor) -> int:
    """Return the most rows a block may own of those that keep a GPU busy; else the fewest."""
    n, _, h, w = first.shape
    for rows in choices:
        if n * ceil_div(h, rows) * ceil_div(w, TILE) >= BUSY_BLOCKS:
            return rows
    return choices[-1]


def choose_tiling(first: Tensor, packed: bool) -> tuple[Tiling, int]:
    """Return the fastest tiling known for a tensor, and its kernel's `WHOLE`."""
    n, c, h, w = first.shape
    size = first.element_size()
    whole = WHOLE[size] if packed and c * size <= WHOLE[size] * STRIP_BYTES else 0
    strips = n * h * ceil_div(w, STRIP)
    tilings = TILINGS[size, packed, whole]
    return next(tiling for least, tiling in tilings.items() if strips >= least), whole


def _strips(tiling: Tiling, packed: bool, whole: int) -> str:
    """Return the kernel's name and its template's arguments but for the first, the type."""
    numbers = ", ".join(map(str, tiling))
    return f"cost_volume_strips<{numbers}, {str(packed).lower()}, {whole}>"


def _bands(rows: int, channels: int) -> str:
    """Return the name of the kernel of the gradients, and its template's arguments likewise."""
    return f"cost_volume_gradients_bands<{rows}, {channels}>"


def _shared_bytes(first: Tensor, rows: int, split: int) -> int:
    """Return the shared memory of the kernels that compute anything anywhere."""
    size = 8 if first.dtype == torch.float64 else 4
    pack = 16 // size
    pitch = CHUNK_BYTES[split] // size + pack
    first_rows = rows * (TILE * pitch + pack)
    return size * (first_rows + (rows + 2 * MAX_DISPLACEMENT) * (SPAN * pitch + pack))
