"""Pictures that are turned upright as a camera says, before sizes are compared."""

import struct

import numpy as np
import pytest

from pwcflow.errors import ImageError
from pwcflow.pipeline import estimate_pair
from tests.fake_estimator import FakeEstimator
from tests.image_bytes import chunk
from tests.image_samples import (
    AVIF,
    DEEP,
    FLOATS,
    GRAY,
    HEIGHT,
    RGB,
    UPRIGHT,
    WIDTH,
    as_rgb,
    oriented,
    read,
)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    ("kind", "stored", "most"),
    [
        ("jpg", RGB, 3),
        ("png", RGB, 0),
        ("webp", RGB, 0),
        ("avif", RGB, 5),
        ("tif", RGB, 0),
        ("tif lzw", RGB, 0),
        ("tif gray", as_rgb(GRAY), 0),
        ("tif 16-bit", DEEP, 0),
        ("tif floats", FLOATS, 0),
        ("16-bit png", DEEP, 0),
    ],
)
def test_a_picture_is_turned_upright(tmp_path, kind, stored, most, orientation):
    if kind == "avif" and not AVIF:
        pytest.skip("OpenCV or Pillow have no AVIF here")
    image = read(tmp_path, oriented(kind, orientation))
    upright = UPRIGHT[orientation](stored)
    assert image.shape == upright.shape
    assert image.dtype == stored.dtype
    assert np.abs(image.astype(float) - upright).max() <= most


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "tif"])
def test_damaged_exif_leaves_a_picture_as_it_is_stored(tmp_path, kind):
    data = oriented(kind, 6)
    for value in (0, 9, 255):
        if kind == "tif":
            place = data.index(struct.pack("<HHIH", 274, 3, 1, 6)) + 8
        else:
            little = b"II*\0" in data
            head = struct.pack("<HHI" if little else ">HHI", 274, 3, 1)
            place = data.index(head) + 8 + (not little)
        broken = data[:place] + bytes([value]) + data[place + 1 :]
        if kind == "png":
            start = broken.index(b"eXIf")
            (length,) = struct.unpack(">I", broken[start - 4 : start])
            body = broken[start + 4 : start + 4 + length]
            broken = broken[: start - 4] + chunk(b"eXIf", body) + broken[start + 8 + length :]
        assert read(tmp_path, broken).shape == RGB.shape


def test_a_pair_is_turned_alike_before_its_sizes_are_compared(tmp_path):
    estimator = FakeEstimator()
    first, second = tmp_path / "first.jpg", tmp_path / "second.png"
    first.write_bytes(oriented("jpg", 6))
    for orientation in (6, 8):
        second.write_bytes(oriented("png", orientation))
        summary = estimate_pair(estimator.load, first, second, output=tmp_path / "a.flo", viz=None)
        assert (summary["width"], summary["height"]) == (HEIGHT, WIDTH)
    second.write_bytes(oriented("png", 1))
    message = r"first\.jpg is 21 x 35 pixels but .*second\.png is 35 x 21"
    with pytest.raises(ImageError, match=message):
        estimate_pair(estimator.load, first, second, output=tmp_path / "b.flo", viz=None)
