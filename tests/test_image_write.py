"""Images are written whole, in the format of their name, or not at all."""

from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import OutputError
from pwcflow.image_file import IMAGE_SUFFIXES, check_image_suffix, read_image, write_image
from tests.image_bytes import gradient


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
