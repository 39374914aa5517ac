""".pfm files of flow."""

import cv2
import numpy as np
import pytest

from pwcflow.flow_file import (
    read_flow,
    write_flow,
)
from tests.flow_samples import random_flow, refuses

# 1 x 2 pixels: (1, -2) above (0.5, 3), written by hand: from the bottom, the third channel 0
PFM_BYTES = b"PF\n1 2\n-1.0\n" + bytes.fromhex(
    "0000003f 00004040 00000000 0000803f 000000c0 00000000".replace(" ", "")
)
PFM_BIG_ENDIAN = b"PF\n1 2\n1.0\n" + bytes.fromhex(
    "3f000000 40400000 00000000 3f800000 c0000000 3f800000".replace(" ", "")
)


def test_a_pfm_file_has_the_bytes_worked_by_hand(tmp_path):
    path = tmp_path / "a.pfm"
    write_flow(path, np.array([[[1, -2]], [[0.5, 3]]], np.float32))
    assert path.read_bytes() == PFM_BYTES


def test_opencv_reads_a_pfm_file(tmp_path):
    path = tmp_path / "a.pfm"
    flow = random_flow(5, 7)
    write_flow(path, flow)
    picture = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(picture[..., ::-1], np.dstack([flow, np.zeros((5, 7))]))


@pytest.mark.parametrize(
    "data",
    [
        PFM_BYTES,
        PFM_BIG_ENDIAN,
        PFM_BYTES.replace(b"-1.0\n", b"-1.000000\n"),
        PFM_BYTES.replace(b"PF\n1 2\n-1.0\n", b"PF\r\n1 2\r\n-1\r\n"),
    ],
    ids=["little", "big", "zeros", "CRLF"],
)
def test_the_sign_of_a_pfm_scale_tells_the_endianness_and_rows_go_up(tmp_path, data):
    (tmp_path / "a.pfm").write_bytes(data)
    assert read_flow(tmp_path / "a.pfm").tolist() == [[[1, -2]], [[0.5, 3]]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin with 'PF'"),
        (b"P6\n1 1\n255\n", "does not begin with 'PF'"),
        (b"Pf\n1 1\n-1.0\n" + bytes(4), "one channel"),
        (b"PF\n1 2\n", "is cut short: its header"),
        (b"PF\none two\n-1.0\n" + bytes(24), "no width, height and scale"),
        (b"PF\n1 2\nlittle\n" + bytes(24), "no width, height and scale"),
        (b"PF\n0 2\n-1.0\n", "its header says 0 x 2 pixels"),
        (b"PF\n-1 2\n-1.0\n" + bytes(24), "its header says -1 x 2 pixels"),
        (b"PF\n1 2\n0\n" + bytes(24), "its scale is 0"),
        (b"PF\n1 2\n-e.\n" + bytes(24), "its scale is -e."),
        (b"PF\n1 2\n1e999\n" + bytes(24), "its scale is 1e999"),
        (PFM_BYTES[:-1], "is cut short: its header says 1 x 2 pixels, which needs 36 bytes"),
        (PFM_BYTES + b"\0", "is too long"),
        (b"PF\n99999 99999\n-1.0\n" + bytes(24), "needs 119997600032 bytes"),
    ],
)
def test_a_damaged_pfm_file_is_refused(tmp_path, data, message):
    refuses(tmp_path / "a.pfm", data, message)
