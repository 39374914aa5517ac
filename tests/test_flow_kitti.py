"""KITTI's .png: u and v in 16 bits, with OpenCV as the other reader."""

import struct
import zlib

import cv2
import numpy as np
import pytest

from pwcflow.errors import FlowFileError
from pwcflow.flow_file import (
    known_pixels,
    read_flow,
    write_flow,
)


def test_a_kitti_round_trip_of_what_16_bits_hold_is_exact(tmp_path):
    values = np.random.default_rng(0).integers(0, 65536, (37, 41, 2))
    flow = ((values - 32768) / 64).astype(np.float32)
    flow[3, 4] = np.nan
    write_flow(tmp_path / "a.png", flow)
    np.testing.assert_array_equal(read_flow(tmp_path / "a.png"), flow)
    encoded = cv2.imread(str(tmp_path / "a.png"), cv2.IMREAD_UNCHANGED)[..., ::-1]  # BGR
    values[3, 4] = 0
    np.testing.assert_array_equal(encoded[..., :2], values)
    assert np.argwhere(encoded[..., 2] != 1).tolist() == [[3, 4]]


def test_the_pixels_that_16_bits_cannot_hold_are_counted(tmp_path):
    flow = np.array([[[512, 0], [0, -513], [np.nan, 0], [511, 0]]], np.float32)
    assert write_flow(tmp_path / "a.png", flow) == 2
    assert known_pixels(read_flow(tmp_path / "a.png")).tolist() == [[False, False, False, True]]


def test_a_png_too_small_for_its_size_is_refused_before_it_is_decoded(tmp_path):
    header = struct.pack(">IIBBBBB", 16000, 16000, 16, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(99))), (b"IEND", b"")):
        data += struct.pack(">I", len(body)) + kind + body
        data += struct.pack(">I", zlib.crc32(kind + body))
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(FlowFileError, match=r"16000 x 16000 pixels, .* cannot hold"):
        read_flow(tmp_path / "a.png")
