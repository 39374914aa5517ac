""".flo5 files (HDF5), with h5py as the other reader."""

import struct

import numpy as np
import pytest

from pwcflow.flow_file import (
    read_flow,
    write_flow,
)
from tests.flow_samples import FLOW, random_flow, refuses

HDF5_START = (
    b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + bytes(8)
    + struct.pack("<QQQQ", 0, 2**64 - 1, 100, 2**64 - 1) + bytes(44)
)  # fmt: skip


def test_h5py_reads_a_flo5_file_and_it_is_compressed(tmp_path):
    h5py = pytest.importorskip("h5py")
    flow = random_flow(5, 7)
    write_flow(tmp_path / "a.flo5", flow)
    with h5py.File(tmp_path / "a.flo5") as file:
        assert list(file) == ["flow"]
        assert (file["flow"].dtype, file["flow"].compression) == (np.float32, "gzip")
        assert file["flow"].shuffle
        np.testing.assert_array_equal(file["flow"][()], flow)


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "shuffle": True}], ids=str)
def test_other_layouts_of_hdf5_are_read(tmp_path, dtype, options):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.flo5", "w", libver="latest") as file:
        file.create_dataset("flow", data=FLOW.astype(dtype), **options)
        file.create_dataset("other", data=[1])
    assert read_flow(tmp_path / "a.flo5").tolist() == FLOW.tolist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin as HDF5 does"),
        (b"PIEH" + bytes(200), "does not begin as HDF5 does"),
        (HDF5_START[:8], "is cut short: its first block needs 100 bytes, but the file has 8"),
        (HDF5_START[:99], "is cut short: its first block needs 100 bytes, but the file has 99"),
        (HDF5_START.replace(struct.pack("<Q", 100), struct.pack("<Q", 101)), "says 101 bytes"),
        (HDF5_START[:8] + b"\x07" + HDF5_START[9:], "version 7 of HDF5"),
        (HDF5_START[:13] + b"\x63" + HDF5_START[14:], "a position takes 99 bytes"),
    ],
)
def test_a_damaged_flo5_file_is_refused(tmp_path, data, message):
    refuses(tmp_path / "a.flo5", data, message)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("flow", np.zeros((2, 3, 3), np.float32), "not a flow"),
        ("flow", np.zeros((2, 3, 2), np.int32), "not a flow"),
        ("flow", np.float32(1), "not a flow"),
        ("disparity", np.zeros((2, 3), np.float32), "holds disparity, but no dataset 'flow'"),
    ],
)
def test_an_hdf5_file_without_flow_is_refused(tmp_path, name, values, message):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.flo5", "w") as file:
        file[name] = values
    refuses(tmp_path / "a.flo5", (tmp_path / "a.flo5").read_bytes(), message)


def test_an_hdf5_file_that_leads_elsewhere_or_claims_too_much_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.flo5"
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["flow"] = FLOW
    with h5py.File(path, "w") as file:
        file["flow"] = h5py.ExternalLink("other.h5", "flow")
    refuses(path, path.read_bytes(), "is a link or a group")
    with h5py.File(path, "w") as file:
        file.create_group("flow")
    refuses(path, path.read_bytes(), "is a link or a group")
    with h5py.File(path, "w") as file:
        file.create_dataset("flow", (1, 2, 2), "<f4", external=[("raw", 0, 16)])
    refuses(path, path.read_bytes(), "lies in other files")
    with h5py.File(path, "w") as file:
        file.create_dataset("flow", (90000, 90000, 2), "<f4", compression="gzip")
    refuses(path, path.read_bytes(), "its header says shape (90000, 90000, 2) of float32")
    with h5py.File(path, "w") as file:
        file.create_dataset("flow", (90000, 90000, 2), "<f4")
    refuses(path, path.read_bytes(), "its header says shape (90000, 90000, 2) of float32")
    with h5py.File(path, "w") as file:
        file.create_dataset("flow", (4, 4, 2), "<f4", chunks=(2, 2, 2))[:2] = 1
    refuses(path, path.read_bytes(), "2 of its 4 blocks")
