"""Images of floats: EXR, Radiance, TIFF and PFM."""

import sys

import cv2
import numpy as np
import pytest

from tests.exr_files import EXR_FILES
from tests.image_samples import FLOATS, GRAY, RGB, X, Y, as_rgb, pfm, read, refusal, tif


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
