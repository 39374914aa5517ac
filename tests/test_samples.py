"""Files that people really feed such a tool, from end to end."""

import json
import re
from contextlib import closing
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from pwcflow.cli import app
from pwcflow.errors import VideoError
from pwcflow.estimator import FlowEstimator
from pwcflow.flow_file import read_flow
from pwcflow.image_file import read_image, write_image
from pwcflow.pipeline import estimate_pair, estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video import count_frames, open_frames
from tests.fake_estimator import FakeEstimator

STATM = Path("/proc/self/statm")
SMALL = (9, 16)


@pytest.fixture
def images(shared):
    return shared / "samples" / "images"


@pytest.fixture
def videos(shared):
    return shared / "samples" / "videos"


@pytest.fixture(scope="module")
def real_estimator():
    return FlowEstimator(device="cpu")


class SmallFlows(FakeEstimator):
    """Looks at whole frames, but its flows are small, so that thousands of them fit on a disk."""

    def decode(self, first, second):
        return super().decode((first[0], SMALL), (second[0], SMALL))


class MemoryWatch:
    """An estimator that notes the process's resident memory, in bytes, at each flow of a video."""

    def __init__(self, estimator):
        self._estimator = estimator
        self.resident = []

    def __getattr__(self, name):
        return getattr(self._estimator, name)

    def flows(self, frames, expected=None):
        with closing(self._estimator.flows(frames, expected)) as flows:
            for flow in flows:
                pages = int(STATM.read_text().split()[1])
                self.resident.append(pages * 4096)
                yield flow


def flow_between(estimator, first, second, folder):
    output = folder / "flow.flo"
    estimate_pair(lambda: estimator, first, second, output=output, viz=None)
    return read_flow(output)


def lengths(flow):
    return np.hypot(flow[..., 0], flow[..., 1])


def seen_from_first(second, flow):
    """The second image, drawn back along the flow: what the first should look like."""
    y, x = np.mgrid[: flow.shape[0], : flow.shape[1]].astype(np.float32)
    return cv2.remap(second, x + flow[..., 0], y + flow[..., 1], cv2.INTER_LINEAR)


def difference(one, other):
    """Mean of the absolute difference in the middle, where nothing comes into view."""
    inside = slice(40, -40)
    return float(np.abs(one[inside, inside].astype(float) - other[inside, inside]).mean())


# images


def test_a_pair_with_alpha_moves_as_its_red_box_does(images, tmp_path, real_estimator):
    first, second = images / "rgba_Crate1.png", images / "rgba_Crate2.png"
    flow = flow_between(real_estimator, first, second, tmp_path)
    assert flow.shape == (480, 640, 2)
    # measured by eye: its corners (280, 155) and (390, 248) go to (294, 143) and (415, 234)
    u, v = np.median(flow[175:235, 300:370], axis=(0, 1))
    assert 14 <= u <= 25
    assert -14 <= v <= -10
    pictures = read_image(first), read_image(second)
    warped = seen_from_first(pictures[1], flow)
    assert difference(pictures[0], warped) < difference(*pictures) / 2


def test_a_gray_pair_moves_as_phase_correlation_says(images, tmp_path, real_estimator):
    first, second = images / "pgm_p1.pgm", images / "pgm_p2.pgm"
    flow = flow_between(real_estimator, first, second, tmp_path)
    assert flow.shape == (388, 584, 2)
    pictures = [read_image(path)[..., 0].astype(np.float32) for path in (first, second)]
    window = cv2.createHanningWindow((584, 388), cv2.CV_32F)
    shift, _ = cv2.phaseCorrelate(*pictures, window)
    assert np.abs(np.median(flow, axis=(0, 1)) - shift).max() < 1  # the scene has depth


def test_a_gray_image_hardly_moves_onto_itself(images, tmp_path, real_estimator):
    path = images / "gray_camera.png"
    flow = flow_between(real_estimator, path, path, tmp_path)
    assert flow.shape == (512, 512, 2)
    assert np.median(lengths(flow)) < 0.5
    assert np.percentile(lengths(flow), 95) < 1


def test_a_sixteen_bit_tiff_keeps_its_values_and_has_a_flow(images, tmp_path, real_estimator):
    path = images / "pil_16bit.cropped.tif"
    image = read_image(path)
    assert (image.dtype, image.shape) == (np.uint16, (64, 64, 3))
    assert (image.min(), image.max()) == (291, 694)
    flow = flow_between(real_estimator, path, path, tmp_path)
    assert flow.shape == (64, 64, 2)
    assert np.isfinite(flow).all()


def test_a_photo_is_upright_as_a_person_sees_it(images, tmp_path):
    path = images / "exif_Landscape_6.jpg"
    estimator = FakeEstimator()
    flow = flow_between(estimator, path, path, tmp_path)
    assert flow.shape == (1200, 1800, 2)
    image = read_image(path).astype(float)
    sky, ground = image[200:400, 100:700], image[1000:1100, 200:700]
    assert sky.mean() > 2 * ground.mean()
    fall, field = image[600:1000, 1280:1380], image[600:1000, 100:400]
    assert fall.mean() > field.mean() + 50  # the white fall is on the right


def test_images_of_different_kinds_and_sizes_are_refused_with_both_sizes(images, tmp_path):
    pair = images / "gray_camera.png", images / "exif_Landscape_6.jpg"
    result = CliRunner().invoke(app, ["estimate", *map(str, pair), "-o", str(tmp_path / "a.flo")])
    assert result.exit_code == 1
    assert re.search(r"gray_camera\.png is 512 x 512 .*6\.jpg is 1800 x 1200", result.stderr)
    assert list(tmp_path.iterdir()) == []


# videos


@pytest.mark.parametrize(
    ("name", "frames", "width", "height", "fps"),
    [
        ("mmflow_demo.mp4", 50, 1024, 436, 10),
        ("cockatoo.mp4", 280, 1280, 720, 20),
        ("rot_90.mov", 3, 320, 568, 30),
        ("tc_h264_10bits.mp4", 30, 200, 200, 30),
    ],
)
def test_a_whole_video_is_read_upright_to_its_end(
    videos, tmp_path, name, frames, width, height, fps
):
    estimator = SmallFlows()
    with open_frames(videos / name) as source:
        assert next(iter(source)).shape == (height, width, 3)
        rate = source.fps
    viz = tmp_path / "viz.mp4"
    outputs = VideoOutputs(folder=tmp_path / "flows", viz=viz)
    summary = estimate_video(estimator.load, videos / name, outputs)
    assert (summary["frames"], summary["flows"]) == (frames, frames - 1)
    assert len(estimator.encoded) == frames
    names = sorted(path.name for path in (tmp_path / "flows").glob("*.flo"))
    assert names == [f"{number:06d}.flo" for number in range(frames - 1)]
    assert count_frames(viz) == frames - 1
    assert rate == pytest.approx(fps, rel=0.01)
    assert cv2.VideoCapture(str(viz)).get(cv2.CAP_PROP_FPS) == pytest.approx(rate, rel=0.001)


@pytest.mark.skipif(not STATM.exists(), reason="resident memory is read from Linux's /proc")
def test_a_long_video_takes_no_more_memory_than_a_short_one(videos, tmp_path):
    estimator = MemoryWatch(SmallFlows())
    summary = estimate_video(
        lambda: estimator,
        videos / "slow_traffic_small.mp4",
        VideoOutputs(folder=tmp_path / "flows", viz=tmp_path / "viz.mp4"),
    )
    assert summary["flows"] == len(list((tmp_path / "flows").glob("*.flo"))) == 913
    # 893 frames of 640 x 360 are 617 MB: were one in twenty of them kept, it would show
    assert max(estimator.resident[20:]) - estimator.resident[20] < 30e6


@pytest.mark.skipif(not STATM.exists(), reason="resident memory is read from Linux's /proc")
def test_the_network_takes_no_more_memory_with_every_frame(tmp_path, real_estimator):
    rng = np.random.default_rng(0)
    frames = tmp_path / "frames"
    frames.mkdir()
    for number in range(120):
        write_image(frames / f"{number}.bmp", rng.integers(0, 256, (128, 128, 3), np.uint8))
    estimator = MemoryWatch(real_estimator)
    estimate_video(lambda: estimator, frames, VideoOutputs(folder=tmp_path / "flows"))
    # 100 flows of 128 x 128 are 13 MB and their features 118 MB: were either kept, it would show
    assert max(estimator.resident[20:]) - estimator.resident[20] < 9e6


def test_a_corrupted_video_keeps_the_flows_before_its_break(videos, tmp_path):
    estimator = SmallFlows()
    flows, viz = tmp_path / "flows", tmp_path / "viz.mp4"
    with pytest.raises(VideoError, match=r"breaks at frame 28 .* what comes before: 27 flows in "):
        outputs = VideoOutputs(folder=flows, viz=viz)
        estimate_video(estimator.load, videos / "corrupted.mp4", outputs)
    assert len(list(flows.glob("*.flo"))) == 27
    assert count_frames(viz) == 27


def test_the_rotated_video_is_upright_at_the_command_line_too(videos, tmp_path):
    source, flows = str(videos / "rot_90.mov"), str(tmp_path / "flows")
    arguments = ["video", source, "-o", flows, "--device", "cpu", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    summary = json.loads(result.stdout)
    assert (summary["width"], summary["height"], summary["flows"]) == (320, 568, 2)
    for number in range(2):
        flow = read_flow(tmp_path / "flows" / f"{number:06d}.flo")
        assert flow.shape == (568, 320, 2)
        assert np.median(lengths(flow)) < 1  # it shows a scene that hardly moves


@pytest.mark.parametrize(("name", "gain"), [("mmflow_demo.mp4", 2), ("cockatoo.mp4", 4)])
def test_the_flow_of_a_real_video_explains_its_next_frame(
    videos, tmp_path, real_estimator, name, gain
):
    with open_frames(videos / name) as source:
        first, second = islice(source, 2)
    write_image(tmp_path / "1.png", first)
    write_image(tmp_path / "2.png", second)
    flow = flow_between(real_estimator, tmp_path / "1.png", tmp_path / "2.png", tmp_path)
    assert difference(first, seen_from_first(second, flow)) < difference(first, second) / gain
