"""Images that are cut, damaged at random, or claim too much."""

import struct
import time

import cv2
import numpy as np
import pytest

from pwcflow.errors import ImageError
from pwcflow.image_file import read_image, read_rgba
from tests.damage import MUTATIONS, mutated, with_true_checksums
from tests.exr_files import EXR_FILES
from tests.image_bytes import chunk
from tests.image_samples import (
    AVIF,
    EXACT_KINDS,
    animation,
    cmyk,
    oriented,
    palette,
    pil,
    refusal,
)


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
    for cut in {*range(1, 100), *np.linspace(100, len(data) - 1, 40).astype(int).tolist()}:
        image = outcome(tmp_path / "image", data[:cut])
        if image is not None:
            assert kind in END_IS_OPEN or len(data) - cut < 60
            assert whole is None or image.shape == whole.shape
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["png rgba", "webp alpha", "webp"])
def test_a_header_that_is_cut_where_it_would_announce_alpha_is_refused(tmp_path, kind):
    for cut in range(1, 40):
        (tmp_path / "image").write_bytes(FRAGILE_KINDS[kind][:cut])
        with pytest.raises(ImageError):
            read_rgba(tmp_path / "image")


def test_damaged_files_are_images_or_refused(tmp_path, capfd):
    rng = np.random.default_rng(20261129)
    kinds = list(FRAGILE_KINDS)
    images = 0
    for number in range(MUTATIONS):
        data = mutated(FRAGILE_KINDS[kinds[number % len(kinds)]], rng, header=100)
        if data.startswith(b"\x89PNG"):  # or the checksums would find it all
            data = with_true_checksums(data)
        started = time.monotonic()
        images += outcome(tmp_path / "image", data) is not None
        assert time.monotonic() - started < 5
    assert 0 < images < MUTATIONS
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
