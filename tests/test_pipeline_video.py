"""A video becomes flow files and a colour video, or a message with nothing half-written."""

import shutil
import struct
from itertools import pairwise

import numpy as np
import pytest

from pwcflow.errors import OutputError, VideoError
from pwcflow.flow_file import read_flow
from pwcflow.image_file import write_image
from tests.fake_estimator import FakeEstimator
from tests.gray_frames import (
    HEIGHT,
    NEAR,
    WIDTH,
    cut_in_frame,
    flows_in,
    frames_folder,
    frames_of,
    gray,
    means_of,
    names_in,
    run,
    video_file,
)

pytestmark = pytest.mark.usefixtures("no_thread_is_left_behind")


def test_a_folder_of_frames_gives_one_flow_less_in_natural_order(tmp_path, estimator):
    levels = [10 * number for number in range(1, 13)]  # frame10 sorts before frame2 as text
    source = frames_folder(tmp_path / "frames", levels)
    summary = run(estimator, source, folder=tmp_path / "flows")
    assert flows_in(tmp_path / "flows") == [f"{number:06d}.flo" for number in range(11)]
    assert means_of(tmp_path / "flows") == list(pairwise(levels))
    assert estimator.encoded == levels  # each once, in order
    assert estimator.loads == 1
    assert summary.pop("seconds") >= 0
    assert summary == {
        "video": str(source),
        "outcome": "done",
        "frames": 12,
        "flows": 11,
        "flows_kept": 0,
        "flow_folder": str(tmp_path / "flows"),
        "viz": None,
        "style": None,
        "scale": None,
        "max_flow_px": None,
        "width": WIDTH,
        "height": HEIGHT,
        "weights": "fake",
        "weights_sha256": "0" * 64,
        "device": "cpu",
        "precision": "fp32",
        "network_scale": 1.0,
    }


def test_a_video_file_gives_one_flow_less_and_encodes_each_frame_once(tmp_path, estimator):
    levels = [20, 60, 100, 140, 180]
    source = video_file(tmp_path / "clip.mp4", levels)
    summary = run(estimator, source, folder=tmp_path / "new" / "flows")
    assert (summary["frames"], summary["flows"]) == (5, 4)
    assert estimator.encoded == pytest.approx(levels, abs=NEAR)
    flat = [value for pair in pairwise(levels) for value in pair]
    found = [value for pair in means_of(tmp_path / "new" / "flows") for value in pair]
    assert found == pytest.approx(flat, abs=NEAR)


def test_two_frames_give_one_flow(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [7, 9])
    assert run(estimator, source, folder=tmp_path / "flows")["flows"] == 1
    assert means_of(tmp_path / "flows") == [(7, 9)]


def test_the_colour_video_has_the_frame_rate_of_its_source_and_one_frame_less(tmp_path, estimator):
    source = video_file(tmp_path / "clip.mp4", [20, 60, 100, 140, 180], fps=12.5)
    viz = tmp_path / "viz.mp4"
    run(estimator, source, viz=viz)
    fps, frames = frames_of(viz)
    assert fps == pytest.approx(12.5)
    assert len(frames) == 4
    assert frames[0].shape == (HEIGHT, WIDTH, 3)


@pytest.mark.parametrize("pattern", ["", "*.png"])
def test_the_colour_video_of_images_has_the_usual_frame_rate_or_the_one_asked_for(
    tmp_path, estimator, pattern
):
    source = frames_folder(tmp_path / "frames", [1, 2, 3]) / pattern
    run(estimator, source, viz=tmp_path / "a.mp4")
    run(estimator, source, viz=tmp_path / "b.mp4", fps=60)
    assert frames_of(tmp_path / "a.mp4")[0] == 25
    assert frames_of(tmp_path / "b.mp4")[0] == 60


def test_the_colour_video_keeps_to_the_scale_asked_for(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [100, 0, 0])
    assert run(estimator, source, viz=tmp_path / "viz.avi", max_flow=200)["max_flow_px"] == 200
    _, (moving, still) = frames_of(tmp_path / "viz.avi")
    # (100, 0) px of 200: red, with half of green and blue
    assert np.abs(moving.mean((0, 1)) - (255, 127, 127)).max() < NEAR
    assert np.abs(still.mean((0, 1)) - 255).max() < NEAR


def test_the_colour_video_has_a_running_scale_when_none_is_asked_for(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [80, 0, 0])
    assert run(estimator, source, viz=tmp_path / "viz.avi")["max_flow_px"] == 100
    _, (moving, still) = frames_of(tmp_path / "viz.avi")
    # the scale is a quarter above 80 px: a fifth of green and blue is left
    assert np.abs(moving.mean((0, 1)) - (255, 51, 51)).max() < NEAR
    assert np.abs(still.mean((0, 1)) - 255).max() < NEAR


def test_a_break_in_the_middle_keeps_the_flows_and_the_colour_video(tmp_path, estimator):
    levels = [20, 50, 80, 110, 140, 170, 200, 230]
    source = cut_in_frame(video_file(tmp_path / "clip.avi", levels, codec="MJPG"), 5)
    flows, viz = tmp_path / "flows", tmp_path / "viz.mp4"
    with pytest.raises(
        VideoError, match=r"breaks at frame 5 .*; kept what comes before: 4 flows in "
    ):
        run(estimator, source, folder=flows, viz=viz)
    assert flows_in(flows) == [f"{number:06d}.flo" for number in range(4)]
    assert [u for u, _ in means_of(flows)] == pytest.approx(levels[:4], abs=NEAR)
    assert len(frames_of(viz)[1]) == 4
    assert names_in(tmp_path) == ["clip.avi", "flows", "viz.mp4"]


def test_a_damaged_frame_in_a_folder_keeps_the_flows_and_the_colour_video(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [10, 20, 30])
    (source / "frame3.png").write_bytes((source / "frame3.png").read_bytes()[:-20])
    flows, viz = tmp_path / "flows", tmp_path / "viz.mp4"
    with pytest.raises(VideoError, match=r"frame3\.png is cut short.*comes before: 1 flow in "):
        run(estimator, source, folder=flows, viz=viz)
    assert means_of(flows) == [(10, 20)]
    assert len(frames_of(viz)[1]) == 1


def test_a_frame_of_another_size_ends_the_video_there(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [10, 20, 30])
    write_image(source / "frame4.png", gray(40, 32, 80))
    with pytest.raises(
        VideoError, match=r"frame4\.png is 80 x 32 .* 64 x 48; .*before: 2 flows in "
    ):
        run(estimator, source, folder=tmp_path / "flows")
    assert means_of(tmp_path / "flows") == [(10, 20), (20, 30)]


def test_a_frame_of_another_depth_ends_the_video_there(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [10, 20, 30])
    write_image(source / "frame4.png", gray(40).astype(np.uint16))
    with pytest.raises(
        VideoError, match=r"frame4\.png holds 16-bit .* 8-bit .*before: 2 flows in "
    ):
        run(estimator, source, folder=tmp_path / "flows")
    assert means_of(tmp_path / "flows") == [(10, 20), (20, 30)]


def one_frame(folder):
    return video_file(folder / "clip.mp4", [50]), "has one frame only; flow needs two"


def one_image(folder):
    return frames_folder(folder / "frames", [50]), "has one frame only; flow needs two"


def two_sizes(folder):
    source = frames_folder(folder / "frames", [50])
    write_image(source / "frame2.png", gray(40, 32, 80))
    return source, "80 x 32 pixels but .* 64 x 48"


def missing(folder):
    return folder / "clip.mp4", "there is no file .*clip.mp4"


def broken_at_once(folder):
    source = video_file(folder / "clip.avi", [1, 2, 3], codec="MJPG")
    return cut_in_frame(source, 1), "breaks at frame 1"


@pytest.mark.parametrize("make", [one_frame, one_image, two_sizes, missing, broken_at_once])
def test_a_source_without_two_good_frames_loads_and_writes_nothing(tmp_path, estimator, make):
    source, message = make(tmp_path)
    before = names_in(tmp_path)
    with pytest.raises(VideoError, match=message):
        run(estimator, source, folder=tmp_path / "flows", viz=tmp_path / "viz.mp4")
    assert estimator.loads == 0
    assert names_in(tmp_path) == before


def test_an_unknown_video_suffix_is_told_before_the_source_is_opened(tmp_path, estimator):
    with pytest.raises(OutputError, match=r"'\.mpg' is not a video format"):
        run(estimator, tmp_path / "missing.mp4", viz=tmp_path / "viz.mpg")
    assert estimator.loads == 0


def test_the_colour_video_does_not_replace_its_source(tmp_path, estimator):
    source = video_file(tmp_path / "clip.mp4", [1, 2, 3])
    before = source.read_bytes()
    with pytest.raises(OutputError, match="it is an input"):
        run(estimator, source, viz=source)
    assert estimator.loads == 0
    assert source.read_bytes() == before


def without_frame_rate(path):
    source = video_file(path, [10, 20, 30], fps=240.0, codec="MJPG")
    data = source.read_bytes()
    rate = data.index(b"strh") + 32  # dwRate, after dwScale
    assert struct.unpack_from("<II", data, rate - 4) == (1, 240)
    source.write_bytes(data[:rate] + struct.pack("<I", 1200) + data[rate + 4 :])  # not sensible
    return source


def test_a_source_without_frame_rate_needs_one_for_its_colour_video(tmp_path, estimator):
    source = without_frame_rate(tmp_path / "clip.avi")
    with pytest.raises(VideoError, match="does not tell its frame rate; add --fps"):
        run(estimator, source, viz=tmp_path / "viz.mp4")
    assert estimator.loads == 0
    run(estimator, source, viz=tmp_path / "viz.mp4", fps=10)
    fps, frames = frames_of(tmp_path / "viz.mp4")
    assert (fps, len(frames)) == (10, 2)


def test_a_source_without_frame_rate_gives_flow_files_all_the_same(tmp_path, estimator):
    source = without_frame_rate(tmp_path / "clip.avi")
    assert run(estimator, source, folder=tmp_path / "flows")["flows"] == 2


def test_a_frame_rate_no_video_can_have_is_told_before_anything_is_loaded(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [1, 2])
    with pytest.raises(OutputError, match="choose a rate from"):
        run(estimator, source, viz=tmp_path / "viz.mp4", fps=5000)
    assert estimator.loads == 0


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_loaded(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [1, 2])
    (tmp_path / "file").touch()
    for folder in ("file", "file/flows"):
        with pytest.raises(OutputError, match=r"flow files go into a folder, but .*file is a file"):
            run(estimator, source, folder=tmp_path / folder)
    assert estimator.loads == 0


def test_a_folder_of_flows_is_not_called_like_a_file(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [1, 2])
    with pytest.raises(
        OutputError, match=r"v\.png is the name of a file; choose one without \.png"
    ):
        run(estimator, source, folder=tmp_path / "v.png")
    assert names_in(tmp_path) == ["frames"]


def test_a_missing_folder_for_the_colour_video_is_told_before_the_source_is_opened(
    tmp_path, estimator
):
    with pytest.raises(OutputError, match=r"the folder .*none does not exist"):
        run(estimator, tmp_path / "missing.mp4", viz=tmp_path / "none" / "viz.mp4")


def test_the_colour_video_may_lie_in_the_folder_of_flows_that_is_not_yet_there(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [1, 2])
    run(estimator, source, folder=tmp_path / "out", viz=tmp_path / "out" / "viz.mp4")
    assert flows_in(tmp_path / "out") == ["000000.flo", "viz.mp4"]


def test_two_runs_are_not_mixed_in_one_folder(tmp_path, estimator):
    long, short = (
        frames_folder(tmp_path / name, levels)
        for name, levels in (("long", [1, 2, 3]), ("short", [7, 8]))
    )
    flows = tmp_path / "flows"
    run(estimator, long, folder=flows)
    others = ["1a.flo", "notes.txt", "x.flo"]
    for name in others:
        (flows / name).touch()
    with pytest.raises(
        OutputError, match=r"flows holds flows of another input, .*long; give --over"
    ):
        run(estimator, short, folder=flows)
    assert flows_in(flows) == ["000000.flo", "000001.flo", *others]
    assert estimator.loads == 1
    (flows / "pwcflow.json").unlink()
    with pytest.raises(OutputError, match=r"flows holds flows already, .*give --overwrite"):
        run(estimator, short, folder=flows)
    run(estimator, short, folder=flows, overwrite=True)
    assert flows_in(flows) == ["000000.flo", *others]
    assert read_flow(flows / "000000.flo")[0, 0].tolist() == [7, 8]


def test_nothing_is_removed_before_there_is_a_new_flow(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [1, 2])
    flows = tmp_path / "flows"
    run(estimator, source, folder=flows)
    estimator.fails_at = 0
    with pytest.raises(VideoError, match="no flow here; nothing was written"):
        run(estimator, source, folder=flows, overwrite=True)
    assert flows_in(flows) == ["000000.flo"]


def test_a_pair_without_a_usable_flow_keeps_what_comes_before(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [1, 2, 3])
    flows, viz = tmp_path / "flows", tmp_path / "viz.mp4"
    estimator.fails_at = 1
    with pytest.raises(VideoError, match=r"no flow here; kept .* 1 flow in .*flows and .*mp4$"):
        run(estimator, source, folder=flows, viz=viz)
    assert flows_in(flows) == ["000000.flo"]
    assert len(frames_of(viz)[1]) == 1


def test_sixteen_bit_frames_reach_the_estimator_as_they_are(tmp_path, estimator):
    source = tmp_path / "frames"
    source.mkdir()
    for number, level in enumerate((1000, 2000)):
        write_image(source / f"{number}.png", np.full((8, 9, 3), level, np.uint16))
    run(estimator, source, folder=tmp_path / "flows")
    assert means_of(tmp_path / "flows") == [(1000, 2000)]


@pytest.mark.parametrize("outputs", [{"folder": "out"}, {"viz": "out/v.avi"}, {"viz": "out/v.gif"}])
def test_a_folder_that_is_removed_meanwhile_is_told(tmp_path, outputs):
    class Removing(FakeEstimator):
        def decode(self, first, second):
            while self._flows == 5 and (tmp_path / "out").exists():
                shutil.rmtree(tmp_path / "out", ignore_errors=True)  # files come and go meanwhile
            return super().decode(first, second)

    (tmp_path / "out").mkdir()
    source = frames_folder(tmp_path / "frames", range(10, 20))
    with pytest.raises(OutputError) as caught:
        run(Removing(), source, **{name: tmp_path / path for name, path in outputs.items()})
    told = f"the folder {tmp_path / 'out'} was removed while files were written into it; give the"
    assert str(caught.value) == f"{told} same command again"
    assert names_in(tmp_path) == ["frames"]
