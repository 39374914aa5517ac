import io
import struct
import sys
import threading
import weakref
from contextlib import suppress
from itertools import pairwise

import cv2
import numpy as np
import pytest

from pwcflow.errors import FlowFileError, ImageError, OutputError, VideoError
from pwcflow.flow_file import read_flow, read_metadata
from pwcflow.image_file import read_image, write_image
from pwcflow.opencv_log import quiet_codecs
from pwcflow.pipeline import estimate_pair, estimate_video
from pwcflow.video_outputs import VideoOutputs
from pwcflow.video_sink import FOLDER_FPS
from tests.fake_estimator import FakeEstimator

WIDTH, HEIGHT = 64, 48
NEAR = 5.0  # what MPEG-4 and Motion JPEG make of a gray, in levels


@pytest.fixture
def estimator():
    return FakeEstimator()


@pytest.fixture(autouse=True)
def no_thread_is_left_behind():
    yield
    assert [thread for thread in threading.enumerate() if not thread.daemon] == [  # tqdm has one
        threading.main_thread()
    ]


def gray(level, height=HEIGHT, width=WIDTH):
    return np.full((height, width, 3), level, np.uint8)


def frames_folder(folder, levels, name="frame{}.png"):
    """Frames in a folder: frame1.png and so on, each of one gray."""
    folder.mkdir()
    for number, level in enumerate(levels, 1):
        write_image(folder / name.format(number), gray(level))
    return folder


def video_file(path, levels, fps=12.5, codec="mp4v"):
    with quiet_codecs(opening_writer=True):
        fourcc = cv2.VideoWriter.fourcc(*codec)
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, fps, (WIDTH, HEIGHT))
    assert writer.isOpened()
    # The noise, of mean 0, makes frames so large that a cut hits the pixels, not the tables.
    noise = np.random.default_rng(0).choice([-12, 12], (HEIGHT, WIDTH, 1))
    for level in levels:
        writer.write((gray(level) + noise).clip(0, 255).astype(np.uint8))
    writer.release()
    return path


def cut_in_frame(path, index):
    """Cut a Motion JPEG AVI in the middle of a frame."""
    data = path.read_bytes()
    start = data.index(b"movi")
    for _ in range(index + 1):
        start = data.index(b"00dc", start) + 8
    (length,) = struct.unpack_from("<I", data, start - 4)
    path.write_bytes(data[: start + length // 2])
    return path


def run(estimator, source, **options):
    return estimate_video(estimator.load, source, VideoOutputs(**options))


def frames_of(path):
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    assert capture.isOpened()
    fps, frames = capture.get(cv2.CAP_PROP_FPS), []
    while (frame := capture.read()[1]) is not None:
        frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    return fps, frames


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def flows_in(folder):
    """The names of what is in a folder beside the record, which has to be there."""
    names = names_in(folder)
    names.remove("pwcflow.json")
    return names


def means_of(folder):
    flows = [read_flow(path) for path in sorted(folder.glob("*.flo"))]
    return [tuple(float(mean) for mean in flow.mean((0, 1))) for flow in flows]


# pairs


def test_a_pair_of_images_becomes_a_flow_file_and_a_colour_image(tmp_path, estimator):
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    write_image(first, gray(30))
    write_image(second, gray(40))
    output, viz = tmp_path / "out.flo", tmp_path / "out.png"
    summary = estimate_pair(estimator.load, first, second, output=output, viz=viz)
    flow = read_flow(output)
    assert flow.shape == (HEIGHT, WIDTH, 2)
    assert np.all(flow == (30, 40))
    assert read_image(viz).shape == (HEIGHT, WIDTH, 3)
    assert summary.pop("seconds") >= 0
    assert summary == {
        "first": str(first),
        "second": str(second),
        "flow": str(output),
        "backward": None,
        "viz": str(viz),
        "style": "wheel",
        "scale": "sequence",
        "max_flow_px": 50.0,
        "width": WIDTH,
        "height": HEIGHT,
        "largest_motion_px": 50.0,
        "weights": "fake",
        "weights_sha256": "0" * 64,
        "device": "cpu",
        "precision": "fp32",
    }


@pytest.mark.parametrize(
    "names", [("f.flo", "b.npz"), ("both.exr", "both.exr"), ("both.exr", "link/both.exr")]
)
def test_the_flow_back_goes_into_a_file_of_its_own_or_into_the_same_exr(tmp_path, estimator, names):
    (tmp_path / "link").symlink_to(tmp_path)
    if ".exr" in names[0]:
        pytest.importorskip("OpenEXR")
    images = [tmp_path / "1.png", tmp_path / "2.png"]
    for path, level in zip(images, (30, 40), strict=True):
        write_image(path, gray(level))
    output, backward = (tmp_path / name for name in names)
    estimate_pair(estimator.load, *images, output=output, viz=None, backward=backward)
    assert np.all(read_flow(output) == (30, 40))
    same = output.samefile(backward)
    assert np.all(read_flow(backward, direction="backward" if same else "forward") == (40, 30))
    metadata = read_metadata(backward)
    assert metadata["direction"] == ("forward and backward" if same else "backward")
    assert metadata["first"] == str(images[0] if same else images[1])
    assert (metadata["weights"], metadata["precision"]) == ("fake", "fp32")


def test_two_directions_do_not_fit_into_one_file_of_another_kind(tmp_path, estimator):
    write_image(tmp_path / "1.png", gray(1))
    one = tmp_path / "f.flo"
    with pytest.raises(OutputError, match="or another output"):
        estimate_pair(estimator.load, tmp_path / "1.png", tmp_path / "1.png", output=one,
                      viz=None, backward=one)  # fmt: skip
    assert estimator.loads == 0


def test_the_scale_asked_for_is_that_of_the_colour_image(tmp_path, estimator):
    for name, level in (("1.png", 1), ("2.png", 0)):
        write_image(tmp_path / name, gray(level))
    viz = tmp_path / "viz.png"
    images = tmp_path / "1.png", tmp_path / "2.png"
    summary = estimate_pair(estimator.load, *images, output=None, viz=viz, max_flow=100)
    assert summary["max_flow_px"] == 100
    # (1, 0) px of 100: red, whose green and blue lose 1 % of 255
    assert np.all(read_image(viz) == (255, 252, 252))


def test_two_images_of_two_sizes_are_refused_with_both_before_anything_is_loaded(
    tmp_path, estimator
):
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    write_image(first, gray(1, 48, 64))
    write_image(second, gray(1, 64, 48))
    with pytest.raises(ImageError, match=r"1\.png is 64 x 48 pixels but .*2\.png is 48 x 64"):
        estimate_pair(estimator.load, first, second, output=tmp_path / "a.flo", viz=None)
    assert estimator.loads == 0


@pytest.mark.parametrize(
    ("output", "viz"),
    [("a.jpg", None), ("a", None), (None, "a.flo"), (None, "a"), ("a.flo", "b.gif")],
)
def test_an_unknown_suffix_is_told_before_the_images_are_read(tmp_path, estimator, output, viz):
    with pytest.raises((FlowFileError, OutputError), match="use "):
        estimate_pair(
            estimator.load,
            tmp_path / "missing.png",
            tmp_path / "missing.png",
            output=output and tmp_path / output,
            viz=viz and tmp_path / viz,
        )
    assert estimator.loads == 0
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("output", "viz"),
    [("1.png", None), (None, "2.png"), ("out.png", "out.png"), ("sub/../1.png", None)],
)
def test_no_output_takes_the_place_of_an_input_or_of_another_output(
    tmp_path, estimator, output, viz
):
    (tmp_path / "sub").mkdir()
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    write_image(first, gray(1))
    write_image(second, gray(2))
    with pytest.raises(OutputError, match="it is an input, or another output; choose another"):
        estimate_pair(
            estimator.load,
            first,
            second,
            output=output and tmp_path / output,
            viz=viz and tmp_path / viz,
        )
    assert estimator.loads == 0
    assert np.all(read_image(first) == 1)


@pytest.mark.parametrize("option", ["output", "viz"])
def test_a_missing_folder_is_told_before_the_images_are_read(tmp_path, estimator, option):
    outputs = {"output": None, "viz": None, option: tmp_path / "none" / "a.png"}
    missing = tmp_path / "missing.png"
    with pytest.raises(OutputError, match=r"the folder .*none does not exist; create it first"):
        estimate_pair(estimator.load, missing, missing, **outputs)


def test_an_output_linked_to_an_input_is_refused(tmp_path, estimator):
    first, link = tmp_path / "1.png", tmp_path / "link.png"
    write_image(first, gray(1))
    link.symlink_to(first)
    with pytest.raises(OutputError, match="it is an input"):
        estimate_pair(estimator.load, first, first, output=None, viz=link)


# videos


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
    assert frames_of(tmp_path / "a.mp4")[0] == FOLDER_FPS
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


# stages at work at the same time

LONG = 60


class Stumbling(FakeEstimator):
    """Does something when it has come to a flow, and may replace it."""

    def __init__(self, at, then):
        super().__init__()
        self._at, self._then = at, then

    def flows(self, frames, expected=None):
        for number, flow in enumerate(super().flows(frames)):
            yield (self._then() or flow[:-8]) if number == self._at else flow


def interrupt():
    raise KeyboardInterrupt


def run_long(tmp_path, estimator, levels=range(LONG), **options):
    source = frames_folder(tmp_path / "frames", levels, "{:03d}.png")
    return run(estimator, source, folder=tmp_path / "flows", viz=tmp_path / "viz.avi", **options)


def test_the_flows_of_a_long_video_are_all_there_and_in_order(tmp_path, estimator):
    summary = run_long(tmp_path, estimator)
    assert summary["flows"] == LONG - 1
    assert means_of(tmp_path / "flows") == list(pairwise(range(LONG)))
    assert len(frames_of(tmp_path / "viz.avi")[1]) == LONG - 1
    # a quarter above the first motion of 1 px, and 5 % more with every flow after it
    assert summary["max_flow_px"] == pytest.approx(1.25 * 1.05 ** (LONG - 2), abs=1e-3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("fails_at", "end"), [(None, "59/59"), (30, "30/59"), (0, "0/59")])
def test_the_progress_bar_counts_the_flows_that_are_written(
    tmp_path, estimator, monkeypatch, fails_at, end
):
    monkeypatch.setattr(sys, "stderr", Terminal())
    estimator.fails_at = fails_at
    source = frames_folder(tmp_path / "frames", range(LONG), "{:03d}.png")
    outputs = VideoOutputs(folder=tmp_path / "flows", viz=tmp_path / "viz.avi")
    with suppress(VideoError):
        estimate_video(estimator.load, source, outputs, progress=True)
    assert f"| {end} [" in sys.stderr.getvalue().split("\r")[-1]


class Counted(FakeEstimator):
    """Counts the flows that exist at a time."""

    alive = most_alive = 0

    def decode(self, first, second):
        flow = super().decode(first, second)
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        weakref.finalize(flow, self._gone)
        return flow

    def _gone(self):
        self.alive -= 1


def test_a_network_faster_than_the_writers_waits_for_them(tmp_path):
    estimator = Counted()
    run_long(tmp_path, estimator)
    assert 2 < estimator.most_alive <= 16 + 2
    assert estimator.alive == 0


def test_a_file_that_cannot_be_written_ends_the_video_at_its_flow(tmp_path):
    taken = tmp_path / "flows" / "000007.flo"
    estimator = Stumbling(7, taken.mkdir)
    with pytest.raises(OutputError, match=r"000007\.flo: it is a folder"):
        run_long(tmp_path, estimator)
    assert flows_in(tmp_path / "flows") == [f"{number:06d}.flo" for number in range(8)]
    taken.rmdir()
    assert means_of(tmp_path / "flows") == list(pairwise(range(8)))
    assert names_in(tmp_path) == ["flows", "frames"]  # no colour video, as it was before
    assert len(estimator.encoded) < 7 + 20


def test_a_colour_frame_that_cannot_be_written_ends_the_video_at_its_flow(tmp_path):
    estimator = Stumbling(7, lambda: None)  # a flow of another size
    with pytest.raises(ValueError, match="all frames need the shape of the first"):
        run_long(tmp_path, estimator)
    assert means_of(tmp_path / "flows") == list(pairwise(range(8)))
    assert names_in(tmp_path) == ["flows", "frames"]
    assert len(estimator.encoded) < 7 + 20


def test_a_full_disk_is_told_when_a_damaged_frame_comes_later(tmp_path):
    taken = tmp_path / "flows" / "000001.flo"
    frames = frames_folder(tmp_path / "frames", [1, 2, 3, 4])
    write_image(frames / "frame5.png", gray(40, 32, 80))
    with pytest.raises(OutputError, match=r"000001\.flo: it is a folder"):
        run(Stumbling(1, taken.mkdir), frames, folder=tmp_path / "flows")
    assert flows_in(tmp_path / "flows") == ["000000.flo", "000001.flo"]


@pytest.mark.parametrize("at", [0, 1, 30])
def test_an_estimator_that_fails_loses_no_flow_that_is_being_written(tmp_path, estimator, at):
    estimator.fails_at = at
    kept = f"before: {at} flow" if at else "nothing was written"
    with pytest.raises(VideoError, match=f"no flow here; .*{kept}"):
        run_long(tmp_path, estimator)
    if at:
        assert means_of(tmp_path / "flows") == list(pairwise(range(at + 1)))
        assert len(frames_of(tmp_path / "viz.avi")[1]) == at
    else:
        assert names_in(tmp_path) == ["frames"]


def test_an_error_of_ours_leaves_the_flows_before_it(tmp_path):
    def fail():
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="CUDA"):
        run_long(tmp_path, Stumbling(20, fail))
    assert means_of(tmp_path / "flows") == list(pairwise(range(21)))
    assert names_in(tmp_path) == ["flows", "frames"]


def test_an_interruption_keeps_every_flow_that_was_handed_over(tmp_path):
    with pytest.raises(
        KeyboardInterrupt,
        match=r"^kept what comes before: 20 flows in .*; the same command goes on from there$",
    ):
        run_long(tmp_path, Stumbling(20, interrupt))
    assert means_of(tmp_path / "flows") == list(pairwise(range(21)))
    assert len(frames_of(tmp_path / "viz.avi")[1]) == 20
