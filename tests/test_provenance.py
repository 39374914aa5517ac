"""`pwcflow.json`, beside the flows, tells what they are."""

import json
import math
import os
import time
from pathlib import Path

import numpy as np
import pytest

import pwcflow
from pwcflow.errors import OutputError, PwcFlowError, VideoError
from pwcflow.frame_selection import FrameSelection
from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.runs.provenance import difference, input_of, provenance_of_flow, read_record
from pwcflow.runs.recorded_frames import has_record, recorded_frames
from pwcflow.runs.video_outputs import VideoOutputs
from tests.command_line import make_video
from tests.fake_estimator import FakeEstimator


def frames_folder(folder, levels=(10, 20, 30)):
    folder.mkdir(parents=True)
    for number, level in enumerate(levels):
        write_image(folder / f"{number}.png", np.full((20, 24, 3), level, np.uint8))
    return folder


def run(estimator, source, folder, selection=None, **options):
    outputs = VideoOutputs(folder=folder, **options)
    selected = {"selection": selection} if selection else {}
    estimate_video(estimator.load, source, outputs, **selected)
    return json.loads((folder / "pwcflow.json").read_text(encoding="utf-8"))


def test_it_tells_what_made_the_flows_and_what_they_are(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames")
    record = run(estimator, source, tmp_path / "flows", viz=tmp_path / "flows/v.avi", max_flow=50)
    assert record["input"].pop("fingerprint")
    assert record["input"].pop("bytes") == sum(path.stat().st_size for path in source.iterdir())
    assert record.pop("size_rule").startswith("resized bilinearly to network_scale times each axis")
    assert record == {
        "pwcflow": pwcflow.__version__,
        "complete": True,
        "flows": 2,
        "frames": 3,
        "frame_numbers": [0, 1, 2],
        "timestamps_s": None,
        "direction": "forward: from each frame to the next",
        "units": "pixels, u to the right, v down",
        "width": 24,
        "height": 20,
        "input": {"path": str(source), "settings": {}, "files": 3},
        "reading": {"reader": "opencv"},
        "weights": {"name": "fake", "sha256": "0" * 64},
        "suffix": ".flo",
        "precision": "fp32",
        "network_scale": 1.0,
        "device": "cpu",
        "viz": {
            "file": "v.avi",
            "style": "wheel",
            "scale": "fixed",
            "asked_px": 50,
            "asked_fps": None,
            "max_flow_px": 50,
            "fps": 25.0,
        },
    }


def test_a_video_has_times_and_a_selection_has_numbers(tmp_path, estimator):
    source = make_video(tmp_path / "clip.mp4", 12)
    selection = FrameSelection(start=2, end=9, step=3, max_side=32)
    record = run(estimator, source, tmp_path / "flows", selection)
    assert record["frame_numbers"] == [2, 5, 8]
    assert record["timestamps_s"] == pytest.approx([0.08, 0.2, 0.32])
    assert (record["width"], record["height"]) == (32, 32)
    assert record["input"]["settings"] == {"start": "2", "end": "9", "step": 3, "max_side": 32}
    assert record["reading"]["resized_from"] == "64x64"


def test_another_selection_is_another_run(tmp_path, estimator):
    source = make_video(tmp_path / "clip.mp4", 8)
    run(estimator, source, tmp_path / "flows", FrameSelection(step=2))
    with pytest.raises(OutputError, match=r"holds flows with step 2, now with all frames; give --"):
        run(estimator, source, tmp_path / "flows")
    with pytest.raises(OutputError, match=r"holds flows with step 2, now with start 1, step 2; gi"):
        run(estimator, source, tmp_path / "flows", FrameSelection(start=1, step=2))


def test_it_is_there_before_the_first_flow_and_tells_how_far_it_came(tmp_path, estimator):
    folder = tmp_path / "flows"
    seen = []

    class Watched(FakeEstimator):
        def decode(self, first, second):
            if not seen and list(folder.glob("*.flo")):
                seen.append(json.loads((folder / "pwcflow.json").read_bytes()))
            time.sleep(0.01)
            return super().decode(first, second)

    watched = Watched()
    watched.fails_at = 30
    source = frames_folder(tmp_path / "frames", range(40))
    with pytest.raises(PwcFlowError):
        run(watched, source, folder)
    assert (seen[0]["complete"], seen[0]["flows"], seen[0]["frame_numbers"]) == (False, 0, None)
    record = read_record(folder)
    assert (record["complete"], record["flows"], record["frames"]) == (False, 30, 31)
    assert record["frame_numbers"] == list(range(31))


def test_no_record_is_left_where_there_is_no_flow(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames")
    estimator.fails_at = 0
    with pytest.raises(VideoError, match="nothing was written"):
        run(estimator, source, tmp_path / "flows")
    assert not (tmp_path / "flows").exists()


def test_an_input_is_known_by_names_sizes_and_times(tmp_path):
    source = frames_folder(tmp_path / "frames")
    first = input_of(source, {})
    assert input_of(source, {}) == first
    (source / "notes.txt").touch()
    assert input_of(source, {}) == first
    source.rename(tmp_path / "moved")
    moved = input_of(tmp_path / "moved", {})
    assert moved["fingerprint"] == first["fingerprint"]
    assert difference({"input": first}, moved, None) is None
    seen = {first["fingerprint"]}
    for change in (
        lambda: os.utime(tmp_path / "moved/1.png", (1, 1)),
        lambda: (tmp_path / "moved/1.png").rename(tmp_path / "moved/5.png"),
        lambda: (tmp_path / "moved/0.png").unlink(),
    ):
        change()
        seen.add(input_of(tmp_path / "moved", {})["fingerprint"])
    assert len(seen) == 4


@pytest.mark.parametrize("name", ["-", "camera:0"])
def test_what_never_shows_the_same_again_is_not_gone_on_with(name):
    identity = input_of(Path(name), {})
    assert identity["fingerprint"] is None
    found = difference({"input": identity}, identity, None)
    assert found == f"already, and {name} cannot be gone on with"


def a_folder(path):
    path.mkdir()


def a_pipe(path):
    os.mkfifo(path)


def an_endless_file(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "make",
    [
        a_folder,
        pytest.param(
            a_pipe,
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name"),
        ),
        pytest.param(
            an_endless_file,
            marks=pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device"),
        ),
    ],
)
def test_what_is_no_file_is_told_and_neither_read_nor_removed(tmp_path, estimator, make):
    source, flows = frames_folder(tmp_path / "frames"), tmp_path / "flows"
    run(estimator, source, flows)
    (flows / "pwcflow.json").unlink()
    make(flows / "pwcflow.json")
    before = sorted(flows.iterdir())
    told = r"^cannot read .*flows/pwcflow\.json, of an earlier run: it is not a regular file; move"
    for attempt in (
        lambda: read_record(flows),
        lambda: run(estimator, source, flows),
        lambda: run(estimator, source, flows, overwrite=True),
        lambda: recorded_frames([flows / "000000.flo"]),
    ):
        with pytest.raises(OutputError, match=told):
            attempt()
    assert provenance_of_flow(flows / "000000.flo") == {}
    assert has_record(flows)
    assert has_record(flows / "000000.flo")
    assert sorted(flows.iterdir()) == before


DAMAGES = [
    {"flows": "2"}, {"flows": None}, {"flows": -1}, {"flows": True}, {"flows": 1e3},
    {"frames": 10**400}, {"width": "64"}, {"height": []}, {"suffix": ["a"]}, {"suffix": {}},
    {"complete": 1}, {"frame_numbers": {}}, {"frame_numbers": [0, "1"]}, {"device": 7},
    {"timestamps_s": [10**400, 0, 1]}, {"timestamps_s": [0, True, 1]}, {"timestamps_s": [None]},
    {"timestamps_s": [0, math.nan, 1]}, {"precision": ["fp32"]}, {"weights": 3},
    {"network_scale": "2"}, {"weights": {"name": "default", "sha256": 3}},
    {"input": "frames"}, {"input": {"path": 3}},
    {"input": {"path": "a\0b"}}, {"input": {"path": "\ud800"}}, {"input": {"settings": []}},
    {"viz": "flow.mp4"}, {"viz": {"fps": "25"}}, {"viz": {"fps": 1e-320}}, {"viz": {"fps": 0}},
    {"viz": {"fps": 25.0, "max_flow_px": "20"}}, {"viz": {"max_flow_px": math.inf}},
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=ascii)
def test_a_record_that_no_run_wrote_is_not_relied_on(tmp_path, estimator, damage):
    folder = tmp_path / "flows"
    run(estimator, frames_folder(tmp_path / "frames"), folder)
    whole = json.loads((folder / "pwcflow.json").read_bytes())
    told = provenance_of_flow(folder / "000000.flo")
    assert told["frames"] == [0, 1]
    (folder / "pwcflow.json").write_text(json.dumps({**whole, **damage}), encoding="utf-8")
    assert read_record(folder) is None
    assert provenance_of_flow(folder / "000000.flo") == {}


def test_a_record_of_an_earlier_version_need_not_have_what_a_later_one_tells(tmp_path, estimator):
    folder = tmp_path / "flows"
    run(estimator, frames_folder(tmp_path / "frames"), folder)
    whole = json.loads((folder / "pwcflow.json").read_bytes())
    for name in whole:
        rest = {other: value for other, value in whole.items() if other != name}
        (folder / "pwcflow.json").write_text(json.dumps(rest), encoding="utf-8")
        assert read_record(folder) == rest
