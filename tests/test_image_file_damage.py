"""What is no image, is damaged or claims too much is told in one line and in silence."""

import os
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.image_file import read_image
from tests.image_bytes import encoded, gradient, message_of, png, save


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
def test_a_pipe_is_read(tmp_path):
    path = tmp_path / "a.png"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=[encoded(".png", gradient())])
    writer.start()
    np.testing.assert_array_equal(read_image(path), gradient())
    writer.join()


def test_a_device_is_refused(tmp_path):
    if not Path("/dev/zero").is_char_device():
        pytest.skip("no /dev/zero")
    (tmp_path / "a.png").symlink_to("/dev/zero")
    assert "is a device, not an image" in message_of(tmp_path / "a.png")


def test_missing_empty_foreign_files_and_folders_are_told_apart(tmp_path, capfd):
    assert "there is no file" in message_of(tmp_path / "a.png")
    assert "is a folder" in message_of(tmp_path)
    assert "is empty (0 bytes)" in message_of(save(tmp_path / "b.png", b""))
    foreign = (b"<html>404</html>", b"hello", bytes(1000), b"Please log in", b"PK\3\4" + bytes(30))
    for data in (*foreign, b"P8 ", b"RIFF\x04\0\0\0WAVE", b"\0\0\0\x18ftypmp42" + bytes(16)):
        assert "is not an image" in message_of(save(tmp_path / "c.png", data))
    for data in (b"P5 9 9 255\n", b"P1\n9 9\n", b"P6", b"v/1\1\2\0\0"):
        assert re.search("is (damaged|cut short): ", message_of(save(tmp_path / "d.png", data)))
    for data in (b"RIFF\x04\0\0\0WEBP", b"BM" + bytes(60)):
        assert "is damaged, cut short or" in message_of(save(tmp_path / "d.png", data))
    assert capfd.readouterr() == ("", "")


def planar_tiff(image: np.ndarray) -> bytes:
    """Three strips, one a channel, which OpenCV fills up with gray where they are missing."""
    height, width = image.shape[:2]
    start = 8 + 2 + 11 * 12 + 4
    strips = start + 30
    fields = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 3, start), (259, 3, 1, 1)]
    fields += [(262, 3, 1, 2), (273, 4, 3, start + 6), (277, 3, 1, 3), (278, 4, 1, height)]
    fields += [(279, 4, 3, start + 18), (284, 3, 1, 2), (339, 3, 1, 1)]
    data = struct.pack("<2sHIH", b"II", 42, 8, len(fields))
    data += b"".join(struct.pack("<HHII", *field) for field in fields) + bytes(4)
    size = height * width
    offsets = [strips, strips + size, strips + 2 * size]
    data += struct.pack("<3H3I3I", 8, 8, 8, *offsets, size, size, size)
    return data + np.moveaxis(image, -1, 0).tobytes()


def damaged_kinds() -> dict[str, bytes]:
    image = gradient()
    jpeg = encoded(".jpg", image)
    thumbnail = b"Exif\0\0" + jpeg
    return {
        "png": encoded(".png", image),
        "16-bit png": encoded(".png", image.astype(np.uint16) * 257),
        "jpg": jpeg,
        "progressive jpg": encoded(".jpg", image, (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)),
        "jpg with restarts": encoded(".jpg", image, (cv2.IMWRITE_JPEG_RST_INTERVAL, 1)),
        "jpg with thumbnail": jpeg[:2]
        + b"\xff\xe1"
        + struct.pack(">H", len(thumbnail) + 2)
        + thumbnail
        + jpeg[2:],
        "tif": encoded(".tif", image),
        "uncompressed tif": encoded(".tif", image, (cv2.IMWRITE_TIFF_COMPRESSION, 1)),
        "planar tif": planar_tiff(image),
        "bmp": encoded(".bmp", image),
        "ppm": encoded(".ppm", image),
        "webp": encoded(".webp", image),
    }


@pytest.mark.parametrize("kind", damaged_kinds())
def test_a_file_cut_anywhere_is_refused_in_silence(tmp_path, kind, capfd):
    data = damaged_kinds()[kind]
    whole = read_image(save(tmp_path / "whole", data))
    assert np.abs(whole.astype(int) / whole.max() - gradient() / gradient().max()).mean() < 0.02
    cuts = {*range(1, 40, 3), *np.linspace(40, len(data) - 1, 30).astype(int).tolist()}
    for cut in sorted(cuts | {len(data) - 2}):
        message_of(save(tmp_path / "cut", data[:cut]))
    assert capfd.readouterr() == ("", "")


def test_a_flipped_bit_in_a_png_is_found(tmp_path, capfd):
    data = bytearray(png(8, 0, (50, 1), [bytes(range(50))]))
    data[60] ^= 4
    assert "a checksum at byte" in message_of(save(tmp_path / "a.png", bytes(data)))
    assert capfd.readouterr() == ("", "")


def test_a_png_that_claims_more_pixels_than_it_holds_is_refused_in_silence(tmp_path, capfd):
    data = png(8, 2, (16384, 16384), [bytes(30)])
    assert "cannot be decoded" in message_of(save(tmp_path / "a.png", data))
    assert capfd.readouterr() == ("", "")


def test_a_jpeg_cut_before_its_end_marker_is_damaged(tmp_path, capfd):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    for options in ((), (cv2.IMWRITE_JPEG_RST_INTERVAL, 4), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)):
        data = encoded(".jpg", noise, options)
        scan = data.index(b"\xff\xda") + 20
        for cut in np.linspace(scan, len(data) - 8, 20).astype(int):
            message = message_of(save(tmp_path / "a.jpg", data[:cut] + b"\xff\xd9"))
            # a progressive one has headers between its scans, and a cut there reads differently
            between = cv2.IMWRITE_JPEG_PROGRESSIVE in options
            assert between or "is damaged: its decoder found '" in message
    assert capfd.readouterr() == ("", "")


def test_bytes_that_webcams_add_to_a_jpeg_are_no_damage(tmp_path, capfd):
    data = encoded(".jpg", gradient())
    path = save(tmp_path / "a.jpg", data[:-2] + bytes(4) + data[-2:])
    np.testing.assert_array_equal(read_image(path), read_image(save(tmp_path / "b.jpg", data)))
    assert capfd.readouterr() == ("", "")


def test_a_jpeg_may_end_with_a_short_segment(tmp_path):
    data = encoded(".jpg", gradient())
    path = save(tmp_path / "a.jpg", data[:-2] + b"\xff\xfe\0\2" + data[-2:])
    assert read_image(path).shape == gradient().shape


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<2sHIHQ", b"II", 43, 8, 5, 0x8000 << 48) + bytes(40),
        struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, 1)
        + struct.pack("<HHQQ", 273, 16, 5, 2**64 - 1)
        + bytes(40),
    ],
    ids=["table", "offsets"],
)
def test_a_big_tiff_with_absurd_offsets_is_refused(tmp_path, data, capfd):
    assert "is cut short" in message_of(save(tmp_path / "a.tif", data))
    assert capfd.readouterr() == ("", "")


def with_size(data: bytes, position: int, layout: str, width: int, height: int) -> bytes:
    size = struct.pack(layout, width, height)
    return data[:position] + size + data[position + len(size) :]


def enormous_kinds() -> dict[str, bytes]:
    bmp, jpeg = encoded(".bmp", gradient()), encoded(".jpg", gradient())
    jpeg_2000, tiff = encoded(".jp2", gradient()), bytearray(planar_tiff(gradient()))
    for position in (18, 30):
        struct.pack_into("<I", tiff, position, 32000)
    return {
        "png": png(8, 2, (32000, 32000), [bytes(30)]),
        "bmp": with_size(bmp, 18, "<ii", 32000, 32000),
        "bmp from the top": with_size(bmp, 18, "<ii", 32000, -32000),
        "OS/2 bmp": b"BM" + bytes(12) + struct.pack("<IHHHH", 12, 32000, 32000, 1, 24) + bytes(99),
        "gif": b"GIF89a" + struct.pack("<HH", 32000, 32000) + bytes(99),
        "jpg": with_size(jpeg, jpeg.index(b"\xff\xc0") + 5, ">HH", 32000, 32000),
        "jp2": with_size(jpeg_2000, jpeg_2000.index(b"\xff\x51") + 6, ">II", 32000, 32000),
        "tif": bytes(tiff),
    }


@pytest.mark.parametrize("kind", enormous_kinds())
def test_an_image_of_more_than_268_million_pixels_is_refused(tmp_path, kind):
    message = message_of(save(tmp_path / "a", enormous_kinds()[kind]))
    assert "its header says 32000 x " in message
    assert "268 million is the limit" in message


def test_a_bmp_from_the_top_and_one_of_os2_are_read(tmp_path):
    pixels = bytes([3, 2, 1, 6, 5, 4, 0, 0])
    head = b"BM" + bytes(8)
    core = head + struct.pack("<IIHHHH", 26, 12, 2, 1, 1, 24) + pixels
    info = head + struct.pack("<IIiiHHIIiiII", 54, 40, 2, -1, 1, 24, 0, 8, 0, 0, 0, 0) + pixels
    for data in (core, info):
        assert read_image(save(tmp_path / "a.bmp", data)).tolist() == [[[1, 2, 3], [4, 5, 6]]]


def test_opencv_logs_again_after_threads_have_read_damaged_files(tmp_path):
    path = save(tmp_path / "a.bmp", encoded(".bmp", gradient())[:-9])
    logging = getattr(cv2.utils, "logging", cv2)
    before = logging.getLogLevel()
    threads = [threading.Thread(target=message_of, args=[path]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert logging.getLogLevel() == before


def test_a_damaged_jpeg_is_found_without_a_stderr(tmp_path):
    data = encoded(".jpg", np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
    path = save(tmp_path / "a.jpg", data[: len(data) // 2] + data[-2:])
    script = (
        "import os, sys; os.close(2); from pwcflow import read_image\n"
        "try: read_image(sys.argv[1])\nexcept Exception as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
    assert "a.jpg is damaged: its decoder found 'premature end" in run.stdout
