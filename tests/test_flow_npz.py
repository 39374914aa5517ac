""".npz files of flow, with NumPy as the other reader."""

import struct
import zipfile
import zlib

import numpy as np
import pytest

from pwcflow.flow_file import (
    read_flow,
    read_metadata,
    write_flow,
)
from tests.flow_samples import FLOW, npy_of, refuses, zip_of


def stored_zip_by_hand(name: bytes, body: bytes) -> bytes:
    checksum, size = zlib.crc32(body), len(body)
    common = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, checksum, size, size, len(name), 0)
    local = b"PK\x03\x04" + common + name + body
    central = b"PK\x01\x02" + struct.pack("<H", 20) + common
    central += struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


def test_an_npz_file_written_by_hand_is_read(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2)}\n"
    body = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + FLOW.tobytes()
    (tmp_path / "a.npz").write_bytes(stored_zip_by_hand(b"flow.npy", body))
    assert read_flow(tmp_path / "a.npz").tolist() == FLOW.tolist()
    assert read_metadata(tmp_path / "a.npz") == {}


def test_numpy_reads_an_npz_file_and_it_is_compressed(tmp_path):
    path = tmp_path / "a.npz"
    flow = np.array([[[1, -2], [np.nan, 3]]], np.float32)
    write_flow(path, flow, metadata={"a": 1})
    with np.load(path) as held:
        assert sorted(held) == ["flow", "metadata", "valid"]
        np.testing.assert_array_equal(held["flow"], flow)
        assert held["valid"].tolist() == [[True, False]]
        assert str(held["metadata"]) == '{"a": 1}'
    with zipfile.ZipFile(path) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_DEFLATED}


@pytest.mark.parametrize("dtype", [bool, np.uint8])
@pytest.mark.parametrize("packed", [False, True])
def test_where_an_npz_is_not_valid_flow_is_nan(tmp_path, dtype, packed):
    valid = np.array([[1, 0]], dtype)
    flow = np.asfortranarray(FLOW.astype(np.float64))
    (tmp_path / "a.npz").write_bytes(zip_of(packed=packed, flow=flow, valid=valid))
    np.testing.assert_array_equal(read_flow(tmp_path / "a.npz"), [[[1, -2], [np.nan, np.nan]]])


@pytest.mark.parametrize("metadata", [np.array("no JSON"), np.array("[1]"), np.zeros(3)])
def test_the_metadata_of_others_are_passed_over(tmp_path, metadata):
    (tmp_path / "a.npz").write_bytes(zip_of(flow=FLOW, metadata=metadata))
    assert read_metadata(tmp_path / "a.npz") == {}


def huge(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin as a ZIP archive"),
        (b"\x93NUMPY", "does not begin as a ZIP archive"),
        (zip_of(flow=FLOW)[:-1], "is cut short: the table of contents"),
        (zip_of(flow=FLOW)[:40], "is cut short: the table of contents"),
        (zip_of(other=FLOW), "holds other, but no array 'flow'"),
        (zip_of(flow=FLOW[..., :1]), "not a flow"),
        (zip_of(flow=FLOW.astype(np.int32)), "not a flow"),
        (zip_of(flow=np.array([[[None, 1]]])), "Python objects"),
        (zip_of(flow=npy_of(FLOW)[:-1]), "is cut short: its header says 'flow' of shape"),
        (zip_of(flow=npy_of(FLOW) + b"\0"), "is too long"),
        (zip_of(flow=b"nothing"), "not a .npy file, or its header is damaged"),
        (
            zip_of(
                flow=huge(
                    b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999, 9999999, 2)}\n"
                )
            ),
            "is cut short",
        ),
        (zip_of(flow=FLOW, valid=np.ones((2, 1), bool)), "does not belong to its flow"),
        (zip_of(flow=FLOW, valid=np.ones((1, 2))), "does not belong to its flow"),
        (zip_of(flow=FLOW).replace(FLOW.tobytes(), bytes(16)), "cannot be unpacked (Bad CRC-32"),
    ],
)
def test_a_damaged_npz_file_is_refused(tmp_path, data, message):
    refuses(tmp_path / "a.npz", data, message)


def test_a_zip_that_claims_more_than_it_can_hold_is_refused(tmp_path):
    data = zip_of(flow=FLOW, packed=True)
    size = struct.pack("<I", len(npy_of(FLOW)))
    assert data.count(size) == 2
    refuses(tmp_path / "a.npz", data.replace(size, struct.pack("<I", 1 << 31)), "cannot hold")
