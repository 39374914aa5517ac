"""The formats beside .flo, .npy and KITTI's .png, and what all of them have in common."""

import io
import struct
import subprocess
import sys
import zipfile
import zlib
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file import (
    FLOW_SUFFIXES,
    check_flow_suffix,
    is_flow_name,
    kind_of,
    known_pixels,
    pair,
    read_flow,
    read_metadata,
    write_flow,
)

PACKAGES = {".flo5": "h5py", ".exr": "OpenEXR"}
HERE = [s for s in FLOW_SUFFIXES if s not in PACKAGES or find_spec(PACKAGES[s])]
EXACT = [suffix for suffix in HERE if suffix != ".png"]


def random_flow(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return values over all magnitudes, some of them unknown."""
    rng = np.random.default_rng(seed)
    flow = rng.normal(0, 1, (height, width, 2)) * 10.0 ** rng.uniform(-30, 8, (height, width, 1))
    flow[rng.random((height, width)) < 0.1] = np.nan
    return flow.astype(np.float32)


@pytest.mark.parametrize("suffix", EXACT)
@pytest.mark.parametrize("size", [(1, 1), (1, 7), (5, 3), (33, 17), (64, 130)], ids=str)
def test_a_round_trip_is_exact(tmp_path, suffix, size):
    path = tmp_path / f"Å日本 1{suffix}"
    flow = random_flow(*size)
    assert write_flow(path, flow[::-1, ::-1]) == 0
    read = read_flow(path)
    assert read.dtype == np.float32
    assert read.flags.c_contiguous
    assert read.flags.writeable
    np.testing.assert_array_equal(read, flow[::-1, ::-1])
    assert np.array_equal(np.signbit(read), np.signbit(flow[::-1, ::-1])) or np.isnan(flow).any()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", EXACT)
def test_the_extremes_survive(tmp_path, suffix):
    tiny, huge = np.float32(1e-45), np.float32(1e9)
    flow = np.array([[[0, -0.0], [tiny, -tiny], [huge, -huge], [1 / 3, -1 / 3]]], np.float32)
    write_flow(tmp_path / f"a{suffix}", flow)
    assert read_flow(tmp_path / f"a{suffix}").tobytes() == flow.tobytes()


@pytest.mark.parametrize("suffix", HERE)
def test_a_flow_at_rest_is_not_taken_for_damage(tmp_path, suffix):
    flow = np.zeros((400, 500, 2), np.float32)
    write_flow(tmp_path / f"a{suffix}", flow)
    assert not read_flow(tmp_path / f"a{suffix}").any()


@pytest.mark.parametrize("suffix", HERE)
def test_unknown_stays_unknown_and_known_stays_known(tmp_path, suffix):
    unknown = [(np.nan, 1), (1, np.inf), (-np.inf, np.nan), (1e10, 0), (0, -1e20)]
    flow = np.array([[*unknown, (1, 2)]], np.float32)
    write_flow(tmp_path / f"a{suffix}", flow)
    read = read_flow(tmp_path / f"a{suffix}")
    assert known_pixels(read).tolist() == [[False] * 5 + [True]]
    assert read[0, 5].tolist() == [1, 2]
    if suffix in (".png", ".npz"):
        assert np.isnan(read[0, :5]).all()


@pytest.mark.parametrize("suffix", [s for s in HERE if s in (".npz", ".flo5", ".exr")])
def test_metadata_comes_back(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    metadata = {"weights": "default", "frames": [1, 2], "größe": 0.5, "none": None}
    write_flow(path, random_flow(2, 3), metadata=metadata)
    assert read_metadata(path) == metadata
    write_flow(path, random_flow(2, 3))
    assert read_metadata(path) == {}


def test_formats_without_metadata_have_none(tmp_path):
    for suffix in (".flo", ".npy", ".pfm", ".png"):
        write_flow(tmp_path / f"a{suffix}", random_flow(2, 3), metadata={"a": 1})
        assert read_metadata(tmp_path / f"a{suffix}") == {}


@pytest.mark.parametrize("suffix", PACKAGES)
def test_a_missing_package_is_told_with_the_extra_that_brings_it(tmp_path, monkeypatch, suffix):
    monkeypatch.setitem(sys.modules, PACKAGES[suffix], None)
    path = tmp_path / f"a{suffix}"
    extra = {".flo5": "hdf5", ".exr": "exr"}[suffix]
    needs = rf"needs the package {PACKAGES[suffix]}; run: pip install 'pwcflow\[{extra}\]'"
    for write in (check_flow_suffix, lambda path: write_flow(path, random_flow(2, 2))):
        with pytest.raises(OutputError, match=needs):
            write(path)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(exr_of([[(1, 2)]]) if suffix == ".exr" else HDF5_START)
    with pytest.raises(FlowFileError, match=needs):
        read_flow(path)


def test_no_format_needs_torch(tmp_path):
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy, pwcflow.convert, pwcflow.info\n"
        "from pwcflow.flow_file import write_flow, read_flow\n"
        f"for suffix in {HERE}:\n"
        f"    path = {str(tmp_path)!r} + '/a' + suffix\n"
        "    write_flow(path, numpy.ones((2, 3, 2), numpy.float32))\n"
        "    assert read_flow(path).all()\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


# .flo, with OpenCV as the other reader


def test_opencv_reads_what_is_written_and_writes_what_is_read(tmp_path):
    flow = random_flow(5, 7)
    write_flow(tmp_path / "a.flo", flow)
    np.testing.assert_array_equal(cv2.readOpticalFlow(str(tmp_path / "a.flo")), flow)
    cv2.writeOpticalFlow(str(tmp_path / "b.flo"), flow)
    assert (tmp_path / "b.flo").read_bytes() == (tmp_path / "a.flo").read_bytes()


# KITTI, with OpenCV as the other reader


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


# .pfm

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


def refuses(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    with pytest.raises(FlowFileError) as caught:
        read_flow(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "; " in str(caught.value)  # what to do
    assert "\n" not in str(caught.value)


# .npz


def npy_of(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def zip_of(*, packed: bool = False, **members: np.ndarray | bytes) -> bytes:
    stream = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, value in members.items():
            archive.writestr(f"{name}.npy", value if isinstance(value, bytes) else npy_of(value))
    return stream.getvalue()


def stored_zip_by_hand(name: bytes, body: bytes) -> bytes:
    checksum, size = zlib.crc32(body), len(body)
    common = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, checksum, size, size, len(name), 0)
    local = b"PK\x03\x04" + common + name + body
    central = b"PK\x01\x02" + struct.pack("<H", 20) + common
    central += struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


FLOW = np.array([[[1, -2], [0.5, 3]]], np.float32)


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


# .flo5

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


# .exr


def attribute(name: str, kind: str, value: bytes) -> bytes:
    return f"{name}\0{kind}\0".encode() + struct.pack("<i", len(value)) + value


def exr_of(
    rows: list[list[tuple[float, ...]]],
    *,
    names: tuple[str, ...] = ("forward.u", "forward.v"),
    kind: int = 2,
    data: tuple[int, int, int, int] | None = None,
    display: tuple[int, int, int, int] | None = None,
    compression: int = 0,
    version: int = 2,
    sampling: int = 1,
) -> bytes:
    """Encode an uncompressed file by hand: a block a row, in it channel after channel."""
    data = data or (0, 0, len(rows[0]) - 1, len(rows) - 1)
    channels = b"".join(
        name.encode() + b"\0" + struct.pack("<4i", kind, 0, sampling, sampling) for name in names
    )
    header = struct.pack("<II", 20000630, version)
    header += attribute("channels", "chlist", channels + b"\0")
    header += attribute("compression", "compression", bytes([compression]))
    header += attribute("dataWindow", "box2i", struct.pack("<4i", *data))
    header += attribute("displayWindow", "box2i", struct.pack("<4i", *(display or data)))
    header += attribute("lineOrder", "lineOrder", b"\0")
    header += attribute("pixelAspectRatio", "float", struct.pack("<f", 1))
    header += attribute("screenWindowCenter", "v2f", bytes(8))
    header += attribute("screenWindowWidth", "float", struct.pack("<f", 1)) + b"\0"
    table, blocks = b"", b""
    for y, row in enumerate(rows, data[1]):
        table += struct.pack("<Q", len(header) + 8 * len(rows) + len(blocks))
        values = np.array(row, {1: "<f2", 2: "<f4"}.get(kind, "<u4")).T.tobytes()
        blocks += struct.pack("<ii", y, len(values)) + values
    return header + table + blocks


@pytest.mark.parametrize("kind", [1, 2], ids=["half", "float"])
def test_an_exr_file_written_by_hand_is_read_and_its_v_points_up(tmp_path, kind):
    pytest.importorskip("OpenEXR")
    path = tmp_path / "a.exr"
    path.write_bytes(exr_of([[(1, 2), (0.5, -3)], [(4, 5), (6, 7)]], kind=kind))
    assert read_flow(path).tolist() == [[[1, -2], [0.5, 3]], [[4, -5], [6, -7]]]


def test_an_exr_file_has_u_and_minus_v_as_floats(tmp_path):
    pytest.importorskip("OpenEXR")
    path = tmp_path / "a.exr"
    write_flow(path, np.array([[[1, -2]]], np.float32))
    data = path.read_bytes()
    assert data.startswith(bytes.fromhex("762f3101 02000000".replace(" ", "")))
    for name in (b"forward.u", b"forward.v"):
        assert name + b"\0" + struct.pack("<4i", 2, 0, 1, 1) in data
    # one block: row 0, 8 bytes (ZIP would not make them fewer), u, and v up
    assert data.endswith(struct.pack("<iiff", 0, 8, 1, 2))


def test_openexr_reads_an_exr_file(tmp_path):
    library = pytest.importorskip("OpenEXR")
    flow = random_flow(5, 7)
    write_flow(tmp_path / "a.exr", flow)
    with library.File(str(tmp_path / "a.exr"), separate_channels=True) as file:
        channels = {name: channel.pixels for name, channel in file.channels().items()}
    assert sorted(channels) == ["forward.u", "forward.v"]
    np.testing.assert_array_equal(channels["forward.u"], flow[..., 0])
    np.testing.assert_array_equal(channels["forward.v"], -flow[..., 1])


BOTH = ("backward.u", "backward.v", "forward.u", "forward.v")


@pytest.mark.parametrize("kind", [1, 2], ids=["half", "float"])
def test_both_directions_of_an_exr_file_written_by_hand_are_read(tmp_path, kind):
    pytest.importorskip("OpenEXR")
    path = tmp_path / "a.exr"
    path.write_bytes(exr_of([[(-1, -2, 1, 2), (0.5, 3, 4, -5)]], names=BOTH, kind=kind))
    assert read_flow(path).tolist() == [[[1, -2], [4, 5]]]
    assert read_flow(path, direction="backward").tolist() == [[[-1, 2], [0.5, -3]]]
    assert kind_of(path).directions == ("forward", "backward")
    path.write_bytes(exr_of([[(-1, -2)]], names=BOTH[:2]))
    assert kind_of(path).directions == ("backward",)
    assert read_flow(path, direction="backward").tolist() == [[[-1, 2]]]
    refuses(path, path.read_bytes(), "but not forward.u and forward.v")


def test_openexr_reads_both_directions_of_an_exr_file(tmp_path):
    library = pytest.importorskip("OpenEXR")
    path, flow, back = tmp_path / "a.exr", random_flow(5, 7), -random_flow(5, 7)[::-1]
    assert write_flow(path, flow, backward=back, metadata={"a": 1}) == 0
    with library.File(str(path), separate_channels=True) as file:
        channels = {name: channel.pixels for name, channel in file.channels().items()}
    assert sorted(channels) == list(BOTH)
    np.testing.assert_array_equal(channels["backward.u"], back[..., 0])
    np.testing.assert_array_equal(channels["backward.v"], -back[..., 1])
    np.testing.assert_array_equal(read_flow(path), flow)
    np.testing.assert_array_equal(read_flow(path, direction="backward"), back)
    assert read_metadata(path) == {"a": 1}


@pytest.mark.parametrize("suffix", HERE)
def test_a_backward_flow_that_is_not_there_is_told(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_flow(path, FLOW)
    why = "but not backward.u" if suffix == ".exr" else "only an .exr has a backward one"
    with pytest.raises(FlowFileError, match=why):
        read_flow(path, direction="backward")


@pytest.mark.parametrize(("name", "width"), [("a.flo", 7), ("a.exr", 8)])
def test_two_directions_go_into_an_exr_file_and_have_one_size(tmp_path, name, width):
    with pytest.raises(ValueError, match=r"in one \."):
        write_flow(tmp_path / name, random_flow(5, 7), backward=random_flow(5, width))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compression", ["RLE", "ZIPS", "ZIP", "PIZ", "PXR24", "NO"])
@pytest.mark.parametrize("tiled", [False, True])
def test_all_kinds_of_exr_without_loss_are_read(tmp_path, compression, tiled):
    library = pytest.importorskip("OpenEXR")
    rng = np.random.default_rng(0)
    flow = rng.integers(-99, 99, (70, 90, 2)).astype(np.float32)
    header = {"compression": getattr(library, f"{compression}_COMPRESSION")}
    header["type"] = library.tiledimage if tiled else library.scanlineimage
    if tiled:
        header["tiles"] = library.TileDescription()
    other = rng.random((70, 90)).astype(np.float16)
    u, v = flow[..., 0].copy(), -flow[..., 1]
    channels = {"forward.u": u, "forward.v": v, "R": other, "G": other, "B": other}
    try:
        library.File(header, channels).write(str(tmp_path / "a.exr"))
    except (RuntimeError, ValueError, TypeError):
        pytest.skip("this version of OpenEXR does not write it")
    np.testing.assert_array_equal(read_flow(tmp_path / "a.exr"), flow)


def test_the_second_part_of_an_exr_file_may_hold_the_flow(tmp_path):
    library = pytest.importorskip("OpenEXR")
    gray = np.zeros((1, 2), np.float32)
    u, v = FLOW[..., 0].copy(), -FLOW[..., 1]
    parts = [
        library.Part({"name": "rgba"}, {"Y": gray}),
        library.Part({"name": "motion"}, {"forward.u": u, "forward.v": v}),
    ]
    library.File(parts).write(str(tmp_path / "a.exr"))
    assert read_flow(tmp_path / "a.exr").tolist() == FLOW.tolist()


def test_flow_is_nan_where_an_exr_file_has_no_data_and_cut_to_what_is_displayed(tmp_path):
    pytest.importorskip("OpenEXR")
    path = tmp_path / "a.exr"
    path.write_bytes(exr_of([[(1, -2), (3, -4)]], data=(2, 1, 3, 1), display=(0, 0, 2, 1)))
    none = [np.nan, np.nan]
    np.testing.assert_array_equal(
        read_flow(path), np.array([[none, none, none], [none, none, [1, 2]]])
    )
    path.write_bytes(exr_of([[(1, -2)]], data=(9, 9, 9, 9), display=(0, 0, 0, 0)))
    assert np.isnan(read_flow(path)).all()


EXR = exr_of([[(1, 2), (3, 4)]])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not an OpenEXR file"),
        (b"PIEH" + bytes(99), "is not an OpenEXR file"),
        (EXR[:7], "is cut short: its version needs 8 bytes"),
        (EXR[:50], "is cut short: its header goes on"),
        (EXR[:-1], "is cut short: a block of its pixels ends at"),
        (EXR[: EXR.index(b"screenWindowWidth") + 33], "is cut short: its 1 blocks need"),
        (exr_of([[(1, 2)]], version=3), "version 0x3 of OpenEXR"),
        (exr_of([[(1, 2)]], version=0x802), "deep pixels"),
        (exr_of([[(1, 2)]], names=("R", "G")), "holds the channels R, G, but not forward.u"),
        (exr_of([[(1, 2)]], kind=0), "channel forward.u holds integers"),
        (exr_of([[(1, 2)]], sampling=2), "holds integers or fewer pixels"),
        (exr_of([[(1, 2)]], data=(0, 0, -1, 0)), "its header says 0 x 1 pixels"),
        (exr_of([[(1, 2)]], data=(-(2**31), 0, 2**31 - 1, 0)), "4294967296 x 1 pixels"),
        (exr_of([[(1, 2)]], data=(0, 0, 89999, 89999)), "90000 x 90000 pixels"),
        (exr_of([[(1, 2)]], data=(0, 0, 9999, 9999)), "10000 x 10000 pixels, which needs"),
        (exr_of([[(1, 2)]], data=(0, 0, 9999, 9999), compression=3), "compressed ones cannot hold"),
        (exr_of([[(1, 2)]], display=(0, 0, 89999, 89999)), "is the most"),
        (EXR.replace(b"dataWindow", b"dataWidnow"), "its header lacks 'dataWindow'"),
        (EXR.replace(b"channels\0", b"channel?\0"), "its header cannot be read ('channels')"),
    ],
)
def test_a_damaged_exr_file_is_refused(tmp_path, data, message):
    refuses(tmp_path / "a.exr", data, message)


# pairs of 8-bit pictures


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


def test_the_names_of_flows_in_a_folder(tmp_path):
    for name in ("a.flo", ".a.flo", "b_x.jpg", "b_y.jpg", "c_x.jpg", "d.jpg", "e.FLO5", "f.txt"):
        (tmp_path / name).touch()
    found = {path.name for path in tmp_path.iterdir() if is_flow_name(path)}
    assert found == {"a.flo", "b_x.jpg", "e.FLO5"}


# truncation and mutation of everything

KINDS = [*HERE, "_x.jpg", "_x.png"]
MUTATIONS = 10_000
HEADER = 700


def sample(folder: Path, kind: str) -> bytes:
    """Return a small file of a kind, and leave the other half of a pair in the folder."""
    flow = np.random.default_rng(5).normal(0, 30, (6, 7, 2)).astype(np.float32)
    flow[1, 2] = np.nan
    path = folder / f"a{kind}"
    write_flow(path, flow, bound=20 if "_x" in kind else None, metadata={"a": "b"})
    return path.read_bytes()


def attempt(path: Path, data: bytes) -> bool:
    """Read damaged data: a flow of a possible size, or one sentence."""
    path.unlink(missing_ok=True)  # some file systems are slow to write over a file
    path.write_bytes(data)
    try:
        flow = read_flow(path)
        read_metadata(path)
    except FlowFileError as error:
        message = str(error)
    else:
        assert flow.dtype == np.float32
        assert flow.ndim == 3
        assert flow.nbytes <= max(5000 * len(data), 1 << 28)  # an .exr may be mostly empty
        return True
    assert "\n" not in message
    assert str(path) in message
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(tmp_path, kind, capfd):
    data = sample(tmp_path, kind)
    path = tmp_path / f"a{kind}"
    ends = {*range(min(HEADER, len(data))), *range(max(0, len(data) - 40), len(data))}
    if len(data) - HEADER > 0:
        ends.update(range(HEADER, len(data), 97))
    for end in sorted(ends):
        assert not attempt(path, data[:end]), end
    assert capfd.readouterr() == ("", "")


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        # half of the damage goes where headers are
        reach = len(changed) if rng.random() < 0.5 else min(len(changed), HEADER)
        at = int(rng.integers(reach))
        how = rng.integers(5)
        if how == 0:
            changed[at] ^= 1 << rng.integers(8)
        elif how == 1:
            changed[at] = rng.integers(256)
        elif how == 2:
            extreme = rng.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF])
            changed[at : at + 4] = struct.pack(rng.choice(["<I", ">I"]), extreme)
        elif how == 3:
            del changed[at : at + int(rng.integers(1, 9))]
        else:
            changed[at:at] = rng.bytes(int(rng.integers(1, 9)))
        if not changed:
            return b""
    return bytes(changed)


def with_true_checksums(png: bytes) -> bytes:
    """Return a PNG whose damage no checksum tells, as far as its chunks can be followed."""
    fixed, position = bytearray(png), 8
    while position + 12 <= len(fixed):
        (length,) = struct.unpack_from(">I", fixed, position)
        end = position + 8 + length
        if end + 4 > len(fixed):
            break
        struct.pack_into(">I", fixed, end, zlib.crc32(fixed[position + 4 : end]))
        position = end + 4
    return bytes(fixed)


@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_mutated_files_give_a_flow_or_a_sentence(tmp_path, kind, capfd):
    data = sample(tmp_path, kind)
    path = tmp_path / f"a{kind}"
    rng = np.random.default_rng(KINDS.index(kind))
    for index in range(MUTATIONS // len(KINDS) + 1):
        damaged = mutated(data, rng)
        if kind.endswith(".png") and index % 2:
            damaged = with_true_checksums(damaged)
        if kind == ".npz" and index % 2:  # past the checksums of the archive
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
            name = rng.choice(sorted(members))
            members[name] = mutated(members[name], rng)
            damaged = zip_of(packed=True, **{k.removesuffix(".npy"): v for k, v in members.items()})
        attempt(path, damaged)
    assert capfd.readouterr() == ("", "")
