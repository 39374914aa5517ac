"""Files of several pictures."""

import io
import re
import struct

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow

from pwcflow.errors import ImageError
from pwcflow.image_file import read_pages
from tests.image_samples import (
    BITS,
    DEEP,
    FLOATS,
    GRAY,
    RGB,
    animation,
    as_rgb,
    palette,
    pil,
    read,
    refusal,
    tif,
)


@pytest.mark.parametrize("kind", ["gif", "webp", "png", "tiff"])
def test_a_file_of_several_pictures_is_no_image(tmp_path, kind):
    assert "holds 3 pictures, and one is needed here" in refusal(tmp_path, animation(kind))


def test_a_gif_of_one_picture_is_read_where_opencv_can(tmp_path):
    data, expected = palette("gif")
    if not cv2.haveImageWriter("a.gif"):
        pytest.skip("this OpenCV has no GIF")
    np.testing.assert_array_equal(read(tmp_path, data), expected)


@pytest.mark.parametrize(
    "pages",
    [
        np.stack([DEEP, DEEP[::-1], DEEP[:, ::-1]]),
        np.stack([RGB, RGB[::-1]]),
        np.stack([as_rgb(GRAY)[::-1], RGB]),
        np.stack([FLOATS, 1 - FLOATS]),
    ],
    ids=["16-bit", "8-bit", "turned", "floats"],
)
def test_the_pages_of_a_tiff_are_read_one_by_one(tmp_path, pages):
    for compressed in (None, "zlib"):
        path = tmp_path / "stack.tif"
        path.write_bytes(tif(pages, rowsperstrip=8, compression=compressed))
        count, pictures = read_pages(path)
        assert count == len(pages)
        for picture, page in zip(pictures, pages, strict=True):
            assert picture.dtype == page.dtype
            np.testing.assert_array_equal(picture, page)


def test_palettes_and_fax_are_read_from_every_page(tmp_path):
    frames = [Pillow.fromarray(np.roll(RGB, shift, axis=1)).quantize(16) for shift in (0, 5)]
    lines = [Pillow.fromarray(np.roll(BITS, shift, axis=1)) for shift in (0, 5)]
    for pages, options in ((frames, {}), (lines, {"compression": "group4"})):
        path = tmp_path / "stack.tif"
        pages[0].save(path, "tiff", save_all=True, append_images=pages[1:], **options)
        count, pictures = read_pages(path)
        assert count == 2
        for picture, page in zip(pictures, pages, strict=True):
            np.testing.assert_array_equal(picture, np.asarray(page.convert("RGB")))


def test_previews_and_masks_are_no_pages(tmp_path):
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        writer.write(DEEP, photometric="rgb")
        writer.write(DEEP[::2, ::2], photometric="rgb", subfiletype=1)
        writer.write(RGB, photometric="rgb", subfiletype=1)
    np.testing.assert_array_equal(read(tmp_path, file.getvalue()), DEEP)
    count, _ = read_pages(tmp_path / "image")
    assert count == 1


def test_only_a_tiff_has_pages(tmp_path):
    (tmp_path / "a.png").write_bytes(pil("png"))
    with pytest.raises(ImageError, match=r"a\.png is not a TIFF"):
        read_pages(tmp_path / "a.png")


def test_a_page_that_is_cut_off_is_told_when_its_turn_comes(tmp_path):
    path = tmp_path / "stack.tif"
    data = tif(np.stack([RGB, RGB]))
    offsets = [match.start() for match in re.finditer(struct.pack("<HHI", 273, 4, 1), data)]
    second = offsets[1] + 8
    path.write_bytes(data[:second] + struct.pack("<I", len(data)) + data[second + 4 :])
    _, pictures = read_pages(path)
    np.testing.assert_array_equal(next(pictures), RGB)
    with pytest.raises(ImageError, match="is cut short"):
        next(pictures)
