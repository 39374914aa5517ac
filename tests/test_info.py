import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pwcflow import __version__
from pwcflow.errors import FlowFileError
from pwcflow.flow_file import write_flow
from pwcflow.frame_selection import FrameSelection
from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.pipeline.info import describe, sentence_of
from pwcflow.runs.video_outputs import VideoOutputs
from tests.fake_estimator import FakeEstimator

FLOW = np.array([[[3, -4], [0, 0], [np.nan, 1], [-6, 8]]], np.float32)


def test_what_a_flow_file_holds(tmp_path):
    path = tmp_path / "a.npz"
    write_flow(path, FLOW, metadata={"weights": "default", "seconds": 1.5})
    told = describe(path)
    assert told == {
        "file": str(path),
        "kind": "NumPy .npz",
        "bytes": path.stat().st_size,
        "width": 4,
        "height": 1,
        "unit": "px",
        "directions": ["forward"],
        "valid": 0.75,
        "u": {"min": -6.0, "max": 3.0},
        "v": {"min": -4.0, "max": 8.0},
        "magnitude": {"min": 0.0, "max": 10.0, "mean": 5.0},
        "bound": None,
        "metadata": {"weights": "default", "seconds": 1.5},
    }
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert sentence_of(told) == (
        f"{path}: NumPy .npz, 4 x 1 pixels, {told['bytes']} bytes, 75.00 % valid, "
        "u -6 to 3 px, v -4 to 8 px, magnitude 0 to 10 px, on average 5 px, "
        "weights default, seconds 1.5"
    )


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [(".flo", "Middlebury .flo"), (".png", "KITTI 16-bit .png"), (".pfm", "three-channel .pfm")],
)
def test_the_kind_is_told(tmp_path, suffix, kind):
    write_flow(tmp_path / f"a{suffix}", FLOW)
    told = describe(tmp_path / f"a{suffix}")
    assert (told["kind"], told["valid"], told["magnitude"]["max"]) == (kind, 0.75, 10.0)


def test_the_directions_of_an_exr_are_told(tmp_path):
    pytest.importorskip("OpenEXR")
    write_flow(tmp_path / "a.exr", FLOW, backward=-FLOW)
    told = describe(tmp_path / "a.exr")
    assert told["directions"] == ["forward", "backward"]
    assert told["u"] == {"min": -6.0, "max": 3.0}
    assert "directions forward and backward" in sentence_of(told)


def test_what_made_a_flow_of_a_run_is_found_beside_it(tmp_path):
    for number in range(3):
        write_image(tmp_path / f"{number}.png", np.full((32, 32, 3), 9 * number, np.uint8))
    outputs, selection = VideoOutputs(folder=tmp_path / "flows"), FrameSelection(step=2)
    estimate_video(FakeEstimator, tmp_path, outputs, selection=selection)
    sentence = sentence_of(describe(tmp_path / "flows/000000.flo"))
    assert "frames 0 to 2, direction forward: from each frame to the next, " in sentence
    assert sentence.endswith(f"input {tmp_path}, weights fake 00000000")  # --json has all of it
    told = describe(tmp_path / "flows/000000.flo")["metadata"]
    assert told == {
        "pwcflow": __version__,
        "frames": [0, 2],
        "direction": "forward: from each frame to the next",
        "units": "pixels, u to the right, v down",
        "precision": "fp32",
        "network_scale": 1.0,
        "device": "cpu",
        "input": str(tmp_path),
        "weights": {"name": "fake", "sha256": "0" * 64},
    }
    write_flow(tmp_path / "flows/000001.flo", FLOW)  # which the run did not make
    assert describe(tmp_path / "flows/000001.flo")["metadata"] == {}
    (tmp_path / "flows/pwcflow.json").write_text("{")
    assert describe(tmp_path / "flows/000000.flo")["metadata"] == {}


def test_a_pair_has_a_bound_and_the_bytes_of_both(tmp_path):
    write_flow(tmp_path / "a_x.png", np.zeros((2, 2, 2), np.float32), bound=20)
    told = describe(tmp_path / "a_x.png")
    assert (told["kind"], told["bound"]) == ("pair of 8-bit pictures", 20.0)
    assert told["bytes"] == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert sentence_of(told).endswith(", bound 20 px")


def test_a_flow_that_is_known_nowhere_has_no_range(tmp_path):
    write_flow(tmp_path / "a.flo", np.full((2, 2, 2), 1e10, np.float32))
    told = describe(tmp_path / "a.flo")
    assert (told["valid"], told["u"], told["v"], told["magnitude"]) == (0, None, None, None)
    assert sentence_of(told).endswith("2 x 2 pixels, 44 bytes, 0 % valid")


def test_almost_all_is_not_told_as_all(tmp_path):
    flow = np.zeros((200, 300, 2), np.float32)
    flow[0, 0] = np.nan
    write_flow(tmp_path / "a.flo", flow)
    assert "99.998333 % valid" in sentence_of(describe(tmp_path / "a.flo"))
    write_flow(tmp_path / "a.flo", flow[1:])
    assert "100 % valid" in sentence_of(describe(tmp_path / "a.flo"))


def test_a_file_that_is_no_flow_is_told(tmp_path):
    with pytest.raises(FlowFileError, match="there is no file"):
        describe(tmp_path / "a.flo")


def pwcflow(*arguments, cwd):
    script = "import sys; sys.modules['torch'] = None\nimport pwcflow.cli\npwcflow.cli.main()"
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_the_command_tells_a_line_a_file(tmp_path):
    write_flow(tmp_path / "a.flo", FLOW)
    write_flow(tmp_path / "b.npy", FLOW)
    run = pwcflow("info", "a.flo", "b.npy", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert [line.split(",")[0] for line in run.stdout.splitlines()] == [
        "a.flo: Middlebury .flo",
        "b.npy: NumPy .npy",
    ]
    run = pwcflow("info", "a.flo", "b.npy", "--json", cwd=tmp_path)
    assert [told["kind"] for told in json.loads(run.stdout)["files"]] == [
        "Middlebury .flo",
        "NumPy .npy",
    ]
    (tmp_path / "in/ner").mkdir(parents=True)
    for name in ("in/frame10.flo", "in/frame2.flo", "in/ner/0.npz"):
        write_flow(tmp_path / name, FLOW)
    run = pwcflow("info", "b.npy", "in", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    told = [Path(line.split(":")[0]).as_posix() for line in run.stdout.splitlines()]
    assert told == ["b.npy", "in/frame2.flo", "in/frame10.flo", "in/ner/0.npz"]
    run = pwcflow("info", "a.flo", "c.flo", cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr == "error: there is no file c.flo; check the name and the folder\n"
    assert pwcflow("info", cwd=tmp_path).returncode == 2
