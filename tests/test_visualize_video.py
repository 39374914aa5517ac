"""A folder of flows becomes one video, to one exact scale, or a message with nothing written."""

import json
import os
import re
import signal
import time

import numpy as np
import pytest

from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file import write_flow
from pwcflow.frame_selection import FrameSelection
from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.pipeline.visualize import visualize_as_video
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video import open_frames
from pwcflow.video_writer import VIDEO_SUFFIXES
from pwcflow.visualization import Look
from pwcflow.visualization.scene_files import SceneFiles
from tests.command_line import invoke, posix, start
from tests.gray_frames import (
    HEIGHT,
    NEAR,
    WIDTH,
    frames_folder,
    frames_of,
    gray,
    names_in,
    run,
    video_file,
)


def flow_of(motion, height=HEIGHT, width=WIDTH):
    """All to the right."""
    flow = np.zeros((height, width, 2), np.float32)
    flow[..., 0] = motion
    return flow


def flows_folder(folder, motions):
    """Flows in a folder: flow1.flo and so on, so that flow10 sorts before flow2 as text."""
    folder.mkdir()
    for number, motion in enumerate(motions, 1):
        write_flow(folder / f"flow{number}.flo", flow_of(motion))
    return folder


def red(share):
    """What moves to the right by a share of the scale: green and blue are what is left of it."""
    return 255, 255 * (1 - share), 255 * (1 - share)


def assert_colors(frames, shares):
    found = [frame.mean((0, 1)) for frame in frames]
    np.testing.assert_allclose(found, [red(share) for share in shares], atol=NEAR)


def test_the_largest_motion_of_all_is_the_scale_of_every_picture_in_natural_order(tmp_path):
    # `video` would begin at a quarter above the first 2 px
    motions = [2, 4, 0, 0, 0, 0, 0, 0, 0, 8, 6]
    flows = flows_folder(tmp_path / "flows", motions)
    (flows / "notes.txt").touch()
    summary = visualize_as_video(flows, tmp_path / "v.avi")
    assert summary == {
        "input": str(flows),
        "output": str(tmp_path / "v.avi"),
        "images": 11,
        "fps": 25.0,
        "style": "wheel",
        "scale": "sequence",
        "max_flow_px": 8.0,
        "end_point_error_px": None,
        "outliers": None,
        "flows_measured": 0,
    }
    fps, frames = frames_of(tmp_path / "v.avi")
    assert fps == 25
    assert [frame.shape for frame in frames] == [(HEIGHT, WIDTH, 3)] * 11
    assert_colors(frames, [motion / 8 for motion in motions])
    assert names_in(tmp_path) == ["flows", "v.avi"]


@pytest.mark.parametrize("suffix", VIDEO_SUFFIXES)
def test_every_kind_of_video_has_every_picture(tmp_path, suffix):
    flows = flows_folder(tmp_path / "flows", [1, 2, 4])
    visualize_as_video(flows, flows / f"v{suffix}", fps=20)  # beside the flows, in their folder
    with open_frames(flows / f"v{suffix}") as source:
        assert source.fps == pytest.approx(20)
        means = [frame.mean((0, 1)) for frame in source]
    np.testing.assert_allclose(means, [red(0.25), red(0.5), red(1)], atol=NEAR)


@pytest.mark.parametrize(
    ("rule", "scale", "shares"),
    [(16.0, 16.0, [1 / 8, 1 / 2]), ("frame", None, [1, 1]), ("percentile", 8.0, [1 / 4, 1])],
)
def test_every_rule_of_the_scale_is_kept_to(tmp_path, rule, scale, shares):
    flows = flows_folder(tmp_path / "flows", [2, 8])
    summary = visualize_as_video(flows, tmp_path / "v.avi", max_flow=rule)
    # a percentile may be a thousandth too large
    assert summary["max_flow_px"] == (scale and pytest.approx(scale, rel=0.001))
    assert_colors(frames_of(tmp_path / "v.avi")[1], shares)


def test_the_frames_of_a_folder_are_beside_their_flows(tmp_path):
    flows = flows_folder(tmp_path / "flows", [4, 2])
    frames = frames_folder(tmp_path / "frames", [40, 90, 200])
    beside = SceneFiles(frame=frames)
    visualize_as_video(flows, tmp_path / "v.avi", look=Look(style="side"), beside=beside)
    pictures = frames_of(tmp_path / "v.avi")[1]
    assert [picture.shape for picture in pictures] == [(HEIGHT, 2 * WIDTH, 3)] * 2
    left = [picture[:, : WIDTH - 8].mean() for picture in pictures]
    assert left == pytest.approx([40, 90], abs=NEAR)
    assert_colors([picture[:, WIDTH + 8 :] for picture in pictures], [1, 0.5])


def test_legends_of_scales_of_any_length_are_of_one_size(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    for number, motion in enumerate((1, 12345.6, 20)):
        write_flow(flows / f"{number}.flo", flow_of(motion, 160, 240))
    look = Look(style="heat", legend="beside")
    visualize_as_video(flows, tmp_path / "v.avi", look=look, max_flow="frame")
    assert len(frames_of(tmp_path / "v.avi")[1]) == 3


# the frame rate


def test_the_rate_is_that_of_the_video_that_the_flows_are_of(tmp_path, estimator):
    source = video_file(tmp_path / "clip.mp4", [20, 60, 100, 140, 180], fps=12.5)
    run(estimator, source, folder=tmp_path / "flows")
    assert visualize_as_video(tmp_path / "flows", tmp_path / "v.mp4")["fps"] == 12.5
    fps, frames = frames_of(tmp_path / "v.mp4")
    assert (fps, len(frames)) == (12.5, 4)
    assert visualize_as_video(tmp_path / "flows", tmp_path / "v.mp4", fps=60)["fps"] == 60
    assert frames_of(tmp_path / "v.mp4")[0] == 60


@pytest.mark.parametrize("is_there", [True, False])
def test_of_every_second_frame_it_is_half_even_without_the_video(tmp_path, estimator, is_there):
    source = video_file(tmp_path / "clip.mp4", [20, 60, 100, 140, 180], fps=12.5)
    outputs = VideoOutputs(folder=tmp_path / "flows")
    estimate_video(estimator.load, source, outputs, selection=FrameSelection(step=2))
    if not is_there:  # 3 frames at 0, 0.16 and 0.32 s
        source.unlink()
    summary = visualize_as_video(tmp_path / "flows", tmp_path / "v.mp4")
    assert (summary["images"], summary["fps"]) == (2, pytest.approx(6.25))


def test_it_is_25_of_images_and_of_flows_that_the_record_is_not_of(tmp_path, estimator):
    run(estimator, frames_folder(tmp_path / "frames", [1, 2, 3]), folder=tmp_path / "a")
    assert visualize_as_video(tmp_path / "a", tmp_path / "v.mp4")["fps"] == 25
    source = video_file(tmp_path / "clip.mp4", [20, 60, 100], fps=12.5)
    run(estimator, source, folder=tmp_path / "b")
    (tmp_path / "b" / "000000.flo").rename(tmp_path / "b" / "other.flo")
    assert visualize_as_video(tmp_path / "b", tmp_path / "v.mp4")["fps"] == 25


@pytest.mark.parametrize("times", [[], [0.5], [1, 1], [0, "1"], [0, 10**400], None])
def test_times_that_tell_no_rate_are_not_relied_on(tmp_path, times):
    flows = tmp_path / "flows"
    flows.mkdir()
    write_flow(flows / "000000.flo", flow_of(1))
    (flows / "pwcflow.json").write_text(json.dumps({"timestamps_s": times}))
    assert visualize_as_video(flows, tmp_path / "v.mp4")["fps"] == 25


# what cannot be


@pytest.mark.parametrize("rule", [None, "frame", 8.0])
def test_a_flow_of_another_size_is_named_and_the_old_video_stays(tmp_path, rule):
    flows = flows_folder(tmp_path / "flows", [1, 2, 3])
    write_flow(flows / "flow3.flo", flow_of(1, 40, 50))
    (tmp_path / "v.avi").write_bytes(b"old")
    with pytest.raises(
        FlowFileError, match=r"flow3\.flo is 50 x 40 pixels but .*flow1\.flo is 64 x 48, and the"
    ):
        visualize_as_video(flows, tmp_path / "v.avi", max_flow=rule)
    assert (tmp_path / "v.avi").read_bytes() == b"old"
    assert names_in(tmp_path) == ["flows", "v.avi"]


def test_a_damaged_flow_at_the_end_leaves_no_video(tmp_path):
    flows = flows_folder(tmp_path / "flows", [1, 2])
    (flows / "flow2.flo").write_bytes((flows / "flow1.flo").read_bytes()[:-1])
    with pytest.raises(FlowFileError, match=r"flow2\.flo is cut short.* move it out of .*flows"):
        visualize_as_video(flows, tmp_path / "v.avi", max_flow=8.0)
    assert names_in(tmp_path) == ["flows"]


def test_flows_in_folders_below_are_an_error(tmp_path):
    flows = flows_folder(tmp_path / "flows", [1])
    flows_folder(flows / "inner", [1])
    with pytest.raises(FlowFileError, match=r"inner has flows in it, too, but .* one folder; name"):
        visualize_as_video(flows, tmp_path / "v.mp4")
    assert names_in(tmp_path) == ["flows"]


def test_a_frame_is_not_replaced_by_the_animation(tmp_path):
    flows = flows_folder(tmp_path / "flows", [1])
    frames = tmp_path / "frames"
    frames.mkdir()
    for name in ("0.webp", "1.webp"):
        write_image(frames / name, gray(9))
    beside = SceneFiles(frame=frames)
    with pytest.raises(OutputError, match=r"0\.webp: it is an input"):
        visualize_as_video(flows, frames / "0.webp", look=Look(style="side"), beside=beside)


def test_an_animation_that_would_be_too_long_is_refused_by_the_size_of_its_pictures(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    write_flow(flows / "0.flo", flow_of(1, 512, 1024))
    for number in range(1, 257):
        os.link(flows / "0.flo", flows / f"{number}.flo")
    # 2^27 / 2^19 = 256, and there is one more
    with pytest.raises(OutputError, match=r"takes 256 frames at most.* 257; choose a video such"):
        visualize_as_video(flows, tmp_path / "v.gif")
    assert names_in(tmp_path) == ["flows"]


# the command


def test_the_command_tells_number_rate_and_scale(here):
    flows_folder(here / "flows", [2, 8])
    result = invoke("visualize", "flows", "-o", "v.mp4", "--fps", "12.5")
    told = "v.mp4: 2 images at 12.5 frames per second, fully saturated at 8.0 px\n"
    assert (result.exit_code, result.stdout) == (0, told)
    assert frames_of(here / "v.mp4")[0] == 12.5
    (here / "old.mp4").mkdir()  # a folder is one, whatever it is called
    assert invoke("visualize", "flows", "-o", "old.mp4").exit_code == 0
    assert names_in(here / "old.mp4") == ["flow1.png", "flow2.png"]


@posix
def test_an_interrupt_keeps_the_pictures_that_are_drawn_and_tells_how_many(here):
    flows_folder(here / "flows", [])
    write_flow(here / "flows" / "0.flo", flow_of(1, 480, 640))
    for number in range(1, 3000):
        os.link(here / "flows" / "0.flo", here / "flows" / f"{number}.flo")
    with start("visualize", "flows", "-o", "v.avi", "--max-flow", "9") as running:
        while not (begun := [path for path in here.glob(".*.avi") if path.stat().st_size > 50_000]):
            assert running.poll() is None, running.communicate()
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    told = re.fullmatch(r"interrupted; kept (\d+) of 3000 pictures in v\.avi\n", stderr)
    assert told, stderr
    frames = frames_of(here / "v.avi")[1]
    assert len(frames) - int(told[1]) in (0, 1)  # one may have been on its way
    assert 0 < len(frames) < 3000
    assert not begun[0].exists()
