import base64
import os
import re
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import ImageError, OutputError
from pwcflow.image_file import IMAGE_SUFFIXES, check_image_suffix, read_image, write_image
from pwcflow.opencv_log import quiet_decoding

SAMPLES = Path(__file__).parents[1].parent / "shared" / "samples" / "images"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"{SAMPLES} is absent")

# 8 x 8 pixels of pure red, stored as CMYK with Adobe's inversion
CMYK_JPEG = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAbEhQXFBEbFxYXHhwbIChCKyglJShROj0wQmBVZWRfVV1baniZgWpxkHNbXYW1"
    "hpCeo6utq2eAvMm6pseZqKuk/8AAFAgACAAIBEMRAE0RAFkRAEsRAP/EABQAAQAAAAAAAAAAAAAAAAAAAAb/xAAUEAEA"
    "AAAAAAAAAAAAAAAAAAAA/9oADgRDAE0AWQBLAAA/AEwyMkz/2Q=="
)


def gradient(height: int = 40, width: int = 56) -> np.ndarray:
    """An RGB picture whose quarters all differ, smooth enough for JPEG."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 4, y * 6, (x + y) * 2], -1).astype(np.uint8)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(depth: int, colour: int, size: tuple[int, int], rows: list[bytes], *extra: bytes) -> bytes:
    """Encode a PNG by hand; every row is packed, filter 0."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + pixels + chunk(b"IEND", b"")


def orientation_tags(orientation: int) -> bytes:
    """A TIFF structure with nothing but the tag Orientation."""
    return b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([orientation]) + bytes(7)


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def encoded(suffix: str, image: np.ndarray, options: tuple[int, ...] = ()) -> bytes:
    done, data = cv2.imencode(suffix, image[..., ::-1] if image.ndim == 3 else image, options)
    assert done
    return data.tobytes()


# reading


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tiff", ".ppm", ".webp"])
def test_lossless_formats_come_back_exactly_and_as_rgb(tmp_path, suffix):
    path = save(tmp_path / f"a{suffix}", encoded(suffix, gradient()))
    image = read_image(path)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, gradient())


def test_a_jpeg_is_read_as_rgb(tmp_path):
    image = read_image(save(tmp_path / "a.jpg", encoded(".jpg", gradient())))
    assert np.abs(image.astype(int) - gradient()).mean() < 3


def test_red_is_the_first_channel_of_a_file_written_without_opencv(tmp_path):
    path = save(tmp_path / "a.png", png(8, 2, (1, 1), [bytes([255, 10, 20])]))
    assert read_image(path).tolist() == [[[255, 10, 20]]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (png(8, 0, (2, 1), [bytes([7, 200])]), [[7] * 3, [200] * 3]),
        (png(1, 0, (2, 1), [b"\x40"]), [[0] * 3, [255] * 3]),
        (png(8, 4, (2, 1), [bytes([7, 0, 200, 255])]), [[7] * 3, [200] * 3]),
        (png(8, 6, (2, 1), [bytes([1, 2, 3, 0, 4, 5, 6, 128])]), [[1, 2, 3], [4, 5, 6]]),
        (
            png(8, 3, (2, 1), [b"\1\0"], chunk(b"PLTE", bytes([9, 8, 7, 1, 2, 3]))),
            [[1, 2, 3], [9, 8, 7]],
        ),
        (
            png(2, 3, (2, 1), [b"\x10"], chunk(b"PLTE", bytes([9, 8, 7, 1, 2, 3]))),
            [[9, 8, 7], [1, 2, 3]],
        ),
    ],
    ids=["gray", "1-bit", "gray and alpha", "RGBA", "palette", "2-bit palette"],
)
def test_every_kind_of_png_becomes_three_channels(tmp_path, data, expected):
    image = read_image(save(tmp_path / "a.png", data))
    assert image.dtype == np.uint8
    assert image.tolist() == [expected]


def test_a_cmyk_jpeg_becomes_rgb(tmp_path):
    image = read_image(save(tmp_path / "a.jpg", CMYK_JPEG))
    assert image.shape == (8, 8, 3)
    np.testing.assert_allclose(image, np.broadcast_to([255, 0, 0], (8, 8, 3)), atol=6)


def test_16_bit_files_keep_their_depth(tmp_path):
    rows = [struct.pack(">6H", 1, 300, 65535, 256, 255, 0)]
    image = read_image(save(tmp_path / "a.png", png(16, 2, (2, 1), rows)))
    assert image.dtype == np.uint16
    assert image.tolist() == [[[1, 300, 65535], [256, 255, 0]]]
    deep = gradient().astype(np.uint16) * 257
    image = read_image(save(tmp_path / "a.tif", encoded(".tif", deep)))
    assert image.dtype == np.uint16
    np.testing.assert_array_equal(image, deep)


def test_a_12_bit_pgm_fills_the_range_of_its_type(tmp_path):
    data = b"P5 # a camera\n3 1\n# made\n4095\n" + struct.pack(">3H", 0, 2048, 4095)
    image = read_image(save(tmp_path / "a.pgm", data))
    assert image.dtype == np.uint16
    assert image[0, :, 0].tolist() == [0, round(2048 * 65535 / 4095), 65535]


@pytest.mark.parametrize("kind", ["jpg", "png", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_exif_orientation_is_applied(tmp_path, kind, orientation):
    image = gradient()
    if kind == "jpg":
        body = b"Exif\0\0" + orientation_tags(orientation)
        jpeg = encoded(".jpg", image, (cv2.IMWRITE_JPEG_QUALITY, 100))
        data = jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]
    elif kind == "png":
        rows = [row.tobytes() for row in image]
        data = png(8, 2, (56, 40), rows, chunk(b"eXIf", orientation_tags(orientation)))
    else:
        fields = [
            (256, 56),
            (257, 40),
            (258, 8),
            (259, 1),
            (262, 2),
            (273, 134),
            (274, orientation),
        ]
        fields += [(277, 3), (278, 40), (279, image.nbytes)]
        entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
        data = struct.pack("<2sHIH", b"II", 42, 8, len(fields)) + entries + bytes(4)
        data += image.tobytes()
    # How to turn the stored picture so that it is upright: the EXIF standard's table.
    upright = {
        1: image,
        2: image[:, ::-1],
        3: image[::-1, ::-1],
        4: image[::-1],
        5: image.swapaxes(0, 1),
        6: np.rot90(image, -1),
        7: image[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(image, 1),
    }[orientation]
    actual = read_image(save(tmp_path / f"a.{kind}", data))
    assert actual.shape == upright.shape
    assert np.abs(actual.astype(int) - upright).mean() < (3 if kind == "jpg" else 0.01)


@pytest.mark.parametrize("suffix", [".avif", ".jp2"])
def test_avif_and_jpeg_2000_are_read_where_opencv_has_them(tmp_path, suffix):
    if not cv2.haveImageWriter(f"a{suffix}"):
        pytest.skip(f"this OpenCV has no {suffix}")
    path = save(tmp_path / f"a{suffix}", encoded(suffix, gradient()))
    image = read_image(path)
    assert image.dtype == np.uint8
    assert np.abs(image.astype(int) - gradient()).mean() < 3
    assert "cannot be decoded" in message_of(save(path, path.read_bytes()[:100]))


def test_a_non_ascii_path_is_read_and_written(tmp_path):
    folder = tmp_path / "dir with space" / "Å日本"
    folder.mkdir(parents=True)
    path = folder / "フレーム 1.png"
    write_image(path, gradient())
    np.testing.assert_array_equal(read_image(path), gradient())


def test_a_colour_profile_that_libpng_warns_about_stays_silent(tmp_path, capfd):
    profile = chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(200)))
    path = save(tmp_path / "a.png", png(8, 2, (1, 1), [bytes([1, 2, 3])], profile))
    assert read_image(path).tolist() == [[[1, 2, 3]]]
    assert capfd.readouterr() == ("", "")


# damage


def message_of(path: Path) -> str:
    with pytest.raises(ImageError) as caught:
        read_image(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


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


def test_what_another_thread_writes_to_stderr_meanwhile_is_passed_on(capfd):
    with quiet_decoding() as complaints:
        os.write(2, b"50 %Corrupt JPEG data: bad Huffman code\nhello\nlibpng warning: x\n")
        assert complaints == b""
    assert complaints == b"Corrupt JPEG data: bad Huffman code\nlibpng warning: x\n"
    assert capfd.readouterr() == ("", "50 %hello\n")


def test_a_damaged_jpeg_is_found_without_a_stderr(tmp_path):
    data = encoded(".jpg", np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
    path = save(tmp_path / "a.jpg", data[: len(data) // 2] + data[-2:])
    script = (
        "import os, sys; os.close(2); from pwcflow import read_image\n"
        "try: read_image(sys.argv[1])\nexcept Exception as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
    assert "a.jpg is damaged: its decoder found 'premature end" in run.stdout


# writing


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".tiff", ".webp", ".PNG"])
def test_a_written_image_comes_back(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_image(path, gradient()[:, ::-1])
    np.testing.assert_array_equal(read_image(path), gradient()[:, ::-1])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg"])
def test_a_written_jpeg_is_close(tmp_path, suffix):
    write_image(tmp_path / f"a{suffix}", gradient())
    assert np.abs(read_image(tmp_path / f"a{suffix}").astype(int) - gradient()).mean() < 3


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_16_bits_are_written_where_they_fit(tmp_path, suffix):
    deep = gradient().astype(np.uint16) * 200
    write_image(tmp_path / f"a{suffix}", deep)
    np.testing.assert_array_equal(read_image(tmp_path / f"a{suffix}"), deep)
    with pytest.raises(ValueError, match="uint16"):
        write_image(tmp_path / "a.jpg", deep)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.flo", "a.gif"])
def test_an_unknown_suffix_is_refused_before_anything_is_written(tmp_path, name):
    with pytest.raises(OutputError, match=r"use \.png \.jpg \.jpeg \.bmp \.tif \.tiff \.webp"):
        write_image(tmp_path / "missing folder" / name, gradient())
    assert list(tmp_path.iterdir()) == []


def test_an_image_too_large_for_its_format_is_refused(tmp_path, capfd):
    with pytest.raises(OutputError, match=r"20000 x 1 pixels; use \.png"):
        write_image(tmp_path / "a.webp", np.zeros((1, 20000, 3), np.uint8))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 1), (4, 4, 4), (0, 4, 3)])
def test_an_array_that_is_no_image_is_a_value_error(tmp_path, shape):
    with pytest.raises(ValueError, match=r"\(H, W, 3\)"):
        write_image(tmp_path / "a.png", np.zeros(shape, np.uint8))


def test_what_is_written_can_be_read():
    for suffix in (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"):
        assert check_image_suffix(Path("a" + suffix)) in IMAGE_SUFFIXES


# what people really have


@needs_samples
@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("exif_Landscape_6.jpg", (1200, 1800, 3), np.uint8),
        ("gray_camera.png", (512, 512, 3), np.uint8),
        ("pgm_p1.pgm", (388, 584, 3), np.uint8),
        ("pil_16bit.cropped.tif", (64, 64, 3), np.uint16),
        ("rgba_Crate1.png", (480, 640, 3), np.uint8),
    ],
)
def test_real_files_are_read(name, shape, dtype, capfd):
    image = read_image(SAMPLES / name)
    assert image.shape == shape
    assert image.dtype == dtype
    assert image.max() > image.min()
    assert capfd.readouterr() == ("", "")
