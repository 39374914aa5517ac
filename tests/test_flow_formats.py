"""What all flow formats have in common; one format's own tests are in test_flow_*.py."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file import (
    check_flow_suffix,
    is_flow_name,
    known_pixels,
    read_flow,
    read_metadata,
    write_flow,
)
from tests.flow_samples import EXACT, HERE, PACKAGES, random_flow
from tests.test_flow_exr import exr_of
from tests.test_flow_flo5 import HDF5_START
from tests.test_video_writer import largest_file


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


@pytest.mark.parametrize("suffix", PACKAGES)
def test_a_package_that_is_here_but_broken_is_told_before_the_work(tmp_path, monkeypatch, suffix):
    (tmp_path / f"{PACKAGES[suffix]}.py").write_text("raise ImportError('another NumPy')")
    monkeypatch.delitem(sys.modules, PACKAGES[suffix], raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OutputError, match=rf"cannot write a{suffix}: this .*\(another NumPy\)$"):
        check_flow_suffix(Path(f"a{suffix}"))


def test_no_format_needs_torch(tmp_path):
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy, pwcflow.pipeline.convert, pwcflow.pipeline.info\n"
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


def test_the_names_of_flows_in_a_folder(tmp_path):
    for name in ("a.flo", ".a.flo", "b_x.jpg", "b_y.jpg", "c_x.jpg", "d.jpg", "e.FLO5", "f.txt"):
        (tmp_path / name).touch()
    found = {path.name for path in tmp_path.iterdir() if is_flow_name(path)}
    assert found == {"a.flo", "b_x.jpg", "e.FLO5"}


@pytest.mark.parametrize("name", [*(f"a{suffix}" for suffix in HERE), "a_x.jpg", "a_x.png"])
def test_the_refusal_of_the_system_to_write_on_is_told_and_nothing_is_left(tmp_path, name):
    flow = np.random.default_rng(0).normal(0, 9, (64, 96, 2)).astype(np.float32)
    bound = 20 if "_x" in name else None
    with largest_file(1000), pytest.raises(OutputError) as caught:
        write_flow(tmp_path / name, flow, bound=bound)
    told = str(caught.value).replace("a_y", "a_x")  # the half that is written first
    end = "file too large; write to a file system that takes larger files"
    assert told == f"cannot write {tmp_path / name}: {end}"
    assert isinstance(caught.value.__cause__, OSError)
    assert list(tmp_path.iterdir()) == []
    write_flow(tmp_path / name, flow, bound=bound)
    assert read_flow(tmp_path / name).shape == flow.shape
