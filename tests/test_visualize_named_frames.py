"""A whole video or folder that is named has the frames of flows that are of some of them."""

import os

import pytest

from pwcflow.errors import ImageError, OutputError
from pwcflow.frame_selection import FrameSelection, RawFormat
from pwcflow.pipeline import estimate_video
from pwcflow.pipeline.visualize import visualize_as_video, visualize_folder
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.visualization import Look
from pwcflow.visualization.scene_files import SceneFiles
from tests.command_line import invoke
from tests.gray_frames import NEAR, frames_folder, frames_of, left, lefts, names_in, video_file

SIDE = Look(style="side")
LEVELS = [20, 60, 100, 140, 180]


def source_of(kind, path, levels):
    if kind == "folder":
        return frames_folder(path, levels)
    return video_file(path.with_suffix(".mp4"), levels)


def run(estimator, source, flows, **selection):
    outputs, selected = VideoOutputs(folder=flows), FrameSelection(**selection)
    estimate_video(estimator.load, source, outputs, selection=selected)
    return flows


@pytest.mark.parametrize("kind", ["video", "folder"])
def test_some_frames_are_found_in_what_was_moved(here, estimator, kind):
    source = source_of(kind, here / "clip", LEVELS)
    run(estimator, source, here / "flows", start=1, end=4)
    moved = str(source.rename(here / f"moved{source.suffix}"))
    result = invoke("visualize", "flows", "-o", "out", "--style", "side", "--frame", moved)
    assert (result.exit_code, result.stderr) == (0, "")
    assert lefts(here / "out") == pytest.approx([60, 100], abs=NEAR)
    result = invoke("visualize", "flows", "-o", "v.avi", "--style", "side", "--frame", moved)
    assert result.exit_code == 0
    pictures = frames_of(here / "v.avi")[1]
    assert list(map(left, pictures)) == pytest.approx([60, 100], abs=NEAR)


@pytest.mark.parametrize("kind", ["video", "folder"])
@pytest.mark.parametrize(
    ("selection", "expected"),
    [({"max_side": 32}, [20, 60, 100, 140]), ({"scale": 0.5, "step": 3}, [20])],
    ids=str,
)
def test_they_are_resized_as_the_run_did(tmp_path, estimator, kind, selection, expected):
    source = source_of(kind, tmp_path / "clip", LEVELS)
    flows = run(estimator, source, tmp_path / "flows", **selection)
    beside = SceneFiles(frame=source.rename(tmp_path / f"moved{source.suffix}"))
    visualize_folder(flows, tmp_path / "out", look=SIDE, beside=beside)
    assert lefts(tmp_path / "out", 24, 32) == pytest.approx(expected, abs=NEAR)


@pytest.mark.parametrize("kind", ["video", "folder"])
def test_just_the_frames_are_taken_as_they_are(tmp_path, estimator, kind):
    flows = run(
        estimator, source_of(kind, tmp_path / "clip", LEVELS), tmp_path / "flows", start=1, end=4
    )
    # the record's selection would make two frames of these three, 70 and 110
    beside = SceneFiles(frame=source_of(kind, tmp_path / "cut", [30, 70, 110]))
    visualize_folder(flows, tmp_path / "out", look=SIDE, beside=beside)
    assert lefts(tmp_path / "out") == pytest.approx([30, 70], abs=NEAR)


@pytest.mark.parametrize("kind", ["video", "folder"])
def test_what_gives_another_number_in_either_way_is_told(tmp_path, estimator, kind):
    source = source_of(kind, tmp_path / "clip", LEVELS)
    flows = run(estimator, source, tmp_path / "flows", step=2)
    beside = SceneFiles(frame=source_of(kind, tmp_path / "other", [*LEVELS, 200, 220]))
    told = r"other.* has 7 (frames|images), but the 2 flows of .*flows need 3; name just the frames"
    with pytest.raises(ImageError, match=told):
        visualize_folder(flows, tmp_path / "out", look=SIDE, beside=beside)
    beside = SceneFiles(frame=source)
    (flows / "000001.flo").unlink()
    with pytest.raises(ImageError, match=r"has 5 .*, but the 1 flow of .*flows need 2; name just"):
        visualize_folder(flows, tmp_path / "out", look=SIDE, beside=beside)
    (flows / "000000.flo").rename(flows / "a.flo")  # so that the record is not of it
    with pytest.raises(ImageError, match=r"has 5 .*, but the 1 flow of .*flows need 2; name just"):
        visualize_folder(flows, tmp_path / "out", look=SIDE, beside=beside)
    assert not (tmp_path / "out").exists()


def test_each_folder_has_its_own_selection(tmp_path, estimator):
    flows, frames = tmp_path / "flows", tmp_path / "frames"
    frames.mkdir()
    for name, selection in (("a", {"step": 2}), ("b", {}), ("c", {"start": 2, "end": 4})):
        run(estimator, frames_folder(frames / name, LEVELS), flows / name, **selection)
    (flows / "b" / "pwcflow.json").unlink()
    frames = frames.rename(tmp_path / "moved")
    visualize_folder(flows, tmp_path / "out", look=SIDE, beside=SceneFiles(frame=frames))
    assert lefts(tmp_path / "out") == [20, 100, 20, 60, 100, 140, 100]
    before = names_in(frames / "a")
    with pytest.raises(OutputError, match=r"it would be taken for a frame of .*moved/"):
        visualize_folder(flows, frames, look=SIDE, beside=SceneFiles(frame=frames))
    assert names_in(frames / "a") == before


def test_a_style_of_two_frames_has_both_as_taken(tmp_path, estimator):
    flows = run(estimator, frames_folder(tmp_path / "a", LEVELS), tmp_path / "flows", step=2)
    beside = SceneFiles(frame=(tmp_path / "a").rename(tmp_path / "b"))
    visualize_as_video(flows, tmp_path / "v.avi", look=Look(style="warp"), beside=beside)
    first, second = frames_of(tmp_path / "v.avi")[1]
    assert first[:40, :56].mean() == pytest.approx(100, abs=NEAR)  # the second frame of each
    assert second[:40, :56].mean() == pytest.approx(180, abs=NEAR)


def test_raw_frames_are_read_as_the_run_did(tmp_path, estimator):
    raw = tmp_path / "a.raw"
    raw.write_bytes(b"".join(bytes([level]) * (64 * 48) for level in LEVELS))
    selection = FrameSelection(raw=RawFormat(64, 48, "gray"), end=3)
    outputs = VideoOutputs(folder=tmp_path / "flows")
    estimate_video(estimator.load, raw, outputs, selection=selection)
    beside = SceneFiles(frame=raw.rename(tmp_path / "b.raw"))
    visualize_folder(outputs.folder, tmp_path / "out", look=SIDE, beside=beside)
    assert lefts(tmp_path / "out") == [20, 60]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
def test_a_record_is_read_only_where_all_frames_do_not_fit(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", LEVELS)
    flows = run(estimator, source, tmp_path / "flows")
    (flows / "pwcflow.json").unlink()
    os.mkfifo(flows / "pwcflow.json")
    beside = SceneFiles(frame=source)
    assert visualize_folder(flows, tmp_path / "out", look=SIDE, beside=beside)["images"] == 4
    (flows / "000003.flo").unlink()
    with pytest.raises(OutputError, match=r"pwcflow\.json, of an earlier run: it is not a regular"):
        visualize_folder(flows, tmp_path / "more", look=SIDE, beside=beside)
