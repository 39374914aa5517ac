"""Images of every kind are read as RGB, upright, with the depth that they have."""

import base64
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.image_file import read_image, write_image
from tests.image_bytes import chunk, encoded, gradient, message_of, png, save

SAMPLES = Path(__file__).parents[1].parent / "shared" / "samples" / "images"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"{SAMPLES} is absent")

# 8 x 8 pixels of pure red, stored as CMYK with Adobe's inversion
CMYK_JPEG = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAbEhQXFBEbFxYXHhwbIChCKyglJShROj0wQmBVZWRfVV1baniZgWpxkHNbXYW1"
    "hpCeo6utq2eAvMm6pseZqKuk/8AAFAgACAAIBEMRAE0RAFkRAEsRAP/EABQAAQAAAAAAAAAAAAAAAAAAAAb/xAAUEAEA"
    "AAAAAAAAAAAAAAAAAAAA/9oADgRDAE0AWQBLAAA/AEwyMkz/2Q=="
)


def orientation_tags(orientation: int) -> bytes:
    """A TIFF structure with nothing but the tag Orientation."""
    return b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([orientation]) + bytes(7)


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
