import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file import read_flow, read_metadata, write_flow
from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.pipeline.convert import FORMATS, convert_file, convert_folder
from pwcflow.runs.video_outputs import VideoOutputs
from tests.fake_estimator import FakeEstimator

PACKAGES = {"flo5": "h5py", "exr": "OpenEXR"}
HERE = [name for name in FORMATS if name not in PACKAGES or find_spec(PACKAGES[name])]
SINGLE = [name for name in HERE if name not in ("jpg", "png8")]


def some_flow(seed=0, size=(5, 7)):
    """Values that KITTI's .png holds too, one of them unknown."""
    values = np.random.default_rng(seed).integers(-64 * 19, 64 * 19, (*size, 2)) / 64
    values[2, 3] = np.nan
    return values.astype(np.float32)


def names_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("to", SINGLE)
@pytest.mark.parametrize("source", SINGLE)
def test_each_format_becomes_each_other_without_loss(tmp_path, source, to):
    flow = some_flow()
    write_flow(tmp_path / f"a.{source}", flow)
    summary = convert_file(tmp_path / f"a.{source}", tmp_path / f"b.{to}")
    assert summary == {
        "input": str(tmp_path / f"a.{source}"),
        "output": str(tmp_path / f"b.{to}"),
        "flows": 1,
        "lost_pixels": 0,
    }
    np.testing.assert_array_equal(read_flow(tmp_path / f"b.{to}"), flow)


def test_what_a_file_tells_of_itself_goes_along(tmp_path):
    write_flow(tmp_path / "a.npz", some_flow(), metadata={"weights": "default"})
    convert_file(tmp_path / "a.npz", tmp_path / "b.npz")
    assert read_metadata(tmp_path / "b.npz") == {"weights": "default"}


def test_what_the_record_of_a_run_tells_of_a_flow_goes_along(tmp_path):
    for number in range(3):
        write_image(tmp_path / f"{number}.png", np.full((32, 32, 3), 9 * number, np.uint8))
    flows, other = tmp_path / "flows", tmp_path / "other"
    estimate_video(FakeEstimator, tmp_path, VideoOutputs(folder=flows))
    write_flow(flows / "000002.flo", some_flow())  # which the run did not make
    convert_folder(flows, other, "npz")
    told = [read_metadata(other / f"00000{number}.npz") for number in range(3)]
    assert [facts.get("frames") for facts in told] == [[0, 1], [1, 2], None]
    assert told[0]["weights"] == {"name": "fake", "sha256": "0" * 64}
    assert told[2] == {}
    convert_file(flows / "000001.flo", tmp_path / "one.npz")
    assert read_metadata(tmp_path / "one.npz") == told[1]


def test_a_pair_of_pictures_keeps_its_bound_on_the_way_there_and_back(tmp_path):
    write_flow(tmp_path / "a.flo", some_flow())
    half = tmp_path / "flow_x_00001.png"
    assert convert_file(tmp_path / "a.flo", half, bound=20)["lost_pixels"] == 1  # it is unknown
    convert_file(half, tmp_path / "b.flo")
    difference = np.abs(read_flow(tmp_path / "b.flo") - some_flow())
    assert np.nanmax(difference) <= 20 / 255 + 1e-6
    convert_file(half, tmp_path / "c_x.png", bound=40)  # the bound of the new one
    assert np.abs(read_flow(tmp_path / "c_x.png") - read_flow(half)).max() <= 40 / 255 + 1e-6


def test_a_pair_that_records_no_bound_takes_the_one_given(tmp_path):
    import cv2

    for axis in "xy":
        cv2.imwrite(str(tmp_path / f"a_{axis}.png"), np.full((2, 3), 255, np.uint8))
    convert_file(tmp_path / "a_x.png", tmp_path / "b.flo", bound=10)
    assert (read_flow(tmp_path / "b.flo") == 10).all()
    convert_file(tmp_path / "a_x.png", tmp_path / "c_x.png", bound=10)
    assert (read_flow(tmp_path / "c_x.png") == 10).all()
    with pytest.raises(FlowFileError, match="give --bound PX"):
        convert_file(tmp_path / "a_x.png", tmp_path / "d.flo")


def test_pixels_beyond_a_format_are_counted(tmp_path):
    write_flow(tmp_path / "a.flo", np.array([[[600, 0], [0, 1]]], np.float32))
    assert convert_file(tmp_path / "a.flo", tmp_path / "b.png")["lost_pixels"] == 1
    assert convert_file(tmp_path / "a.flo", tmp_path / "b_x.jpg", bound=20)["lost_pixels"] == 1


@pytest.mark.parametrize(
    ("output", "bound", "message"),
    [
        ("b.jpg", 20, "name the first one b_x.jpg"),
        ("b_x.jpg", None, "give --bound PX"),
        ("b.npz", 20, "is for a pair of 8-bit pictures, and neither"),
        ("b.png", 20, "name the output b_x.png, or leave --bound away"),
        ("b.txt", None, "its suffix .txt is unknown"),
        ("a.flo", None, "it is an input"),
        ("none/b.flo", None, "does not exist"),
        (".", None, "cannot write"),
    ],
)
def test_a_wrong_output_is_told_and_nothing_is_written(tmp_path, output, bound, message):
    write_flow(tmp_path / "a.flo", some_flow())
    with pytest.raises(OutputError) as caught:
        convert_file(tmp_path / "a.flo", tmp_path / output, bound=bound)
    assert message in str(caught.value)
    assert names_below(tmp_path) == ["a.flo"]


@pytest.mark.parametrize("existing", ["b_x.png", "b_y.png"])
def test_a_file_that_is_there_needs_overwrite(tmp_path, existing):
    write_flow(tmp_path / "a.flo", some_flow())
    (tmp_path / existing).write_bytes(b"mine")
    with pytest.raises(OutputError, match=f"{existing}: it is there already; give --overwrite"):
        convert_file(tmp_path / "a.flo", tmp_path / "b_x.png", bound=20)
    assert (tmp_path / existing).read_bytes() == b"mine"
    convert_file(tmp_path / "a.flo", tmp_path / "b_x.png", bound=20, overwrite=True)
    assert names_below(tmp_path) == ["a.flo", "b_x.png", "b_y.png"]


def test_a_damaged_input_leaves_an_output_as_it_was(tmp_path):
    (tmp_path / "a.flo").write_bytes(b"PIEH")
    write_flow(tmp_path / "b.flo", some_flow())
    with pytest.raises(FlowFileError, match="is cut short"):
        convert_file(tmp_path / "a.flo", tmp_path / "b.flo", overwrite=True)
    np.testing.assert_array_equal(read_flow(tmp_path / "b.flo"), some_flow())


def test_both_directions_of_an_exr_stay_together_or_one_is_taken(tmp_path):
    pytest.importorskip("OpenEXR")
    forward, back = np.full((2, 2, 3, 2), 1.5, np.float32) * np.array([1, -2])[:, None, None, None]
    write_flow(tmp_path / "a.exr", forward.astype(np.float32), backward=back.astype(np.float32))
    convert_file(tmp_path / "a.exr", tmp_path / "b.exr")
    assert read_flow(tmp_path / "b.exr", direction="backward")[0, 0].tolist() == [-3, -3]
    convert_file(tmp_path / "a.exr", tmp_path / "c.flo")
    convert_file(tmp_path / "a.exr", tmp_path / "d.flo", direction="backward")
    assert read_flow(tmp_path / "c.flo")[0, 0].tolist() == [1.5, 1.5]
    assert read_flow(tmp_path / "d.flo")[0, 0].tolist() == [-3, -3]
    with pytest.raises(OutputError, match="keeps both directions; leave --direction away"):
        convert_file(tmp_path / "a.exr", tmp_path / "e.exr", direction="backward")


# folders


def a_folder(folder):
    for number, name in enumerate(["000000.flo", "000010.npz", "sub/frame_0001.pfm"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_flow(folder / name, some_flow(number))
    (folder / "notes.txt").touch()
    (folder / "._000000.flo").write_bytes(b"left by a Mac")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.flo").write_bytes(b"nothing")
    return folder


@pytest.mark.parametrize("to", SINGLE)
def test_a_folder_is_mirrored_and_numbers_stay(tmp_path, to):
    summary = convert_folder(a_folder(tmp_path / "in"), tmp_path / "new" / "out", to)
    assert (summary["flows"], summary["lost_pixels"]) == (3, 0)
    out = tmp_path / "new" / "out"
    names = ["000000", "000010", "sub/frame_0001"]
    assert names_below(out) == [f"{name}.{to}" for name in names]
    for number, name in enumerate(names):
        np.testing.assert_array_equal(read_flow(out / f"{name}.{to}"), some_flow(number))


@pytest.mark.parametrize(("to", "suffix"), [("jpg", "jpg"), ("png8", "png")])
def test_a_folder_becomes_pairs_and_comes_back(tmp_path, to, suffix):
    folder = a_folder(tmp_path / "in")
    assert convert_folder(folder, tmp_path / "out", to, bound=20)["flows"] == 3
    halves = [f"flow_{axis}_0000{n}.{suffix}" for axis in "xy" for n in ("00", "10")]
    halves += [f"sub/frame_{axis}_0001.{suffix}" for axis in "xy"]
    assert names_below(tmp_path / "out") == sorted(halves)
    assert convert_folder(tmp_path / "out", tmp_path / "back", "flo")["flows"] == 3
    names = ["flow_000000.flo", "flow_000010.flo", "sub/frame_0001.flo"]
    assert names_below(tmp_path / "back") == names
    for number, name in enumerate(names):
        back, sent = read_flow(tmp_path / "back" / name), some_flow(number)
        assert np.nanmean(np.abs(back - sent)) < (8 if to == "jpg" else 0.05)


def test_one_folder_may_hold_both_and_is_not_read_twice(tmp_path):
    folder = a_folder(tmp_path / "in")
    convert_folder(folder, folder / "out", "npy")
    with pytest.raises(OutputError, match="it is there already; give --overwrite"):
        convert_folder(folder, folder / "out", "npy")
    assert convert_folder(folder, folder / "out", "npy", overwrite=True)["flows"] == 3


def test_two_flows_that_would_become_one_are_both_named(tmp_path):
    folder = a_folder(tmp_path / "in")
    write_flow(folder / "000000.pfm", some_flow())
    with pytest.raises(OutputError, match=r"000000\.flo and .*000000\.pfm would both become"):
        convert_folder(folder, tmp_path / "out", "npy")
    assert not (tmp_path / "out").exists()


def test_a_damaged_flow_in_a_folder_is_named_and_those_before_it_are_kept(tmp_path):
    folder = a_folder(tmp_path / "in")
    (folder / "000010.npz").write_bytes(b"PK")
    with pytest.raises(FlowFileError, match=r"000010\.npz .*, or move it out of .*in"):
        convert_folder(folder, tmp_path / "out", "npy")
    assert names_below(tmp_path / "out") == ["000000.npy"]


@pytest.mark.parametrize(
    ("to", "bound", "message"),
    [
        ("jpg", None, "give --bound PX"),
        ("flo", 20, "there are none in"),
    ],
)
def test_a_bound_belongs_to_pairs(tmp_path, to, bound, message):
    folder = a_folder(tmp_path / "in")
    with pytest.raises(OutputError, match=message):
        convert_folder(folder, tmp_path / "out", to, bound=bound)
    assert not (tmp_path / "out").exists()


def test_a_folder_without_flow_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    with pytest.raises(FlowFileError, match=r"has no flow files in it, whose names end in \.flo"):
        convert_folder(tmp_path / "in", tmp_path / "out", "npy")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_listed_is_told(tmp_path):
    (tmp_path / "in").mkdir(mode=0)
    with pytest.raises(FlowFileError, match="cannot list"):
        convert_folder(tmp_path / "in", tmp_path / "out", "npy")


# the command


def pwcflow(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['torch'] = None\nimport pwcflow.cli\n"
         "pwcflow.cli.main()", *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd,
    )  # fmt: skip


def test_the_command_tells_what_it_did(tmp_path):
    write_flow(tmp_path / "a.flo", np.array([[[600, 0], [0, 1]]], np.float32))
    run = pwcflow("convert", "a.flo", "-o", "b.png", cwd=tmp_path)
    told = "b.png: 1 flow, 1 pixel beyond what it holds\n"
    assert (run.returncode, run.stdout, run.stderr) == (0, told, "")
    run = pwcflow("convert", "a.flo", "-o", "b.png", cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr.startswith("error: cannot write b.png: it is there already")
    run = pwcflow("convert", "a.flo", "-o", "b.png", "--overwrite", "--json", cwd=tmp_path)
    summary = {"input": "a.flo", "output": "b.png", "flows": 1, "lost_pixels": 1}
    assert json.loads(run.stdout) == summary
    run = pwcflow("convert", "a.flo", "-o", "c.npz", "--quiet", cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_the_command_converts_a_folder(tmp_path):
    a_folder(tmp_path / "in")
    run = pwcflow("convert", "in", "-o", "out", "--to", ".NPY", cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "out: 3 flows\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("in", "-o", "out"),
        ("in", "-o", "out", "--to", "bmp"),
        ("in/000000.flo", "-o", "a.npy", "--to", "npy"),
        ("in/000000.flo", "-o", "a_x.png", "--bound", "0"),
        ("in/000000.flo",),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(tmp_path, arguments):
    a_folder(tmp_path / "in")
    run = pwcflow("convert", *arguments, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert "Traceback" not in run.stderr
