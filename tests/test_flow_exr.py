""".exr files of motion vectors, with OpenEXR as the other reader, and by hand."""

import struct

import numpy as np
import pytest

from pwcflow.errors import FlowFileError
from pwcflow.flow_file import (
    kind_of,
    read_flow,
    read_metadata,
    write_flow,
)
from tests.flow_samples import FLOW, HERE, random_flow, refuses


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
