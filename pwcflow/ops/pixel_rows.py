"""How many blocks the kernels are launched with that walk over pixels as pixel_rows.cuh says."""

from torch import Tensor

from pwcflow.cuda_kernels import ceil_div

THREADS = 256
"""Of a block, as in pixel_rows.cuh."""
FORWARD_BLOCKS = 132 * 8
BACKWARD_BLOCKS = 132 * 5
"""At most: as many as an H200 holds at a time, each of which walks over many pixels."""


def grid(tensor: Tensor, width: int, most_blocks: int) -> tuple[int, int]:
    """Return how many blocks lie over the channels, and how many over the pixels.

    As `Place` in pixel_rows.cuh reckons; with more blocks over the pixels than rows of them, some
    would have nothing to do.

    Args:
        tensor: what is written, (N, C, H, W), not empty.
        width: channels that a thread takes at once.
        most_blocks: what their product is at most, if the channels need no more.
    """
    n, c, h, w = tensor.shape
    packs = c // width
    lanes = min(packs, THREADS)
    groups = ceil_div(packs, lanes)
    chunks = ceil_div(n * h * w, THREADS // lanes)
    return groups, min(chunks, max(most_blocks // groups, 1))
