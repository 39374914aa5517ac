"""How many blocks walk over the pixels, worked out by hand."""

import pytest
import torch

from pwcflow.ops.pixel_rows import grid


@pytest.mark.parametrize(
    ("shape", "width", "most_blocks", "expected"),
    [
        # 16 packs, so 16 pixels at a time: one block has enough for 15.
        ((1, 128, 3, 5), 8, 1056, (1, 1)),
        # 5 packs, so 51 pixels at a time, of 3,034: 59 blocks would leave 25 of them.
        ((2, 40, 37, 41), 8, 1056, (1, 60)),
        ((2, 40, 37, 41), 8, 24, (1, 24)),
        # 600 channels one by one take three blocks of 256 threads, which share 20 blocks.
        ((1, 600, 10, 10), 1, 20, (3, 6)),
        ((1, 600, 10, 10), 1, 2, (3, 1)),
    ],
)
def test_blocks_by_hand(shape, width, most_blocks, expected):
    assert grid(torch.empty(shape, device="meta"), width, most_blocks) == expected
