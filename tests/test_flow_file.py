import os
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file import (
    FLOW_SUFFIXES,
    check_flow_suffix,
    known_pixels,
    read_flow,
    write_flow,
)

# 2 x 1 pixels: (1, -2) and (0.5, 1e10), written by hand
FLO_BYTES = bytes.fromhex(
    "50494548 02000000 01000000 0000803f 000000c0 0000003f f9021550".replace(" ", "")
)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_of(values: list[list[tuple[int, int, int]]]) -> bytes:
    """Encode 16-bit RGB rows by hand, filter 0."""
    rows = b"".join(b"\0" + b"".join(struct.pack(">3H", *pixel) for pixel in row) for row in values)
    header = struct.pack(">IIBBBBB", len(values[0]), len(values), 16, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def values_of(png: bytes) -> np.ndarray:
    """Decode 16-bit RGB without OpenCV, (H, W, 3) in the order the file has."""
    position, body = 8, b""
    while position < len(png):
        length, kind = struct.unpack_from(">I4s", png, position)
        data = png[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", data)
            assert (depth, colour, interlace) == (16, 2, 0)
        if kind == b"IDAT":
            body += data
        position += 12 + length
    raw, stride = zlib.decompress(body), 6 * width
    rows, previous = [], [0] * stride
    for y in range(height):
        filtered = raw[y * (stride + 1)]
        row = list(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for x in range(stride):
            left, above = (row[x - 6] if x >= 6 else 0), previous[x]
            corner = previous[x - 6] if x >= 6 else 0
            guess = left + above - corner
            paeth = min((left, above, corner), key=lambda value: abs(guess - value))
            row[x] = (row[x] + [0, left, above, (left + above) // 2, paeth][filtered]) & 255
        rows.append(row)
        previous = row
    return np.array(rows, np.uint8).view(">u2").reshape(height, width, 3).astype(int)


def test_a_flo_file_has_the_middlebury_bytes(tmp_path):
    path = tmp_path / "a.flo"
    write_flow(path, np.array([[[1, -2], [0.5, 1e10]]], np.float32))
    assert path.read_bytes() == FLO_BYTES


def test_a_flo_file_is_read_as_stored(tmp_path):
    path = tmp_path / "a.FLO"
    path.write_bytes(FLO_BYTES)
    flow = read_flow(path)
    assert flow.dtype == np.float32
    assert flow.tolist() == [[[1, -2], [0.5, 1e10]]]
    assert known_pixels(flow).tolist() == [[True, False]]


@pytest.mark.parametrize("suffix", [".flo", ".npy"])
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 2), (5, 3, 2)])
def test_every_float_survives(tmp_path, suffix, shape):
    flow = np.random.default_rng(0).normal(0, 100, shape).astype(np.float32)
    flow[0, 0] = np.nan, -np.inf
    path = tmp_path / f"Å日本 1{suffix}"
    write_flow(path, flow[:, ::-1])
    assert read_flow(path).tobytes() == flow[:, ::-1].tobytes()


def test_numpy_reads_an_npy_file_and_writes_what_is_read(tmp_path):
    flow = np.random.default_rng(3).normal(0, 100, (4, 7, 2)).astype(np.float32)
    write_flow(tmp_path / "a.npy", flow)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), flow)
    np.save(tmp_path / "b.npy", flow)
    np.testing.assert_array_equal(read_flow(tmp_path / "b.npy"), flow)


def test_known_pixels_are_finite_and_at_most_1e9():
    bad = [np.nan, np.inf, -np.inf, 1e10, -1.1e9]
    flow = np.array([[[value, 0] for value in bad], [[0, value] for value in bad]], np.float32)
    assert not known_pixels(flow).any()
    assert known_pixels(np.array([[[1e9, -1e9]]], np.float32)).all()


# KITTI


def test_a_kitti_file_has_u_in_red_v_in_green_and_valid_in_blue(tmp_path):
    path = tmp_path / "a.png"
    write_flow(path, np.array([[[1, -2], [0, 0], [-512, 511.984375]]], np.float32))
    expected = [[[32768 + 64, 32768 - 128, 1], [32768, 32768, 1], [0, 65535, 1]]]
    assert values_of(path.read_bytes()).tolist() == expected


def test_a_kitti_file_made_elsewhere_is_read(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png_of([[(32768 + 96, 32768 - 1, 1)], [(40000, 40000, 0)], [(0, 65535, 7)]]))
    flow = read_flow(path)
    assert flow.dtype == np.float32
    np.testing.assert_array_equal(
        flow, [[[1.5, -1 / 64]], [[np.nan, np.nan]], [[-512, 32767 / 64]]]
    )


def test_a_kitti_value_is_rounded_half_to_even(tmp_path):
    path = tmp_path / "a.png"
    steps = np.array([0.5, 1.5, -0.5, -1.5, 0.6, -0.6, 0.4, -0.4], np.float32)
    write_flow(path, np.stack([steps, steps], -1)[None] / 64)
    assert (values_of(path.read_bytes())[0, :, 0] - 32768).tolist() == [0, 2, 0, -2, 1, -1, 0, 0]


def test_a_kitti_round_trip_is_within_half_a_step(tmp_path):
    path = tmp_path / "a.png"
    flow = np.random.default_rng(1).uniform(-511, 511, (20, 30, 2)).astype(np.float32)
    write_flow(path, flow)
    assert np.abs(read_flow(path) - flow).max() <= 1 / 128


def test_a_flow_beyond_16_bits_is_clipped_and_invalid_and_never_wraps(tmp_path):
    path = tmp_path / "a.png"
    write_flow(path, np.array([[[600, 0], [0, -600], [512, 0], [511.99, 0]]], np.float32))
    expected = [[65535, 32768, 0], [32768, 0, 0], [65535, 32768, 0], [65535, 32768, 1]]
    assert values_of(path.read_bytes())[0].tolist() == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e10])
def test_unknown_flow_is_invalid_in_a_kitti_file(tmp_path, value):
    path = tmp_path / "a.png"
    write_flow(path, np.array([[[value, 3], [3, value], [3, 3]]], np.float32))
    assert values_of(path.read_bytes())[0].tolist() == [[0, 0, 0], [0, 0, 0], [32960, 32960, 1]]


# damage


def flo(width: int, height: int, size: int) -> bytes:
    return struct.pack("<4sii", b"PIEH", width, height) + bytes(size)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (FLO_BYTES[:-1], "is cut short: its header says 2 x 1 pixels, which needs 28 bytes"),
        (FLO_BYTES + b"\0", "is too long: its header says 2 x 1 pixels, which needs 28 bytes"),
        (FLO_BYTES[:12], "is cut short"),
        (FLO_BYTES[:11], "is cut short: its header needs 12 bytes, but the file has 11"),
        (FLO_BYTES[:3], "is cut short: its header needs 12 bytes, but the file has 3"),
        (b"", "does not begin with 'PIEH'"),
        (b"HEIP" + FLO_BYTES[4:], "does not begin with 'PIEH'"),
        (flo(0, 1, 0), "its header says 0 x 1 pixels"),
        (flo(1, 0, 0), "its header says 1 x 0 pixels"),
        (flo(-1, -1, 8), "its header says -1 x -1 pixels"),
        (flo(-(2**31), 1, 8), "its header says -2147483648 x 1 pixels"),
        (flo(2**31 - 1, 2**31 - 1, 8), "its header says 2147483647 x"),
        (flo(99999, 99999, 8), "needs 79998400020 bytes, but the file has 20"),
    ],
)
def test_a_damaged_flo_file_is_refused(tmp_path, data, message):
    path = tmp_path / "a.flo"
    path.write_bytes(data)
    with pytest.raises(FlowFileError) as caught:
        read_flow(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def npy(shape: tuple[int, ...], size: int, kind: str = "<f4") -> bytes:
    return npy_of(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}", size)


def npy_of(header: str, size: int) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(size)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy((1, 1, 2), 7), "is cut short"),
        (npy((1, 1, 2), 9), "is too long"),
        (npy((99999999, 99999999, 2), 8), "is cut short"),
        (npy((2, 4, 4), 128), "of shape (2, 4, 4)"),
        (npy((0, 4, 2), 0), "of shape (0, 4, 2)"),
        (npy((-1, -1, 2), 8), "of shape (-1, -1, 2)"),
        (npy((1, 1, 2), 8, "<i4"), "int32"),
        (npy((1, 1, 2), 8, "|O"), "Python objects"),
        (npy_of("{'descr': '<f4', 'shape': (1, 1, 2)}", 8), "header is damaged"),
        (npy_of("exit(1)", 8), "header is damaged"),
        (npy((1, 1, 2), 8).replace(b"'<f4'", b"()   "), "header is damaged"),
        (npy((1, 1, 2), 8).replace(b"}", b"\x84"), "header is damaged"),
        (npy((1, 1, 2), 8).replace(b"}", b" "), "header is damaged"),
        (npy_of("[" * 9000, 8), "header is damaged"),
        (b"", "not a .npy file"),
        (b"\x93NUMPY", "not a .npy file"),
        (b"\x93NUMPY\x03\x00" + npy((1, 1, 2), 8)[8:], "header is damaged"),
        (b"PK\x03\x04" + bytes(30), "not a .npy file"),
    ],
)
def test_a_damaged_npy_file_is_refused(tmp_path, data, message):
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    with pytest.raises(FlowFileError) as caught:
        read_flow(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
def test_other_floats_in_npy_become_float32(tmp_path, dtype):
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(np.array([[[1, -2.5], [3, 4]]], dtype)))
    flow = read_flow(path)
    assert flow.dtype == np.float32
    assert flow.flags.c_contiguous
    assert flow.tolist() == [[[1, -2.5], [3, 4]]]


@pytest.mark.parametrize("size", [0, 5, 20, 40, -30, -12, -1])
def test_a_kitti_file_cut_short_is_refused(tmp_path, size, capfd):
    path = tmp_path / "a.png"
    path.write_bytes(png_of([[(32768, 32768, 1)] * 50] * 50)[:size])
    with pytest.raises(FlowFileError):
        read_flow(path)
    assert capfd.readouterr() == ("", "")


def test_a_colour_picture_is_not_taken_for_flow(tmp_path):
    path = tmp_path / "colours.png"
    cv2.imwrite(str(path), np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(
        FlowFileError, match=r"a colour picture with 8 bits.* turned back into flow"
    ):
        read_flow(path)
    with pytest.raises(FlowFileError, match="a picture cannot be turned back into flow"):
        read_flow(tmp_path / "colours.jpg")
    cv2.imwrite(str(path), np.zeros((4, 4), np.uint16))
    with pytest.raises(FlowFileError, match="a gray picture with 16 bits"):
        read_flow(path)


@pytest.mark.parametrize("name", ["a.txt", "a", ".flo", "a.flo.gz"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path, name):
    with pytest.raises(OutputError, match=r"cannot write .* use \.flo \.png \.npy"):
        check_flow_suffix(tmp_path / name)
    with pytest.raises(OutputError, match=r"cannot write .* use \.flo \.png \.npy"):
        write_flow(tmp_path / name, np.zeros((1, 1, 2), np.float32))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).touch()
    with pytest.raises(FlowFileError, match=r"is not a flow file: .* use \.flo \.png \.npy"):
        read_flow(tmp_path / name)


def test_what_is_not_there_is_not_said_to_lack_a_suffix(tmp_path):
    with pytest.raises(FlowFileError, match=r"there is no file .*nowhere; check the name and"):
        read_flow(tmp_path / "nowhere")


def test_a_side_too_long_for_flo_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match=r"100000 x 1 pixels.*use \.npy"):
        write_flow(tmp_path / "a.flo", np.zeros((1, 100000, 2), np.float32))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
@pytest.mark.parametrize("suffix", sorted(FLOW_SUFFIXES))
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    os.mkfifo(path)
    with pytest.raises(FlowFileError, match="is a pipe or a device"):
        read_flow(path)


def test_the_known_suffixes_pass():
    assert FLOW_SUFFIXES == (".flo", ".png", ".npy", ".npz", ".pfm", ".flo5", ".exr")
    assert check_flow_suffix(Path("a.PNG")) == ".png"


@pytest.mark.parametrize("suffix", sorted(FLOW_SUFFIXES))
def test_missing_files_and_folders_are_told_apart(tmp_path, suffix):
    with pytest.raises(FlowFileError, match="there is no file"):
        read_flow(tmp_path / f"a{suffix}")
    (tmp_path / f"b{suffix}").mkdir()
    pytest.importorskip({".flo5": "h5py", ".exr": "OpenEXR"}.get(suffix, "numpy"))
    with pytest.raises(FlowFileError, match="is a folder"):
        read_flow(tmp_path / f"b{suffix}")
    with pytest.raises(OutputError, match="is a folder"):
        write_flow(tmp_path / f"b{suffix}", np.zeros((1, 1, 2), np.float32))


@pytest.mark.parametrize("suffix", sorted(FLOW_SUFFIXES))
@pytest.mark.parametrize("flow", [np.zeros((2, 2)), np.zeros((2, 2, 3)), np.zeros((0, 2, 2))])
def test_an_array_that_is_no_flow_is_a_value_error(tmp_path, suffix, flow):
    with pytest.raises(ValueError, match=r"\(H, W, 2\)"):
        write_flow(tmp_path / f"a{suffix}", flow.astype(np.float32))


def test_a_flow_of_another_type_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match="float32"):
        write_flow(tmp_path / "a.flo", np.zeros((2, 2, 2)))
