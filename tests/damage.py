"""Files made wrong at random, for readers that must take them or refuse them in a sentence.

    python -m tests.damage SAMPLE COUNT SEED READER

reads damaged copies of a video, COUNT of them at random, in a process that a decoder may crash or
block, and prints how many were read to their end. The one being read then stays beside the sample.
"""

import os
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pwcflow.errors import PwcFlowError
from pwcflow.frame_selection import FrameSelection
from pwcflow.video import open_frames

MUTATIONS = int(os.environ.get("PWCFLOW_MUTATIONS", "500"))
"""Of each family: images, flow files and videos; 10000 to be thorough."""
_HEADER = 700
_EXTREMES = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF]


def mutated(data: bytes, rng: np.random.Generator, header: int = _HEADER) -> bytes:
    """Return a file with some bytes changed, replaced by an extreme, taken out, added or doubled.

    Half of the damage goes where headers are.
    """
    changed = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(len(changed) if rng.random() < 0.5 else min(len(changed), header)))
        length = int(rng.integers(1, 9))
        match rng.integers(6):
            case 0:
                changed[at] ^= 1 << int(rng.integers(8))
            case 1:
                changed[at] = int(rng.integers(256))
            case 2:
                extreme = int(rng.choice(_EXTREMES))
                order = "little" if rng.random() < 0.5 else "big"
                changed[at : at + 4] = extreme.to_bytes(4, order)
            case 3:
                del changed[at : at + length]
            case 4:
                changed[at:at] = rng.bytes(length)
            case _:
                changed[at:at] = changed[at : at + length]
        if not changed:
            return b""
    return bytes(changed)


def with_true_checksums(png: bytes) -> bytes:
    """Return a PNG whose damage no checksum tells, as far as its chunks can be followed."""
    fixed, position = bytearray(png), 8
    while position + 12 <= len(fixed):
        (length,) = struct.unpack_from(">I", fixed, position)
        end = position + 8 + length
        if end + 4 > len(fixed):
            break
        struct.pack_into(">I", fixed, end, zlib.crc32(fixed[position + 4 : end]))
        position = end + 4
    return bytes(fixed)


def cuts(data: bytes) -> Iterator[bytes]:
    """Yield a file cut at bytes of its header, each if there is time, and at some later ones."""
    stride = max(1, 3000 // MUTATIONS)
    ends = {*range(0, min(_HEADER, len(data)), stride), *range(_HEADER, len(data), len(data) // 20)}
    for end in sorted(ends):
        yield data[:end]


def damaged_copies(sample: Path, count: int, seed: int) -> Iterator[bytes]:
    """Yield a file cut in many places, and `count` times damaged at random."""
    data = sample.read_bytes()
    yield from cuts(data)
    rng = np.random.default_rng(seed)
    for number in range(count):
        damaged = mutated(data, rng)
        is_png = sample.suffix == ".png" and number % 2
        yield with_true_checksums(damaged) if is_png else damaged


def read_damaged_videos(sample: Path, count: int, seed: int, reader: str) -> int:
    """Return how many damaged copies of a video were read to their end."""
    selection = FrameSelection(reader=reader)
    whole = 0
    for damaged in damaged_copies(sample, count, seed):
        path = sample.with_name(f"damaged{sample.suffix}")
        path.unlink(missing_ok=True)
        path.write_bytes(damaged)
        shapes, told = set(), str(path)
        try:
            with open_frames(path, selection) as frames:
                for frame in frames:
                    shapes.add(frame.shape)
            whole += 1
        except PwcFlowError as error:
            told = str(error)
        assert str(path) in told, told
        assert "\n" not in told, told
        assert len(shapes) <= 1, shapes
    return whole


def main() -> None:
    """Read damaged copies and print how many were read to their end."""
    sample, count, seed, reader = Path(sys.argv[1]), *sys.argv[2:5]
    whole = read_damaged_videos(sample, int(count), int(seed), reader)
    sample.with_name(f"damaged{sample.suffix}").unlink()
    print(whole)


if __name__ == "__main__":
    main()
