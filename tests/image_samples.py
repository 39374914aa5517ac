"""Images of every kind that people have, by Pillow, tifffile or by hand, and their pixels."""

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow
from PIL import features

from pwcflow.errors import ImageError
from pwcflow.image_file import read_image
from tests.image_bytes import chunk

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


def animation(kind, **options):
    file = io.BytesIO()
    frames = [Pillow.fromarray(np.roll(RGB, shift, axis=1)) for shift in (0, 2, 4)]
    if kind == "gif":
        frames = [frame.quantize(16) for frame in frames]
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], duration=40, **options)
    return file.getvalue()
