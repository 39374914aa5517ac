"""How tensors lie in memory, by strides worked out by hand."""

import pytest
import torch

from pwcflow.ops.layout import fits_packs, layout_of, pack_width, pixel_pitch, with_pitch

CHANNELS_LAST, CONTIGUOUS = torch.channels_last, torch.contiguous_format


def strided(shape, strides, *, offset=0, dtype=torch.float16):
    """Return zeros that begin `offset` elements behind a multiple of 64 bytes."""
    memory = torch.zeros(1000, dtype=dtype)
    offset += -memory.data_ptr() % 64 // memory.element_size()
    return memory.as_strided(shape, strides, memory.storage_offset() + offset)


@pytest.mark.parametrize(
    ("shape", "strides", "pitch"),
    [
        ((2, 8, 3, 5), (120, 1, 40, 8), 8),  # channels-last
        ((2, 8, 3, 5), (360, 1, 120, 24), 24),  # 8 channels of 24
        ((2, 8, 3, 5), (120, 15, 5, 1), None),  # contiguous
        ((2, 8, 3, 5), (240, 1, 80, 8), None),  # 5 pixels of rows of 10
        ((2, 8, 3, 5), (240, 1, 40, 8), None),  # every other image
        ((2, 8, 3, 5), (0, 1, 0, 0), None),  # one pixel, expanded
        ((2, 8, 3, 5), (105, 1, 35, 7), None),  # pixels that overlap
        ((2, 1, 3, 5), (15, 15, 5, 1), 1),  # contiguous, but of one channel
        # An axis of one may have any stride.
        ((1, 8, 3, 5), (7, 1, 40, 8), 8),
        ((2, 8, 1, 5), (40, 1, 7, 8), 8),
        ((2, 8, 3, 1), (24, 1, 8, 7), 8),
        ((2, 8, 1, 1), (16, 1, 7, 7), 16),
        ((1, 8, 1, 1), (7, 1, 7, 7), 8),
        ((2, 1, 3, 5), (120, 7, 40, 8), 8),
        # Nothing at all.
        ((0, 8, 3, 5), (120, 1, 40, 8), 8),
        ((0, 8, 3, 5), (120, 15, 5, 1), None),
        ((2, 8, 3, 0), (0, 1, 0, 8), 8),
    ],
)
def test_the_pitch_of_pixels(shape, strides, pitch):
    tensor = strided(shape, strides)
    assert pixel_pitch(tensor) == pitch
    assert layout_of(tensor) == (CONTIGUOUS if pitch is None else CHANNELS_LAST)


def test_what_has_no_pitch_is_copied_and_what_has_one_is_not():
    values = torch.arange(240.0).view(2, 8, 3, 5)
    copy, pitch = with_pitch(values)
    assert pitch == 8
    assert copy.stride() == (120, 1, 40, 8)
    assert torch.equal(copy, values)
    wide = torch.zeros(2, 24, 3, 5).contiguous(memory_format=CHANNELS_LAST)
    some = wide[:, 8:16]
    same, pitch = with_pitch(some)
    assert same is some
    assert pitch == 24


@pytest.mark.parametrize(
    ("dtype", "shape", "strides", "offset", "width"),
    [
        (torch.float16, (2, 8, 3, 5), (120, 1, 40, 8), 0, 8),
        (torch.float32, (2, 8, 3, 5), (120, 1, 40, 8), 0, 4),
        (torch.float64, (2, 8, 3, 5), (120, 1, 40, 8), 0, 2),
        (torch.float16, (2, 8, 3, 5), (360, 1, 120, 24), 16, 8),  # channels 16 to 23 of 24
        (torch.float16, (2, 8, 3, 5), (360, 1, 120, 24), 12, 1),  # from 24 bytes on
        (torch.float32, (2, 8, 3, 5), (360, 1, 120, 24), 12, 4),  # from 48 bytes on
        (torch.float16, (2, 4, 3, 5), (60, 1, 20, 4), 0, 1),  # half a pack
        (torch.float16, (2, 12, 3, 5), (240, 1, 80, 16), 0, 1),  # one and a half
        (torch.float16, (2, 8, 3, 5), (150, 1, 50, 10), 0, 1),  # every pixel 20 bytes on
        (torch.float16, (2, 8, 3, 5), (120, 15, 5, 1), 0, 1),  # contiguous
        (torch.float16, (1, 8, 1, 5), (7, 1, 7, 8), 0, 8),  # axes of one
    ],
)
def test_packs_are_whole_and_begin_at_multiples_of_16_bytes(dtype, shape, strides, offset, width):
    assert pack_width(strided(shape, strides, offset=offset, dtype=dtype)) == width


def test_whether_packs_fit_does_not_depend_on_how_evenly_pixels_lie():
    assert fits_packs(strided((2, 8, 3, 5), (256, 1, 64, 8)))
    assert not fits_packs(strided((2, 8, 3, 5), (256, 1, 60, 8)))
