"""Every kind of image, compared by value with what the network gets to see; and writing."""

import io
import os
import struct
import sys
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow

from pwcflow.image_file import read_image, read_rgba, write_image
from tests.image_samples import (
    AVIF,
    DEEP,
    EXACT_KINDS,
    FLOATS,
    GRAY,
    HEIGHT,
    INKS,
    RGB,
    RGBA,
    WIDTH,
    as_rgb,
    bits_bmp,
    cmyk,
    light,
    pil,
    read,
)


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_every_kind_is_read_value_by_value(tmp_path, kind, capfd):
    data, expected = EXACT_KINDS[kind]
    image = read(tmp_path, data)
    assert image.dtype == expected.dtype
    np.testing.assert_array_equal(image, expected)
    assert capfd.readouterr() == ("", "")


def test_16_bit_colours_of_bmp_come_close(tmp_path):
    assert np.abs(read(tmp_path, bits_bmp()).astype(int) - RGB).max() <= 8


@pytest.mark.parametrize(
    ("data", "expected", "most"),
    [
        (pil("jpeg", quality=100, subsampling=0), RGB, 3),
        (pil("jpeg", quality=100, subsampling=0, progressive=True), RGB, 3),
        (pil("jpeg", GRAY, quality=100), as_rgb(GRAY), 3),
        (cmyk("jpeg", quality=100), light(INKS, 255), 5),
        (AVIF and pil("avif", quality=100, subsampling="4:4:4"), RGB, 5),
        (pil("tiff", compression="jpeg", quality=100), RGB, 40),  # half the colours' resolution
        (pil("tiff", mode="YCbCr"), RGB, 4),
        (pil("tiff", mode="LAB"), None, 0),
        (pil("webp", quality=100), RGB, 40),
    ],
    ids=["jpg", "progressive", "gray jpg", "cmyk jpg", "avif", "tif jpg", "ycc", "lab", "webp"],
)
def test_lossy_kinds_come_close(tmp_path, data, expected, most):
    if not data:
        pytest.skip("OpenCV or Pillow have no AVIF here")
    image = read(tmp_path, data)
    assert (image.shape, image.dtype) == (RGB.shape, np.uint8)
    if expected is not None:
        difference = np.abs(image.astype(int) - expected)
        assert difference.max() <= most
        assert difference.mean() <= max(most / 6, 1)


def predicted(samples, order, tile):
    """The differences by which a TIFF with a predictor holds samples (H, W, channels)."""
    height, width, channels = samples.shape
    across = tile or width
    rows = []
    for start in range(0, width, across):
        part = np.zeros((height, across, channels), samples.dtype)
        there = samples[:, start : start + across]
        part[:, : there.shape[1]] = there
        if samples.dtype.kind == "f":
            raw = part.astype(samples.dtype.newbyteorder(">"))
            size = samples.dtype.itemsize
            planes = raw.view(np.uint8).reshape(height, across * channels, size).swapaxes(1, 2)
            part = np.ascontiguousarray(planes).reshape(height, across * size, channels)
        differences = np.diff(part, axis=1, prepend=np.zeros_like(part[:, :1]))
        rows.append(differences.astype(differences.dtype.newbyteorder(order)))
    return rows


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("tile", [None, 16])
@pytest.mark.parametrize("samples", [RGBA, DEEP, DEEP[..., :1], FLOATS, FLOATS[..., :1]])
def test_predictors_of_tiff_are_undone(tmp_path, samples, order, tile):
    floats = samples.dtype.kind == "f"
    channels = samples.shape[2]
    parts = predicted(samples, order, tile)
    pages = []
    for part in parts:
        for top in range(0, HEIGHT, tile or HEIGHT):
            block = part[top : top + (tile or HEIGHT)]
            missing = (tile or HEIGHT) - len(block) if tile else 0
            pages.append((top, np.pad(block, ((0, missing), (0, 0), (0, 0))).tobytes()))
    if tile:  # by rows of tiles
        pages.sort(key=lambda page: page[0])
    blocks = [zlib.compress(body) for _, body in pages]
    tags = {256: [WIDTH], 257: [HEIGHT], 258: [samples.itemsize * 8] * channels, 259: [8]}
    tags |= {262: [2 if channels >= 3 else 1], 277: [channels], 317: [3 if floats else 2]}
    tags |= {339: [3 if floats else 1] * channels}
    tags |= {322: [tile], 323: [tile]} if tile else {278: [HEIGHT]}
    if channels == 4:
        tags[338] = [2]
    offsets_tag, sizes_tag = (324, 325) if tile else (273, 279)
    tags |= {offsets_tag: [0] * len(blocks), sizes_tag: [len(block) for block in blocks]}
    start = 8 + 2 + 12 * len(tags) + 4
    outside_bytes = sum(4 * len(values) for values in tags.values() if len(values) > 1)
    position = start + outside_bytes
    for index, block in enumerate(blocks):
        tags[offsets_tag][index] = position
        position += len(block)
    fields, outside = b"", b""
    for tag, values in sorted(tags.items()):
        body = struct.pack(f"{order}{len(values)}I", *values)
        fields += struct.pack(order + "HHI", tag, 4, len(values))
        fields += body if len(values) == 1 else struct.pack(order + "I", start + len(outside))
        outside += body if len(values) > 1 else b""
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HIH", 42, 8, len(tags))
    data = head + fields + bytes(4) + outside + b"".join(blocks)
    np.testing.assert_array_equal(tifffile_says(data, samples), samples)
    image = read(tmp_path, data)
    assert image.dtype == samples.dtype
    np.testing.assert_array_equal(image, np.broadcast_to(samples[..., :3], image.shape))


def tifffile_says(data, samples):
    """What an independent reader finds, where it can undo the predictor without imagecodecs."""
    try:
        return tifffile.imread(io.BytesIO(data)).reshape(samples.shape)
    except ValueError:
        return samples


NAMES = ["dir with space/Å日本/フレーム 1", "emoji 🦜", "%s{0}*?[1]", "-o", "a" * 200]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["png rgba", "tif 16-bit", "tif 1-bit fax", "ppm", "webp"])
def test_a_file_may_have_any_name(tmp_path, kind, name):
    data, expected = EXACT_KINDS[kind]
    path = tmp_path / (name + ".bin")  # the content decides
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.write_bytes(data)
    except OSError:
        pytest.skip("this system takes no such name")
    np.testing.assert_array_equal(read_image(path), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take no such name")
def test_a_name_that_is_not_utf_8_is_read(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff\xe9.png")
    path.write_bytes(pil("png"))
    np.testing.assert_array_equal(read_image(path), RGB)


# writing: what others read


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".webp", ".tif", ".tiff"])
def test_others_read_what_is_written_without_loss(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_image(path, RGB)
    with Pillow.open(path) as picture:
        np.testing.assert_array_equal(np.asarray(picture.convert("RGB")), RGB)
    assert list(tmp_path.iterdir()) == [path]


def test_others_read_a_written_jpeg(tmp_path):
    write_image(tmp_path / "a.jpg", RGB)
    with Pillow.open(tmp_path / "a.jpg") as picture:
        assert picture.mode == "RGB"
        assert np.abs(np.asarray(picture).astype(int) - RGB).mean() < 4


def test_others_read_16_bits_that_are_written(tmp_path):
    write_image(tmp_path / "a.tif", DEEP)
    with Pillow.open(tmp_path / "a.tif") as picture:  # knows the tags; tifffile has no LZW
        assert picture.tag_v2[258] == (16, 16, 16)
        assert picture.tag_v2[262] == 2
    write_image(tmp_path / "a.png", DEEP)
    with Pillow.open(tmp_path / "a.png") as picture:  # gives the upper 8 of 16 bits
        np.testing.assert_array_equal(np.asarray(picture), DEEP >> 8)


def pillow_bytes(image, suffix, **options):
    data = io.BytesIO()
    image.save(data, suffix, **options)
    return data.getvalue()


ALPHA = np.array([[[10, 20, 30, 255], [40, 50, 60, 128]]], np.uint8)
GRAY_ALPHA = np.array([[[10, 255], [40, 128]]], np.uint8)
PALETTE = Pillow.new("P", (2, 1))
PALETTE.putpalette([10, 20, 30, 40, 50, 60])
PALETTE.putpixel((1, 0), 1)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pillow_bytes(Pillow.fromarray(ALPHA), "png"), ALPHA),
        (pillow_bytes(Pillow.fromarray(ALPHA), "webp", lossless=True, exact=True), ALPHA),
        (  # with the header VP8X, as it has EXIF, which turns it half round
            pillow_bytes(
                Pillow.fromarray(ALPHA), "webp", lossless=True, exact=True,
                exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x03\0\0\0\0\0\0",
            ),
            ALPHA[:, ::-1],
        ),
        (pillow_bytes(Pillow.fromarray(GRAY_ALPHA), "png"), GRAY_ALPHA[..., [0, 0, 0, 1]]),
        (
            pillow_bytes(PALETTE, "png", transparency=bytes([255, 128])),
            ALPHA,
        ),
        (pillow_bytes(Pillow.fromarray(ALPHA[..., :3]), "png"), ALPHA[..., :3]),
        (pillow_bytes(Pillow.fromarray(ALPHA[..., :3]), "webp", lossless=True), ALPHA[..., :3]),
        (pillow_bytes(Pillow.fromarray(ALPHA), "tiff"), ALPHA[..., :3]),
    ],
    ids=["png", "webp", "turned webp", "gray", "palette", "rgb png", "rgb webp", "tiff"],
)  # fmt: skip
def test_alpha_is_read_beside_the_colours_where_a_png_or_webp_has_it(tmp_path, data, expected):
    (tmp_path / "a").write_bytes(data)
    np.testing.assert_array_equal(read_rgba(tmp_path / "a"), expected)
    np.testing.assert_array_equal(read_image(tmp_path / "a"), expected[..., :3])
