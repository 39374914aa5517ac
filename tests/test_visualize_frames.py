"""Frames for the pictures of flows come out of the video that those were made of, each in place."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import FlowFileError, ImageError, OutputError, VideoError
from pwcflow.flow_file import write_flow
from pwcflow.frame_selection import FrameSelection
from pwcflow.image_file import read_image, write_image
from pwcflow.pipeline import estimate_video
from pwcflow.pipeline.flow_frames import FlowFrames
from pwcflow.pipeline.visualize import visualize_as_video, visualize_file, visualize_folder
from pwcflow.runs.provenance import input_of
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video import open_frames
from pwcflow.visualization import Look, Scene
from pwcflow.visualization.scene_files import SceneFiles
from tests.command_line import invoke
from tests.gray_frames import (
    HEIGHT,
    NEAR,
    WIDTH,
    frames_folder,
    frames_of,
    gray,
    left,
    lefts,
    names_in,
    run,
    video_file,
)

SIDE = Look(style="side")
SIDE_OPTION = "--style", "side"
LEVELS = [20, 60, 100, 140, 180]


def test_the_frames_are_those_that_the_flows_were_made_of(tmp_path, estimator):
    clip = video_file(tmp_path / "clip.mp4", LEVELS)
    flows = tmp_path / "flows"
    outputs = VideoOutputs(folder=flows)
    estimate_video(estimator.load, clip, outputs, selection=FrameSelection(start=1, step=2))
    visualize_folder(flows, tmp_path / "out", look=SIDE)
    assert lefts(tmp_path / "out") == pytest.approx([60], abs=NEAR)
    run(estimator, clip, folder=flows, overwrite=True)
    visualize_as_video(flows, tmp_path / "v.avi", look=SIDE)
    assert [left(picture) for picture in frames_of(tmp_path / "v.avi")[1]] == pytest.approx(
        LEVELS[:4], abs=NEAR
    )


def test_a_style_has_both_frames_of_a_flow(tmp_path, estimator):
    frames = frames_folder(tmp_path / "frames", [10, 20, 40])
    run(estimator, frames, folder=tmp_path / "flows")
    visualize_folder(tmp_path / "flows", tmp_path / "out", look=Look(style="warp"))
    for number, second, difference in ((0, 20, 30), (1, 40, 60)):
        picture = read_image(tmp_path / "out" / f"{number:06d}.png")
        assert picture.shape == (2 * HEIGHT, 2 * WIDTH, 3)
        assert (picture[:HEIGHT, :WIDTH] == second).all()
        assert (picture[HEIGHT, WIDTH] == difference).all()  # three times


def test_each_folder_has_its_own_video(tmp_path, estimator):
    for name, levels in (("a", [20, 60, 100]), ("b", [200, 150])):
        clip = video_file(tmp_path / f"{name}.mp4", levels)
        run(estimator, clip, folder=tmp_path / "flows" / name)
    visualize_folder(tmp_path / "flows", tmp_path / "out", look=SIDE)
    assert lefts(tmp_path / "out") == pytest.approx([20, 60, 200], abs=NEAR)
    result = invoke("visualize", str(tmp_path / "flows"), "-o", str(tmp_path / "b"), *SIDE_OPTION)
    assert (result.exit_code, result.stderr) == (0, "")
    assert lefts(tmp_path / "b") == pytest.approx([20, 60, 200], abs=NEAR)


def test_a_video_is_closed_before_the_next_one_is_opened_and_in_the_end(tmp_path):
    happened = []

    def opener(name):
        def opened():
            happened.append(f"{name} opened")
            source = open_frames(video_file(tmp_path / f"{name}.mp4", LEVELS[:2]))
            source.on_exit(lambda: happened.append(f"{name} closed"))
            return source

        return opened

    flows = {name: tmp_path / name / "000000.flo" for name in "ab"}
    openers = {flow.parent: opener(name) for name, flow in flows.items()}
    scene = Scene(flow=np.zeros((HEIGHT, WIDTH, 2), np.float32))
    with FlowFrames([], openers, dict.fromkeys(flows.values(), 0)) as frames:
        for flow in flows.values():
            frames.added_to(scene, flow)
    assert happened == ["a opened", "a closed", "b opened", "b closed"]


def test_a_flow_that_is_gone_and_one_that_is_there_twice_move_no_frame(tmp_path, estimator):
    run(estimator, video_file(tmp_path / "clip.mp4", LEVELS), folder=tmp_path / "flows")
    (tmp_path / "flows" / "000001.flo").unlink()
    flow = np.zeros((HEIGHT, WIDTH, 2), np.float32)
    write_flow(tmp_path / "flows" / "0.flo", flow)
    write_flow(tmp_path / "flows" / "02.flo", flow)
    visualize_folder(tmp_path / "flows", tmp_path / "out", look=SIDE)
    assert names_in(tmp_path / "out") == [
        "0.png",
        "000000.png",
        "000002.png",
        "000003.png",
        "02.png",
    ]
    assert lefts(tmp_path / "out") == pytest.approx([20, 20, 100, 140, 100], abs=NEAR)


def test_one_flow_of_a_run_has_its_frames(tmp_path, estimator):
    run(estimator, video_file(tmp_path / "clip.mp4", LEVELS), folder=tmp_path / "flows")
    visualize_file(tmp_path / "flows" / "000002.flo", tmp_path / "a.png", look=SIDE)
    assert left(read_image(tmp_path / "a.png")) == pytest.approx(100, abs=NEAR)


def test_a_style_that_needs_no_frame_does_not_look_for_it(tmp_path, estimator):
    clip = video_file(tmp_path / "clip.mp4", LEVELS[:3])
    run(estimator, clip, folder=tmp_path / "flows")
    clip.unlink()
    arrows = Look(style="arrows", background="black")
    assert visualize_folder(tmp_path / "flows", tmp_path / "out", look=arrows)["images"] == 2
    assert (read_image(tmp_path / "out" / "000000.png") == 0).all(axis=2).mean() > 0.5


def test_a_video_that_is_named_has_the_frames_in_order(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    for name in ("flow9.flo", "flow10.flo"):
        write_flow(flows / name, np.zeros((HEIGHT, WIDTH, 2), np.float32))
    beside = SceneFiles(frame=video_file(tmp_path / "clip.mp4", [20, 60, 100]))
    visualize_folder(flows, tmp_path / "out", look=SIDE, beside=beside)
    assert left(read_image(tmp_path / "out" / "flow9.png")) == pytest.approx(20, abs=NEAR)
    assert left(read_image(tmp_path / "out" / "flow10.png")) == pytest.approx(60, abs=NEAR)
    visualize_as_video(flows, tmp_path / "v.avi", look=Look(style="arrows"), beside=beside)
    first, second = frames_of(tmp_path / "v.avi")[1]
    assert second.mean() - first.mean() > 10  # pale, but over the frames


def test_a_video_of_another_number_of_frames_is_told_before_anything_is_written(
    tmp_path, estimator
):
    frames = frames_folder(tmp_path / "frames", [1, 2, 3])
    run(estimator, frames, folder=tmp_path / "flows")
    before = names_in(tmp_path)
    clip = video_file(tmp_path / "clip.mp4", LEVELS)
    problem = r"clip.mp4 has 5 frames, but the 2 flows of .*flows need 3; name just the frames"
    with pytest.raises(ImageError, match=problem):
        visualize_folder(
            tmp_path / "flows", tmp_path / "out", look=SIDE, beside=SceneFiles(frame=clip)
        )
    shutil.copytree(tmp_path / "flows", tmp_path / "flows" / "more")
    with pytest.raises(VideoError, match=r"cannot be those of both .*flows and .*more; name one"):
        visualize_folder(
            tmp_path / "flows", tmp_path / "out", look=SIDE, beside=SceneFiles(frame=clip)
        )
    assert names_in(tmp_path) == sorted([*before, "clip.mp4"])


NAME_THEM = "name their folder or video with --frame"


def told_of(flows, out, reason):
    """What makes pictures of flows impossible ends with what helps; nothing is written."""
    result = invoke("visualize", flows, "-o", out, *SIDE_OPTION)
    folder = flows if Path(flows).is_dir() else Path(flows).parent
    told = f"error: no frames for the flows of {folder}: {reason}\n"
    assert (result.exit_code, result.stderr) == (1, told)
    assert not Path(out).exists()


def test_frames_that_have_changed_or_gone_are_told_with_what_helps(here, estimator):
    clip = video_file(here / "clip.mp4", LEVELS)
    run(estimator, clip, folder=here / "flows")
    clip.rename(here / "old.mp4")
    video_file(clip, LEVELS[::-1])
    told_of("flows", "out", f"{clip} has changed since; {NAME_THEM}")
    told_of(
        "flows/000000.flo",
        "a.png",
        f"{clip} has changed since; name its two frames with --frame and --second",
    )
    clip.unlink()
    told_of("flows", "out", f"the frames of {clip} are gone; put them back, or {NAME_THEM}")
    told_of(
        "flows/000000.flo",
        "a.png",
        f"the frames of {clip} are gone; put them back, or name its two frames with --frame and "
        "--second",
    )
    (here / "old.mp4").rename(clip)
    (here / "flows" / "more").mkdir()
    shutil.copy(here / "flows" / "000000.flo", here / "flows" / "more")
    result = invoke("visualize", "flows", "-o", "out", *SIDE_OPTION)
    why = f"flows/more: pwcflow.json beside the flows is missing; {NAME_THEM}\n"
    assert (result.exit_code, result.stderr) == (1, f"error: no frames for the flows of {why}")
    assert names_in(here) == ["clip.mp4", "flows"]


@pytest.mark.parametrize("source", ["frames", "frames/frame%d.png", "frames/*.png"])
def test_a_folder_or_pattern_of_which_nothing_is_left_is_gone(here, estimator, source):
    frames = frames_folder(here / "frames", [10, 20, 40])
    run(estimator, Path(source), folder=here / "flows")
    gone = f"the frames of {here / source} are gone; put them back, or {NAME_THEM}"
    (frames / "frame3.png").rename(here / "frame3.png")
    told_of("flows", "out", f"{here / source} has changed since; {NAME_THEM}")
    for path in frames.iterdir():
        path.unlink()
    told_of("flows", "out", gone)
    frames.rmdir()
    told_of("flows", "out", gone)


RECORDS = {
    "{": "pwcflow.json beside the flows is damaged (it is not JSON)",
    "[]": "pwcflow.json beside the flows is damaged (it holds no JSON object)",
    "{}": "pwcflow.json does not tell of which frames the flows are",
    '{"input": {"path": "-", "settings": {}, "fingerprint": null}}': (
        "the frames came from -, which is no file"
    ),
    '{"input": {"path": "a.mp4", "fingerprint": "0"}}': (
        "pwcflow.json does not tell which frames of a.mp4 were taken"
    ),
    '{"input": {"path": "a.mp4", "settings": {"every": 2}, "fingerprint": "FOUND"}}': (
        "pwcflow.json tells a selection of frames that is not known: {'every': 2}"
    ),
}


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_that_does_not_tell_the_frames_is_told_with_what_helps(here, record):
    video = video_file(here / "a.mp4", LEVELS[:2])
    (here / "flows").mkdir()
    write_flow(here / "flows" / "000000.flo", np.zeros((HEIGHT, WIDTH, 2), np.float32))
    record_with = record.replace("FOUND", input_of(video, {})["fingerprint"])
    (here / "flows" / "pwcflow.json").write_text(record_with)
    told_of("flows", "out", f"{RECORDS[record]}; {NAME_THEM}")
    (here / "flows" / "000000.flo").rename(here / "flows" / "a.flo")
    if RECORDS[record].startswith("pwcflow.json beside"):
        return
    told_of("flows", "out", f"flows/pwcflow.json is of other flows; {NAME_THEM}")


@pytest.mark.parametrize("has_video", [True, False])
def test_a_flow_file_that_is_not_there_is_told_first(here, estimator, has_video):
    clip = video_file(here / "clip.mp4", LEVELS[:3])
    run(estimator, clip, folder=here / "flows")
    (here / "empty").mkdir()
    if not has_video:
        clip.unlink()
    for flow in ("flows/000123.flo", "flows/other.flo", "flows/b.exr", "empty/0.flo", "flwos"):
        result = invoke("visualize", flow, "-o", "a.png", "--style", "overlay")
        told = f"error: there is no file {flow}; check the name and the folder\n"
        assert (result.exit_code, result.stderr) == (1, told)
        with pytest.raises(FlowFileError, match=f"there is no file {flow}; check the name"):
            visualize_file(Path(flow), Path("a.png"), look=Look(style="overlay"))
    (here / "flows" / "000000.flo").rename(here / "flows" / "other.flo")
    result = invoke("visualize", "flows/other.flo", "-o", "a.png", "--style", "overlay")
    assert result.exit_code == 1
    assert "flows/pwcflow.json is of other flows; name its two frames with" in result.stderr
    assert not (here / "a.png").exists()


def test_flows_resized_since_do_not_get_a_frame_of_another_size(tmp_path, estimator):
    run(estimator, video_file(tmp_path / "clip.mp4", LEVELS[:2]), folder=tmp_path / "flows")
    write_flow(tmp_path / "flows" / "000000.flo", np.zeros((HEIGHT, WIDTH - 2, 2), np.float32))
    problem = "000000.flo: the first frame is 64 x 48 pixels, but the flow is 62 x 48"
    with pytest.raises(ImageError, match=problem):
        visualize_folder(tmp_path / "flows", tmp_path / "out", look=SIDE)


def test_more_flows_than_the_record_s_video_has_frames_for_are_told(tmp_path, estimator):
    run(estimator, video_file(tmp_path / "clip.mp4", LEVELS[:2]), folder=tmp_path / "flows")
    write_flow(tmp_path / "flows" / "000001.flo", np.zeros((HEIGHT, WIDTH, 2), np.float32))
    problem = "no frames for .*000001.flo: the video ends before its flow files do; move those out"
    with pytest.raises(ImageError, match=problem):
        visualize_as_video(tmp_path / "flows", tmp_path / "v.avi", look=SIDE)
    assert not (tmp_path / "v.avi").exists()


def test_the_video_is_not_replaced_by_its_picture(tmp_path, estimator):
    clip = video_file(tmp_path / "clip.avi", LEVELS[:3])
    run(estimator, clip, folder=tmp_path / "flows")
    content = clip.read_bytes()
    for beside in (SceneFiles(), SceneFiles(frame=clip)):
        with pytest.raises(OutputError, match="it is an input"):
            visualize_as_video(tmp_path / "flows", clip, look=SIDE, beside=beside)
    assert clip.read_bytes() == content


def test_pictures_are_not_written_among_the_frames(tmp_path, estimator):
    frames = frames_folder(tmp_path / "frames", [1, 2], "{:06d}.png")
    run(estimator, frames, folder=tmp_path / "flows")
    with pytest.raises(OutputError, match=r"000000.png: it would be taken for a frame of .*frames"):
        visualize_folder(tmp_path / "flows", frames, look=SIDE)
    with pytest.raises(OutputError, match=r"v.webp: it would be taken for a frame of .*frames"):
        visualize_as_video(tmp_path / "flows", frames / "v.webp", look=SIDE)
    assert names_in(frames) == ["000001.png", "000002.png"]


def test_an_output_that_cannot_be_is_told_before_the_video_is_read(tmp_path, estimator):
    run(estimator, video_file(tmp_path / "clip.mp4", LEVELS[:3]), folder=tmp_path / "flows")
    (tmp_path / "none.mp4").write_bytes(b"no video")
    beside = SceneFiles(frame=tmp_path / "none.mp4")
    with pytest.raises(OutputError, match=r"the folder .*missing does not exist"):
        visualize_as_video(
            tmp_path / "flows", tmp_path / "missing" / "v.avi", look=SIDE, beside=beside
        )
    with pytest.raises(OutputError, match="its images go into a folder"):
        visualize_folder(tmp_path / "flows", tmp_path / "clip.mp4", look=SIDE, beside=beside)
    with pytest.raises(VideoError, match=r"none\.mp4"):
        visualize_folder(tmp_path / "flows", tmp_path / "out", look=SIDE, beside=beside)


def test_a_style_whose_frames_no_record_tells_of_is_wrong_usage(here, estimator):
    run(estimator, video_file(here / "clip.mp4", LEVELS[:3]), folder=here / "flows")
    (here / "flows" / "pwcflow.json").unlink()
    for flows, out in (("flows", "d"), ("flows/000000.flo", "d.png")):
        result = invoke("visualize", flows, "-o", out, "--style", "overlay")
        assert result.exit_code == 2
        assert "the style overlay needs --frame" in result.stderr
    with pytest.raises(ValueError, match="the style overlay needs --frame"):
        visualize_folder(Path("flows"), Path("d"), look=Look(style="overlay"))
    assert names_in(here) == ["clip.mp4", "flows"]


def test_the_command_takes_frames_of_every_source(here, estimator):
    clip = video_file(here / "clip.mp4", [20, 60, 100])
    run(estimator, clip, folder=here / "flows")
    folder = here / "frames"
    folder.mkdir()
    for number, level in enumerate([20, 60, 100]):
        write_image(folder / f"{number}.png", gray(level))
    for name, options in (("a", ()), ("b", ("--frame", "clip.mp4")), ("c", ("--frame", "frames"))):
        result = invoke("visualize", "flows", "-o", name, *SIDE_OPTION, *options)
        assert (result.exit_code, result.stderr) == (0, "")
        assert lefts(here / name) == pytest.approx([20, 60], abs=NEAR)
    write_image(here / "one.png", gray(7))
    result = invoke(
        "visualize", "flows/000001.flo", "-o", "c.png", *SIDE_OPTION, "--frame", "one.png"
    )
    assert left(read_image(here / "c.png")) == 7
