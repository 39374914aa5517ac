"""How the operators' tensors lie in memory, and how the kernels walk over them."""

import torch
from torch import Tensor

PACK_BYTES = 16
"""What a thread loads or stores at a time where memory allows it."""


def layout_of(tensor: Tensor) -> torch.memory_format:
    """Return the layout of what is computed from `tensor`: channels-last if it is, else contiguous.

    Some channels of a channels-last tensor count as channels-last too.
    """
    return torch.contiguous_format if pixel_pitch(tensor) is None else torch.channels_last


def empty_like_layout(tensor: Tensor) -> Tensor:
    """Return an uninitialised tensor without gaps, in the layout of what is computed from one."""
    return torch.empty_like(tensor, memory_format=layout_of(tensor))


def pixel_pitch(tensor: Tensor) -> int | None:
    """Return how many elements lie from pixel to pixel of (N, C, H, W).

    None unless the pixels lie evenly, each with its channels together and apart from the others',
    as they do in channels-last tensors and in some channels of one.
    """
    n, c, h, w = tensor.shape
    n_step, c_step, h_step, w_step = tensor.stride()
    # The step of an axis of one is never taken, and may be anything.
    pitch = w_step if w != 1 else h_step if h != 1 else n_step if n != 1 else c
    even = (
        (c == 1 or c_step == 1)
        and (h == 1 or h_step == w * pitch)
        and (n == 1 or n_step == h * w * pitch)
    )
    return pitch if even and pitch >= c else None


def known_pitch(tensor: Tensor) -> int:
    """Return the `pixel_pitch` of a tensor that is known to have one."""
    pitch = pixel_pitch(tensor)
    assert pitch is not None, f"its pixels do not lie evenly: {tensor.shape}, {tensor.stride()}"
    return pitch


def with_pitch(tensor: Tensor) -> tuple[Tensor, int]:
    """Return (N, C, H, W) and its `pixel_pitch`; of one that has none, a channels-last copy."""
    pitch = pixel_pitch(tensor)
    if pitch is None:
        return tensor.contiguous(memory_format=torch.channels_last), tensor.shape[1]
    return tensor, pitch


def pack_width(tensor: Tensor) -> int:
    """Return how many channels of (N, C, H, W) a thread may take at once: a whole pack, or 1."""
    width = PACK_BYTES // tensor.element_size()
    return width if tensor.shape[1] % width == 0 and fits_packs(tensor) else 1


def fits_packs(tensor: Tensor) -> bool:
    """Return whether the channels of (N, C, H, W) lie together, each pixel's from a whole pack on.

    Whether C itself is a multiple of a pack is for the caller to see to.
    """
    width = PACK_BYTES // tensor.element_size()
    n, c, h, w = zip(tensor.shape, tensor.stride(), strict=True)
    return (
        c[1] == 1
        and not any(size > 1 and stride % width for size, stride in (n, h, w))
        and tensor.data_ptr() % PACK_BYTES == 0
    )
