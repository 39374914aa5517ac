"""GIF and WebP animations of flow, read back by Pillow."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageSequence

from pwcflow.color import flow_to_color
from pwcflow.errors import OutputError, VideoError
from pwcflow.image_file import read_image
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video import open_frames
from pwcflow.video_writer import animation, color_writer
from pwcflow.video_writer.animation import ANIMATION_SUFFIXES, ColorAnimationWriter, shows
from tests.fake_estimator import FakeEstimator
from tests.test_video_writer import largest_file, noise

IMAGES = Path(__file__).parents[1] / "images"
both = pytest.mark.parametrize("suffix", ANIMATION_SUFFIXES)


def pictures(count, width=61, height=35):
    """A ball of full colours that moves over white, as a flow field is painted."""
    y, x = np.mgrid[:height, :width]
    for index in range(count):
        dx, dy = x - 10 - 2 * index, y - 15
        inside = np.hypot(dx, dy) < 9
        flow = np.where(inside[..., None], np.stack([dx, dy], -1), 0).astype(np.float32)
        yield flow_to_color(flow, 9.0)


def write(path, images, fps=25.0):
    with color_writer(path, fps) as writer:
        for image in images:
            writer.write(image)
    return writer


def read(path):
    """Return the frames as Pillow sees them, and for how many milliseconds each is shown."""
    with Image.open(path) as image:
        frames, durations = [], []
        for frame in ImageSequence.Iterator(image):
            frames.append(np.array(frame.convert("RGB")))
            durations.append(frame.info["duration"])
        return frames, durations, image.info["loop"]


# GIF has 256 colours; WebP halves the resolution of colour
@pytest.mark.parametrize(("suffix", "most"), [(".gif", 5.0), (".webp", 5.0)])
def test_others_read_every_frame_at_its_own_odd_size_in_its_colours(tmp_path, suffix, most, capfd):
    path = tmp_path / f"flow{suffix}"
    expected = list(pictures(12))
    assert write(path, expected).frames_written == 12
    frames, _, loop = read(path)
    assert len(frames) == 12
    assert loop == 0  # for ever
    for frame, original in zip(frames, expected, strict=True):
        assert frame.shape == (35, 61, 3)
        assert np.abs(frame.astype(int) - original).mean() < most
        assert frame[-3:, -3:].min() >= 252  # white, not a colour near it
    assert list(tmp_path.iterdir()) == [path]
    assert capfd.readouterr() == ("", "")


def test_the_picture_of_the_readme_comes_close_as_a_gif(tmp_path):
    original = read_image(IMAGES / "flow.png")
    write(tmp_path / "a.gif", [original, original[::-1].copy()])
    frames, _, _ = read(tmp_path / "a.gif")
    assert np.abs(frames[0].astype(int) - original).mean() < 3.5


# of the times 0, 1/fps, 2/fps..., each rounded to the unit, the differences
@pytest.mark.parametrize(
    ("suffix", "fps", "durations"),
    [
        (".gif", 25.0, [40] * 6),
        (".gif", 30.0, [30, 40, 30, 30, 40, 30]),
        (".gif", 24000 / 1001, [40, 40, 50, 40, 40, 40]),  # at 4.17 8.34 12.51 16.68 20.85 25.03
        (".gif", 50.0, [20] * 6),
        (".gif", 0.5, [2000] * 6),
        (".webp", 30.0, [33, 34, 33, 33, 34, 33]),
        (".webp", 60.0, [17, 16, 17, 17, 16, 17]),
    ],
)
def test_the_frame_rate_is_kept_to_what_the_format_counts_in(tmp_path, suffix, fps, durations):
    path = tmp_path / f"flow{suffix}"
    write(path, pictures(6), fps)
    assert read(path)[1] == durations


@pytest.mark.parametrize(("suffix", "fps"), [(".gif", 59.94), (".webp", 120.0), (".gif", 0.05)])
def test_a_rate_that_viewers_do_not_play_is_refused_up_front(tmp_path, suffix, fps):
    with pytest.raises(OutputError, match=r"choose a rate from 0\.1 to (50|90) by --fps, or --ste"):
        color_writer(tmp_path / f"flow{suffix}", fps)


@both
@pytest.mark.parametrize("still", [(0, 0, 0, 0), (0, 0, 1, 1, 1, 2), (0, 1, 1), (0,)])
def test_a_scene_at_rest_lasts_as_long_as_its_frames(tmp_path, suffix, still):
    path = tmp_path / f"flow{suffix}"
    shown = list(pictures(3))
    write(path, [shown[index] for index in still])
    assert shows(path.read_bytes(), len(still), 25.0)
    if len(set(still)) > 1:  # else a WebP is a still picture
        assert sum(read(path)[1]) == 40 * len(still)
        assert not shows(path.read_bytes(), len(still) + 1, 25.0)


@both
def test_a_cut_animation_is_not_taken_for_a_whole_one(tmp_path, suffix):
    path = tmp_path / f"flow{suffix}"
    write(path, pictures(5))
    data = path.read_bytes()
    assert shows(data, 5, 25.0)
    for cut in (0, 5, 11, 30, len(data) // 2, len(data) - 1):
        assert not shows(data[:cut], 5, 25.0)


@both
@pytest.mark.parametrize("error", [VideoError("the input broke off"), KeyboardInterrupt()])
def test_frames_before_an_interruption_are_kept(tmp_path, suffix, error):
    def interrupted():
        yield from pictures(4)
        raise error

    path = tmp_path / f"flow{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(type(error)):
        write(path, interrupted())
    assert len(read(path)[0]) == 4
    assert list(tmp_path.iterdir()) == [path]


@both
def test_any_other_exception_leaves_the_old_file_alone(tmp_path, suffix):
    path = tmp_path / f"flow{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), color_writer(path, 25) as writer:
        writer.write(next(pictures(1)))
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@both
def test_a_disk_that_is_full_leaves_the_old_file_alone(tmp_path, suffix):
    path = tmp_path / f"flow{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(OutputError, match="file too large; write to a file"), largest_file(500):
        write(path, noise(3))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@both
def test_without_a_frame_nothing_is_written(tmp_path, suffix):
    write(tmp_path / f"flow{suffix}", [])
    assert list(tmp_path.iterdir()) == []


@both
def test_too_many_frames_for_memory_are_refused_with_what_to_do(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(animation, "_MOST_PIXELS", 5 * 61 * 35 + 7)
    path = tmp_path / f"flow{suffix}"
    write(path, pictures(5))
    before = path.read_bytes()
    with pytest.raises(OutputError, match=r"takes 5 frames at most, and there are 6;"):
        write(path, pictures(6))
    assert path.read_bytes() == before


@pytest.mark.parametrize(("suffix", "longest"), [(".gif", 65535), (".webp", 16383)])
def test_sides_that_no_such_file_has_are_refused(tmp_path, suffix, longest):
    writer = ColorAnimationWriter(tmp_path / f"flow{suffix}", 25)
    writer.check_size(1, longest, None)
    with pytest.raises(OutputError, match=f"{longest + 1} x 1 pixels, and {longest} a side is its"):
        writer.check_size(1, longest + 1, None)


@both
def test_a_frame_of_another_size_is_refused(tmp_path, suffix):
    with pytest.raises(ValueError, match="shape of the first"):
        write(tmp_path / f"flow{suffix}", [*pictures(1), *pictures(1, width=60)])
    assert list(tmp_path.iterdir()) == []


# in a run


def frames_folder(folder, count):
    folder.mkdir()
    for index, picture in enumerate(pictures(count)):
        cv2.imwrite(str(folder / f"{index}.png"), picture[..., ::-1])
    return folder


class Painter(FakeEstimator):
    """Its flows differ from frame to frame."""

    def decode(self, first, second):
        flow = super().decode(first, second)
        flow[:, : self._flows % 20] = 0
        return flow


@both
def test_a_run_writes_an_animation_and_finds_it_done_or_damaged_later(tmp_path, suffix):
    source, viz = frames_folder(tmp_path / "frames", 7), tmp_path / f"flow{suffix}"
    estimator = Painter()

    def run():
        outputs = VideoOutputs(folder=tmp_path / "flows", viz=viz, fps=12.5)
        return estimate_video(estimator.load, source, outputs)["outcome"]

    assert run() == "done"
    whole = viz.read_bytes()
    frames, durations, _ = read(viz)
    assert (len(frames), sum(durations)) == (6, 480)
    assert run() == "skipped"
    viz.write_bytes(whole[:-100])
    assert run() == "done"
    assert viz.read_bytes() == whole
    with open_frames(viz) as again:  # what was written is a video to us, too
        assert len(list(again)) == 6


@both
def test_a_clip_too_long_is_refused_before_anything_is_loaded(tmp_path, suffix, monkeypatch):
    source, estimator = frames_folder(tmp_path / "frames", 7), FakeEstimator()
    monkeypatch.setattr(animation, "_MOST_PIXELS", 5 * 61 * 35)
    viz = tmp_path / f"flow{suffix}"
    with pytest.raises(OutputError, match="takes 5 frames at most, and there are 6; give --end"):
        estimate_video(estimator.load, source, VideoOutputs(viz=viz))
    assert estimator.loads == 0
    assert not viz.exists()
