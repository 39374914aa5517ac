"""Every kind of image that people have, written by Pillow, tifffile, OpenEXR or by hand.

Compared is what the network gets to see, by value.
"""

import io
import os
import re
import struct
import sys
import time
import zlib

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow
from PIL import features

from pwcflow.errors import ImageError
from pwcflow.image_file import read_image, read_pages, write_image
from pwcflow.pipeline import estimate_pair
from tests.exr_files import EXR_FILES
from tests.fake_estimator import FakeEstimator

AVIF = features.check("avif") and cv2.haveImageWriter("a.avif")
HEIGHT, WIDTH = 21, 35
Y, X = np.mgrid[:HEIGHT, :WIDTH]
RGB = np.stack([X * 7, Y * 12, (X + Y) * 4 + 20], -1).astype(np.uint8)  # alike in no way turned
GRAY = RGB[..., 2]
ALPHA = ((X * 5 + Y * 3) % 256).astype(np.uint8)
RGBA = np.dstack([RGB, ALPHA])
DEEP = RGB.astype(np.uint16) * 250 + X[..., None].astype(np.uint16)
DEEP_ALPHA = ALPHA.astype(np.uint16) * 257
FLOATS = (DEEP / 65535).astype(np.float32)
INKS = np.dstack([255 - RGB, ALPHA // 2])
BITS = (X // 3 + Y // 2) % 2 == 0
UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, 1),
}  # how the stored picture becomes upright, by the EXIF standard


def as_rgb(gray):
    return np.repeat(gray[..., None], 3, axis=2)


def light(inks, full):
    """The naive conversion of CMYK, which libtiff and Pillow have too."""
    ink = inks / full
    return (1 - ink[..., :3]) * (1 - ink[..., 3:]) * full


def pil(kind, image=RGB, mode=None, **options):
    file = io.BytesIO()
    picture = Pillow.fromarray(image)
    (picture.convert(mode) if mode else picture).save(file, kind, **options)
    return file.getvalue()


def palette(kind, **options):
    """An image of 16 colours, and these colours."""
    picture = Pillow.fromarray(RGB).quantize(16)
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue(), np.asarray(picture.convert("RGB"))


def cmyk(kind, **options):
    file = io.BytesIO()
    Pillow.frombytes("CMYK", (WIDTH, HEIGHT), INKS.tobytes()).save(file, kind, **options)
    return file.getvalue()


def tif(array, photometric="rgb", **options):
    file = io.BytesIO()
    tifffile.imwrite(file, array, photometric=photometric, **options)
    return file.getvalue()


def raw_tif(tags, body):
    """A TIFF by hand of one strip, little endian; the tags are numbers."""
    tags = {256: WIDTH, 257: HEIGHT, 259: 1, 277: 1, 278: HEIGHT, 279: len(body), **tags}
    tags[273] = 8 + 2 + 12 * (len(tags) + 1) + 4
    fields = b"".join(struct.pack("<HHII", tag, 4, 1, tags[tag]) for tag in sorted(tags))
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + fields + bytes(4) + body


def packed(values, bits):
    """Rows of numbers of so many bits each, every row filled up to whole bytes."""
    ones = values[..., None] >> np.arange(bits)[::-1] & 1
    return np.packbits(ones.reshape(HEIGHT, -1).astype(np.uint8), axis=1).tobytes()


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def deep_png(colour, samples):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, colour, 0, 0, 0))
    rows = samples.astype(">u2").reshape(HEIGHT, -1)
    pixels = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def with_alpha(colors, alpha):
    return np.dstack([colors, alpha])


def bits_bmp():
    """5, 6 and 5 bits, as some cameras write, and the colours as 8 bits."""
    red, green, blue = (RGB[..., i] >> drop for i, drop in enumerate((3, 2, 3)))
    pixels = (red.astype("<u2") << 11) | (green.astype("<u2") << 5) | blue
    rows = np.zeros((HEIGHT, WIDTH + WIDTH % 2), "<u2")
    rows[:, :WIDTH] = pixels[::-1]
    masks = struct.pack("<III", 0xF800, 0x07E0, 0x001F)
    head = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 16, 3, rows.nbytes, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 66 + rows.nbytes, 0, 0, 66) + head + masks + rows.tobytes()


def pnm(kind, maximum, samples):
    head = f"P{kind} # by hand\n{WIDTH}\t{HEIGHT}\n{maximum}\n".encode()
    return head + samples.astype(np.uint8 if maximum < 256 else ">u2").tobytes()


def pam(depth, samples):
    head = f"P7\n# by hand\nWIDTH {WIDTH}\nHEIGHT {HEIGHT}\nDEPTH {depth}\nMAXVAL 255\n"
    return (head + "TUPLTYPE ANY\nENDHDR\n").encode() + samples.tobytes()


def text_of(kind, maximum, samples):
    rows = "\n".join(" ".join(map(str, row)) for row in samples.reshape(HEIGHT, -1))
    return f"P{kind}\n{WIDTH} {HEIGHT}\n{maximum}\n# a comment\n{rows}".encode()


def pfm(kind, samples, scale="-1.0", order="<"):
    head = f"{kind}\n{WIDTH} {HEIGHT}\n{scale}\n".encode()
    return head + samples[::-1].astype(order + "f4").tobytes()


def exact_kinds():
    """Files by kind, each with its pixels."""
    bilevel = as_rgb(np.where(BITS, 255, 0).astype(np.uint8))
    twelve = DEEP >> 4
    planes = np.moveaxis(DEEP, -1, 0)
    four = (X + Y).astype(np.uint8) % 16
    kinds = {
        "png gray": (pil("png", GRAY), as_rgb(GRAY)),
        "png 1-bit": (pil("png", BITS), bilevel),
        "png palette": palette("png"),
        "png palette, transparent": palette("png", transparency=3),
        "png gray, alpha": (pil("png", with_alpha(GRAY, ALPHA)), as_rgb(GRAY)),
        "png rgba": (pil("png", RGBA), RGB),
        "png 16-bit": (deep_png(2, DEEP), DEEP),
        "png 16-bit gray": (pil("png", DEEP[..., 0]), as_rgb(DEEP[..., 0])),
        "png 16-bit gray, alpha": (
            deep_png(4, with_alpha(DEEP[..., 0], DEEP_ALPHA)),
            as_rgb(DEEP[..., 0]),
        ),
        "png 16-bit rgba": (deep_png(6, with_alpha(DEEP, DEEP_ALPHA)), DEEP),
        "png 12 bits in 16": (deep_png(2, twelve), twelve),
        "bmp": (pil("bmp"), RGB),
        "bmp gray": (pil("bmp", GRAY), as_rgb(GRAY)),
        "bmp 1-bit": (pil("bmp", BITS), bilevel),
        "bmp palette": palette("bmp"),
        "bmp alpha": (pil("bmp", RGBA), RGB),
        "webp": (pil("webp", lossless=True), RGB),
        "webp gray": (pil("webp", GRAY, lossless=True), as_rgb(GRAY)),
        "webp alpha": (pil("webp", RGBA, lossless=True, exact=True), RGB),
        "jp2": (pil("jpeg2000", irreversible=False), RGB),
        "tif gray": (pil("tiff", GRAY), as_rgb(GRAY)),
        "tif 1-bit": (pil("tiff", BITS), bilevel),
        "tif 1-bit fax": (pil("tiff", BITS, compression="group4"), bilevel),
        "tif palette": palette("tiff"),
        "tif gray, alpha": (pil("tiff", with_alpha(GRAY, ALPHA)), as_rgb(GRAY)),
        "tif rgba": (pil("tiff", RGBA), RGB),
        "tif rgba, planes": (tif(np.moveaxis(RGBA[..., :3], -1, 0), planarconfig="separate"), RGB),
        "tif unassociated alpha": (tif(RGBA, extrasamples=["unassalpha"]), RGB),
        "tif associated alpha": (tif(RGBA, extrasamples=["assocalpha"]), RGB),
        "tif 5 channels": (tif(np.dstack([RGBA, ALPHA]), extrasamples=["unspecified"] * 2), RGB),
        "tif white is 0": (tif(GRAY, "miniswhite"), as_rgb(255 - GRAY)),
        "tif 16-bit white is 0": (tif(DEEP[..., 0], "miniswhite"), as_rgb(65535 - DEEP[..., 0])),
        "tif 16-bit": (tif(DEEP), DEEP),
        "tif 16-bit gray": (pil("tiff", DEEP[..., 0]), as_rgb(DEEP[..., 0])),
        "tif 16-bit big endian": (tif(DEEP, byteorder=">"), DEEP),
        "tif 16-bit BigTIFF": (tif(DEEP, bigtiff=True), DEEP),
        "tif 16-bit planes": (tif(planes, planarconfig="separate"), DEEP),
        "tif 16-bit planes in strips": (
            tif(planes, planarconfig="separate", rowsperstrip=4, byteorder=">"),
            DEEP,
        ),
        "tif 16-bit tiles": (tif(DEEP, tile=(16, 16)), DEEP),
        "tif 16-bit strips": (tif(DEEP, rowsperstrip=4), DEEP),
        "tif 16-bit rgba": (
            tif(with_alpha(DEEP, DEEP_ALPHA), extrasamples=["unassalpha"]),
            DEEP,
        ),
        "tif 16-bit gray, alpha": (
            tif(with_alpha(DEEP[..., 0], DEEP_ALPHA), "minisblack", extrasamples=["unassalpha"]),
            as_rgb(DEEP[..., 0]),
        ),
        "tif 12 bits in 16": (tif(twelve), twelve),
        "tif 4-bit": (
            raw_tif({258: 4, 262: 1}, packed(four, 4)),
            as_rgb((four * 17).astype(np.uint8)),
        ),
        "tif 2-bit white is 0": (
            raw_tif({258: 2, 262: 0}, packed(four % 4, 2)),
            as_rgb((255 - four % 4 * 85).astype(np.uint8)),
        ),
        "tif floats": (tif(FLOATS), FLOATS),
        "tif floats big endian": (tif(FLOATS, byteorder=">"), FLOATS),
        "tif floats gray": (tif(FLOATS[..., 1], "minisblack"), as_rgb(FLOATS[..., 1])),
        "tif floats rgba": (tif(with_alpha(FLOATS, FLOATS[..., 0]), extrasamples=[2]), FLOATS),
        "tif floats tiles": (tif(FLOATS, tile=(16, 16)), FLOATS),
        "tif floats of 16 bits": (
            tif(FLOATS.astype(np.float16)),
            FLOATS.astype(np.float16).astype(np.float32),
        ),
        "tif floats of 64 bits": (tif(FLOATS.astype(np.float64)), FLOATS),
        "tif cmyk": (cmyk("tiff"), np.rint(light(INKS, 255)).astype(np.uint8)),
        "tif cmyk lzw": (
            cmyk("tiff", compression="tiff_lzw"),
            np.rint(light(INKS, 255)).astype(np.uint8),
        ),
        "tif 16-bit cmyk": (
            tif(INKS.astype(np.uint16) * 257, "separated"),
            np.rint(light(INKS.astype(np.uint16) * 257, 65535)).astype(np.uint16),
        ),
        "pbm": (pil("ppm", BITS), bilevel),
        "pbm text": (text_of(1, "", 1 - BITS.astype(int)).replace(b" 1 ", b"1 "), bilevel),
        "pgm": (pil("ppm", GRAY), as_rgb(GRAY)),
        "pgm text": (text_of(2, 255, GRAY), as_rgb(GRAY)),
        "pgm of 10 bits": (
            pnm(5, 1023, DEEP[..., 0] >> 6),
            as_rgb(np.rint((DEEP[..., 0] >> 6) * (65535 / 1023)).astype(np.uint16)),
        ),
        "ppm": (pil("ppm"), RGB),
        "ppm text": (text_of(3, 255, RGB), RGB),
        "ppm 16-bit": (pnm(6, 65535, DEEP), DEEP),
        "ppm 16-bit text": (text_of(3, 65535, DEEP), DEEP),
        "pam rgb": (pam(3, RGB), RGB),
        "pam rgba": (pam(4, RGBA), RGB),
        "pam gray, alpha": (pam(2, with_alpha(GRAY, ALPHA)), as_rgb(GRAY)),
        "pfm": (pfm("PF", FLOATS), FLOATS),
        "pfm gray, big endian": (pfm("Pf", FLOATS[..., 0], "1", ">"), as_rgb(FLOATS[..., 0])),
    }
    for bits in (10, 12, 14):
        numbers = DEEP[..., 0] >> 16 - bits
        data = raw_tif({258: bits, 262: 1}, packed(numbers, bits))
        kinds[f"tif {bits}-bit packed"] = data, as_rgb(numbers << 16 - bits)
    for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
        kinds[f"tif {name}"] = pil("tiff", compression=name), RGB
        kinds[f"tif rgba {name}"] = pil("tiff", RGBA, compression=name), RGB
    return kinds


EXACT_KINDS = exact_kinds()


def read(folder, data, name="image"):
    path = folder / name
    path.write_bytes(data)
    return read_image(path)


def refusal(folder, data):
    with pytest.raises(ImageError) as caught:
        read(folder, data)
    message = str(caught.value)
    assert message.startswith(str(folder / "image"))
    assert "\n" not in message
    return message


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


# orientation


def oriented(kind, orientation):
    exif = Pillow.Exif()
    exif[274] = orientation
    tags = [(274, "H", 1, orientation, True)]
    writers = {
        "jpg": lambda: pil("jpeg", exif=exif, quality=100, subsampling=0),
        "png": lambda: pil("png", exif=exif),
        "webp": lambda: pil("webp", exif=exif, lossless=True),
        "avif": lambda: pil("avif", exif=exif, quality=100, subsampling="4:4:4"),
        "tif": lambda: pil("tiff", exif=exif),
        "tif lzw": lambda: pil("tiff", exif=exif, compression="tiff_lzw"),
        "tif gray": lambda: tif(GRAY, "minisblack", extratags=tags),
        "tif 16-bit": lambda: tif(DEEP, extratags=tags),
        "tif floats": lambda: tif(FLOATS, extratags=tags),
        "16-bit png": lambda: with_exif_chunk(deep_png(2, DEEP), orientation),
    }
    return writers[kind]()


def with_exif_chunk(png, orientation):
    body = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\3\0\0\0\1\0" + bytes([orientation, 0, 0])
    return png[:33] + chunk(b"eXIf", body + bytes(4)) + png[33:]


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


# floats


@pytest.mark.parametrize("name", ["half zip", "float zips", "half rle", "float none", "tiles"])
def test_the_light_of_an_exr_is_shown_by_the_curve_of_srgb(tmp_path, name):
    image = read(tmp_path, EXR_FILES[name])
    np.testing.assert_allclose(image, shown(exr_light()), atol=1e-6)
    assert image.dtype == np.float32


@pytest.mark.parametrize("name", ["alpha", "layers", "parts"])
def test_the_colours_of_an_exr_are_found_among_its_channels(tmp_path, name):
    np.testing.assert_allclose(read(tmp_path, EXR_FILES[name]), shown(exr_light()), atol=1e-6)


def test_an_exr_of_luminance_is_gray(tmp_path):
    gray = as_rgb(exr_light()[..., 0])
    np.testing.assert_allclose(read(tmp_path, EXR_FILES["gray"]), shown(gray), atol=1e-6)


def test_an_exr_has_the_size_of_its_display_window(tmp_path):
    expected = np.zeros((20, 7, 3))
    expected[3:, :3] = shown(exr_light())[:17, 2:]
    np.testing.assert_allclose(read(tmp_path, EXR_FILES["window"]), expected, atol=1e-6)


def exr_light():
    y, x = np.mgrid[:20, :5]
    return np.stack([x / 8, y / 32, (x + y) / 16], axis=2)


def shown(linear):
    linear = linear.clip(0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def test_what_an_exr_holds_that_is_no_picture_or_not_read_is_told(tmp_path):
    assert "has no colours: its channels are U, V" in refusal(tmp_path, EXR_FILES["motion"])
    message = refusal(tmp_path, EXR_FILES["nan"])
    assert "1 pixel that is not finite, the first at x = 3, y = 7" in message
    deep = bytearray(EXR_FILES["half zip"])
    deep[5] |= 8
    assert "deep pixels" in refusal(tmp_path, bytes(deep))


def test_an_exr_compressed_in_other_ways_takes_the_library(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "OpenEXR", None)
        message = refusal(tmp_path, EXR_FILES["piz"])
    assert (
        "compressed by PIZ, which takes the package OpenEXR; pip install 'pwcflow[exr]'" in message
    )
    pytest.importorskip("OpenEXR")
    np.testing.assert_allclose(read(tmp_path, EXR_FILES["piz"]), shown(exr_light()), atol=1e-6)
    assert "is damaged" in refusal(tmp_path, EXR_FILES["piz"][:-9])


def test_the_light_of_a_radiance_file_is_shown_too(tmp_path):
    linear = np.stack([X / 40, Y / 20, (X + Y) / 30], axis=2).astype(np.float32)
    done, data = cv2.imencode(".hdr", linear[..., ::-1])
    assert done
    image = read(tmp_path, data.tobytes())
    assert image.dtype == np.float32
    np.testing.assert_allclose(image, shown(linear), atol=0.02)


@pytest.mark.parametrize("write", [tif, lambda a: pfm("PF", a)], ids=["tif", "pfm"])
def test_floats_beyond_black_and_white_are_refused_but_not_for_rounding(tmp_path, write):
    image = FLOATS.copy()
    image[2, 3, 0] = 1.001
    image[4, 5, 1] = -0.001
    read_back = read(tmp_path, write(image))
    np.testing.assert_array_equal(read_back, image.clip(0, 1))
    message = refusal(tmp_path, write(FLOATS * 255))
    assert "holds numbers from 0 to " in message
    assert "must be from 0, black, to 1, white" in message
    assert "from -0.5 to " in refusal(tmp_path, write(FLOATS - 0.5))


@pytest.mark.parametrize("write", [tif, lambda a: pfm("PF", a)], ids=["tif", "pfm"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_floats_that_are_not_finite_are_found(tmp_path, write, value):
    image = FLOATS.copy()
    image[2, 3, 1] = image[7, 1] = value
    message = refusal(tmp_path, write(image))
    assert "2 pixels that are not finite, the first at x = 3, y = 2: [" in message
    assert str(value) in message


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint32"])
def test_whole_numbers_without_a_known_white_are_refused(tmp_path, dtype):
    for samples, kind in ((RGB // 2, "rgb"), (GRAY // 2, "minisblack")):
        message = refusal(tmp_path, tif(samples.astype(dtype), kind))
        assert f"holds {dtype} values, whose black and white are unknown" in message


# several pictures


def animation(kind, **options):
    file = io.BytesIO()
    frames = [Pillow.fromarray(np.roll(RGB, shift, axis=1)) for shift in (0, 2, 4)]
    if kind == "gif":
        frames = [frame.quantize(16) for frame in frames]
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], duration=40, **options)
    return file.getvalue()


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


# damage


def fragile_kinds():
    wanted = ("png rgba", "png palette", "bmp palette", "webp alpha", "jp2", "tif palette")
    wanted += ("tif rgba tiff_lzw", "tif rgba packbits", "tif 16-bit planes in strips", "pbm text")
    wanted += ("tif floats tiles", "tif 1-bit fax", "tif 16-bit BigTIFF", "ppm", "pam rgba", "pfm")
    if tuple(map(int, cv2.__version__.split(".")[:2])) < (4, 12):
        wanted = tuple(name for name in wanted if name != "jp2")  # which crashes OpenCV itself
    kinds = {name: EXACT_KINDS[name][0] for name in wanted}
    kinds |= {name: oriented(name, 6) for name in ("jpg", "webp", "tif lzw")}
    kinds |= {"avif": oriented("avif", 6)} if AVIF else {}
    kinds |= {f"exr {name}": data for name, data in EXR_FILES.items() if name != "piz"}
    kinds |= {"cmyk jpg": cmyk("jpeg"), "gif": palette("gif")[0], "stack": animation("tiff")}
    kinds["tif jpg"] = pil("tiff", compression="jpeg")
    return kinds


FRAGILE_KINDS = fragile_kinds()


def outcome(path, data):
    """Read what may be damaged: an image that holds what it must, or one sentence."""
    path.write_bytes(data)
    message = str(path)
    try:
        image = read_image(path)
    except ImageError as error:
        image, message = None, str(error)
    assert message.startswith(str(path))
    assert "\n" not in message
    if image is None:
        return None
    assert image.ndim == 3
    assert image.shape[2] == 3
    assert 0 not in image.shape
    assert image.dtype in (np.uint8, np.uint16, np.float32)
    assert image.dtype != np.float32 or (image.min() >= 0 and image.max() <= 1)
    return image


# where nothing tells that a file has an end, or where what follows the picture is missing
END_IS_OPEN = ("gif", "pbm text", "exr parts")


@pytest.mark.parametrize("kind", FRAGILE_KINDS)
def test_a_file_cut_anywhere_is_whole_or_refused(tmp_path, kind, capfd):
    data = FRAGILE_KINDS[kind]
    whole = outcome(tmp_path / "image", data)
    for cut in {*range(1, 60, 3), *np.linspace(60, len(data) - 1, 40).astype(int).tolist()}:
        image = outcome(tmp_path / "image", data[:cut])
        if image is not None:
            assert kind in END_IS_OPEN or len(data) - cut < 60
            assert whole is None or image.shape == whole.shape
    assert capfd.readouterr() == ("", "")


def mutated(data, rng):
    """A file with some bytes changed, taken out, doubled or moved."""
    damaged = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(len(damaged) if rng.random() < 0.5 else min(100, len(damaged))))
        length = int(rng.integers(1, 9))
        match rng.integers(5):
            case 0:
                damaged[place] ^= 1 << int(rng.integers(8))
            case 1:
                damaged[place : place + length] = rng.bytes(length)
            case 2:
                del damaged[place : place + length]
            case 3:
                damaged[place:place] = damaged[place : place + length]
            case _:
                damaged[place : place + 4] = b"\xff\xff\xff\x7f"[: len(damaged) - place]
    if damaged.startswith(b"\x89PNG"):  # or the checksums would find it all
        damaged = with_right_checksums(bytes(damaged))
    return bytes(damaged)


def with_right_checksums(png):
    result, position = png[:8], 8
    while position + 12 <= len(png):
        (length,) = struct.unpack_from(">I", png, position)
        body = png[position + 4 : position + 8 + length]
        result += png[position : position + 4] + body + struct.pack(">I", zlib.crc32(body))
        position += 12 + length
    return result


def test_two_thousand_damaged_files_are_images_or_refused(tmp_path, capfd):
    rng = np.random.default_rng(20261129)
    kinds = list(FRAGILE_KINDS)
    images = 0
    for number in range(2000):
        data = mutated(FRAGILE_KINDS[kinds[number % len(kinds)]], rng)
        started = time.monotonic()
        images += outcome(tmp_path / "image", data) is not None
        assert time.monotonic() - started < 5
    assert 0 < images < 2000
    assert capfd.readouterr() == ("", "")


def enormous_files():
    exr = bytearray(EXR_FILES["half zip"])
    for name in (b"dataWindow\0box2i\0", b"displayWindow\0box2i\0"):
        start = exr.index(name) + len(name) + 4
        exr[start : start + 16] = struct.pack("<4i", 0, 0, 99_999, 99_999)
    canvas = b"WEBPVP8X\x0a\0\0\0" + bytes(4) + (99_999).to_bytes(3, "little") * 2
    return {
        "exr": bytes(exr),
        "ppm": b"P6\n100000 100000\n255\n" + bytes(99),
        "pgm text": b"P2 100000 100000 255 1 2 3",
        "pam": b"P7\nWIDTH 100000\nHEIGHT 100000\nDEPTH 3\nMAXVAL 255\nENDHDR\n" + bytes(99),
        "pfm": b"PF\n100000 100000\n-1.0\n" + bytes(99),
        "webp": b"RIFF" + (len(canvas) + 99).to_bytes(4, "little") + canvas + bytes(99),
        "hdr": b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 100000 +X 100000\n" + bytes(99),
    }


@pytest.mark.parametrize("kind", enormous_files())
def test_an_enormous_size_is_refused_before_there_is_memory_for_it(tmp_path, kind):
    message = refusal(tmp_path, enormous_files()[kind])
    assert "its header says 100000 x 100000 pixels, and 268 million is the limit" in message


def test_a_side_that_opencv_does_not_take_is_told(tmp_path):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 2_000_000, 1, 8, 0, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    assert "2000000 x 1 pixels, and 1048576 a side is the limit" in refusal(tmp_path, data)


def test_an_exr_that_claims_more_than_it_can_hold_is_damaged(tmp_path):
    data = bytearray(EXR_FILES["half zip"])
    for name in (b"dataWindow\0box2i\0", b"displayWindow\0box2i\0"):
        start = data.index(name) + len(name) + 4
        data[start : start + 16] = struct.pack("<4i", 0, 0, 15_999, 15_999)
    assert "is damaged" in refusal(tmp_path, bytes(data))


def test_strips_that_overlap_do_not_multiply_a_file(tmp_path):
    body = bytes(40_000)
    count = 20_000
    tags = {256: 2, 257: count, 258: 16, 259: 1, 262: 1, 277: 1, 278: 1}
    start = 8 + 2 + 12 * (len(tags) + 2) + 4
    entries = {tag: (1, value) for tag, value in tags.items()}
    entries |= {273: (count, start), 279: (count, start + 4 * count)}
    place = start + 8 * count
    fields = b"".join(struct.pack("<HHII", t, 4, *entries[t]) for t in sorted(entries))
    lists = struct.pack(f"<{count}I", *[place] * count)
    lists += struct.pack(f"<{count}I", *[len(body)] * count)
    data = struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + fields + bytes(4) + lists + body
    assert "its strips take more bytes than it has" in refusal(tmp_path, data)
