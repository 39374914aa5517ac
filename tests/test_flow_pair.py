"""Pairs of 8-bit pictures."""

import struct
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file import (
    kind_of,
    pair,
    read_flow,
    write_flow,
)
from tests.flow_samples import FLOW


def gray_png(path: Path) -> np.ndarray:
    """Return the values of a gray PNG of filter 0, without OpenCV where it wrote it so."""
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert (image.dtype, image.ndim) == (np.uint8, 2)
    return image


def test_a_pair_holds_each_component_as_gray_by_its_bound(tmp_path):
    path = tmp_path / "a_x.png"
    flow = np.array([[[-20, 20], [0, 5], [-25, 25], [0.08, -0.08]]], np.float32)
    assert write_flow(path, flow, bound=20) == 1
    # (u + 20) / 40 * 255: 0, 127.5 to even, below 0, 128.01; and 255, 159.375, above 255, 126.99
    assert gray_png(path).tolist() == [[0, 128, 0, 128]]
    assert gray_png(tmp_path / "a_y.png").tolist() == [[255, 159, 255, 127]]
    assert kind_of(path)[:2] == ("pair of 8-bit pictures", 20.0)
    values = np.array([[[0, 255], [128, 159], [0, 255], [128, 127]]])
    np.testing.assert_array_equal(read_flow(path), (values * (40 / 255) - 20).astype(np.float32))
    chunk = b"tEXtpwcflow flow bound in px\x0020.0"
    assert path.read_bytes()[33:37] == struct.pack(">I", len(chunk) - 4)
    assert path.read_bytes()[37 : 37 + len(chunk)] == chunk


@pytest.mark.parametrize("bound", [20, 1, 32.5, 1e-3, 500])
def test_a_round_trip_of_what_8_bits_hold_is_exact(tmp_path, bound):
    gray = np.arange(256, dtype=np.uint8).reshape(16, 16)
    cv2.imwrite(str(tmp_path / "a_x.png"), gray)
    cv2.imwrite(str(tmp_path / "a_y.png"), gray[::-1])
    flow = read_flow(tmp_path / "a_x.png", bound=bound)
    assert (flow[..., 0].min(), flow[..., 0].max()) == (np.float32(-bound), np.float32(bound))
    write_flow(tmp_path / "b_x.png", flow, bound=bound)
    assert (gray_png(tmp_path / "b_x.png") == gray).all()
    assert (gray_png(tmp_path / "b_y.png") == gray[::-1]).all()
    np.testing.assert_array_equal(read_flow(tmp_path / "b_x.png"), flow)


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (50, 60)], ids=str)
def test_a_pair_of_jpegs_is_near_what_was_written(tmp_path, size):
    flow = np.full((*size, 2), 7.0, np.float32)
    path = tmp_path / "flow_x_00001.jpg"
    assert write_flow(path, flow, bound=20) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["flow_x_00001.jpg", "flow_y_00001.jpg"]
    assert b"\xff\xfe\x00\x20pwcflow flow bound in px: 20.0" in path.read_bytes()
    assert np.abs(read_flow(path) - flow).max() < 0.2
    assert cv2.imread(str(path), cv2.IMREAD_UNCHANGED).shape == size


def test_unknown_pixels_of_a_pair_become_no_motion_and_are_counted(tmp_path):
    flow = np.array([[[np.nan, 9], [1, 1], [1e10, 0]]], np.float32)
    assert write_flow(tmp_path / "a_x.png", flow, bound=10) == 2
    assert gray_png(tmp_path / "a_y.png").tolist() == [[128, 140, 128]]


def test_a_pair_without_a_record_needs_a_bound(tmp_path):
    for axis in "xy":
        cv2.imwrite(str(tmp_path / f"flow_{axis}_1.jpg"), np.full((4, 4), 255, np.uint8))
    path = tmp_path / "flow_x_1.jpg"
    with pytest.raises(FlowFileError, match=r"does not record .*; give --bound PX"):
        read_flow(path)
    assert (read_flow(path, bound=15) == 15).all()
    assert kind_of(path).bound is None


def test_what_is_wrong_with_a_pair_is_told(tmp_path):
    x, y = tmp_path / "a_x.png", tmp_path / "a_y.png"
    flow = np.zeros((2, 3, 2), np.float32)
    write_flow(x, flow, bound=20)
    with pytest.raises(FlowFileError, match="records a bound of 20 px, and not of 10 px"):
        read_flow(x, bound=10)
    with pytest.raises(FlowFileError, match=r"holds v only; name the half with u, .*a_x\.png"):
        read_flow(y)
    write_flow(tmp_path / "b_x.png", flow, bound=10)
    y.write_bytes((tmp_path / "b_y.png").read_bytes())
    with pytest.raises(FlowFileError, match="do not record one bound"):
        read_flow(x)
    write_flow(tmp_path / "b_x.png", np.zeros((3, 2, 2), np.float32), bound=20)
    y.write_bytes((tmp_path / "b_y.png").read_bytes())
    with pytest.raises(FlowFileError, match="differ in size"):
        read_flow(x)
    y.unlink()
    with pytest.raises(FlowFileError, match=r"holds u only, and there is no .*a_y\.png"):
        read_flow(x)
    for name in ("none_x.jpg", "none_y.jpg", "none_x.png", "none_y.png"):
        with pytest.raises(FlowFileError, match=f"there is no file .*{name}; check the name"):
            read_flow(tmp_path / name)
    cv2.imwrite(str(tmp_path / "c_x.jpg"), np.full((9, 9, 3), (0, 0, 255), np.uint8))
    cv2.imwrite(str(tmp_path / "c_y.jpg"), np.zeros((9, 9), np.uint8))
    with pytest.raises(FlowFileError, match="is a colour picture, not half a flow"):
        read_flow(tmp_path / "c_x.jpg", bound=20)
    (tmp_path / "c_x.jpg").write_bytes(b"GIF89a" + bytes(99))
    with pytest.raises(FlowFileError, match="is neither JPEG nor PNG"):
        read_flow(tmp_path / "c_x.jpg", bound=20)


@pytest.mark.parametrize("text", [b"-1.0", b"nan_", b"1e99", b"20,0"])
def test_a_damaged_bound_is_refused(tmp_path, text):
    write_flow(tmp_path / "a_x.jpg", np.zeros((2, 3, 2), np.float32), bound=20)
    data = (tmp_path / "a_x.jpg").read_bytes()
    assert data.count(b"20.0") == 1
    (tmp_path / "a_x.jpg").write_bytes(data.replace(b"20.0", text))
    with pytest.raises(FlowFileError):
        read_flow(tmp_path / "a_x.jpg")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.png", r"name the first one a_x\.png"),
        ("000001.jpg", r"name the first one flow_x_000001\.jpg"),
        ("a_y.png", "name the first one"),
        ("a_x.flo", "pair of 8-bit pictures; use .jpg .jpeg .png"),
    ],
)
def test_a_name_that_no_pair_has_is_told(tmp_path, name, message):
    with pytest.raises(OutputError, match=message):
        write_flow(tmp_path / name, np.zeros((1, 1, 2), np.float32), bound=20)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bound", [0, -1, np.nan, np.inf])
def test_a_bound_that_is_no_size_is_a_value_error(tmp_path, bound):
    with pytest.raises(ValueError, match="a bound is a number above 0"):
        write_flow(tmp_path / "a_x.png", np.zeros((1, 1, 2), np.float32), bound=bound)


def test_a_kitti_file_may_be_called_as_a_half_is(tmp_path):
    write_flow(tmp_path / "a_x.png", FLOW)
    assert read_flow(tmp_path / "a_x.png").tolist() == FLOW.tolist()
    assert kind_of(tmp_path / "a_x.png").name == "KITTI 16-bit .png"


@pytest.mark.parametrize(
    ("stem", "half"),
    [("000001", "flow_x_000001"), ("a", "a_x"), ("a_7", "a_x_7"), ("flow10", "flow10_x")],
)
def test_the_names_of_a_pair_keep_their_numbers(stem, half):
    assert pair.half_of(stem) == half
    path = Path(f"d/{half}.jpg")
    assert pair.other_half(path).name == f"{half.replace('_x', '_y')}.jpg"
    assert pair.other_half(pair.other_half(path)) == path
    assert pair.stem_of(path) == (f"flow_{stem}" if stem.isdigit() else stem)
