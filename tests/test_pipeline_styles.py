"""Styles of pictures in what `estimate` and `video` write."""

import json

import numpy as np
import pytest
from PIL import Image, ImageSequence

from pwcflow.color import ColorCode
from pwcflow.errors import OutputError, VideoError
from pwcflow.flow_file import read_flow, write_flow
from pwcflow.image_file import read_image, write_image
from pwcflow.pipeline import estimate_pair, estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video_writer import animation
from pwcflow.visualization import Look
from tests.fake_estimator import FakeEstimator
from tests.gray_frames import (
    HEIGHT,
    NEAR,
    WIDTH,
    frames_folder,
    frames_of,
    gray,
    names_in,
    run,
)

# videos and animations


def stripes(folder, shifts, height=49, width=63):
    """Frames of an odd size with a vertical step of gray, which the shifts move to the right."""
    folder.mkdir()
    for number, shift in enumerate(shifts):
        frame = np.full((height, width, 3), 40, np.uint8)
        frame[:, 20 + shift :] = 200
        write_image(folder / f"{number}.png", frame)
    return folder


class KnownMotion(FakeEstimator):
    """Its flow is (4, 0), and what it is given is counted as usual."""

    def decode(self, first, second):
        flow = super().decode(first, second)
        flow[:] = 4, 0
        return flow


@pytest.mark.parametrize(
    ("style", "height", "width"),
    [("wheel", 50, 64), ("side", 50, 126), ("warp", 98, 126), ("arrows", 50, 64)],
)
def test_a_video_of_a_style_has_its_size_made_even(tmp_path, style, height, width):
    source = stripes(tmp_path / "frames", [0, 4, 8])
    run(KnownMotion(), source, viz=tmp_path / "viz.avi", look=Look(style=style))
    _, pictures = frames_of(tmp_path / "viz.avi")
    assert [picture.shape for picture in pictures] == [(height, width, 3)] * 2


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_each_flow_of_a_video_is_shown_with_its_own_two_frames(tmp_path, kept):
    """Also those of an earlier run, whose frames are read again."""
    estimator, source = KnownMotion(), stripes(tmp_path / "frames", [0, 4, 8, 12])
    if kept:
        estimator.fails_at = kept
        with pytest.raises(VideoError, match="no flow here"):
            run(estimator, source, folder=tmp_path / "flows")
        estimator.fails_at = None
    summary = run(
        estimator,
        source,
        folder=tmp_path / "flows",
        viz=tmp_path / "viz.avi",
        look=Look(style="warp"),
    )
    assert (summary["flows"], summary["flows_kept"]) == (3, kept)
    _, pictures = frames_of(tmp_path / "viz.avi")
    assert len(pictures) == 3
    for number, picture in enumerate(pictures):
        edge = 20 + 4 * (number + 1)  # of the second frame
        row = picture[20, :, 0].astype(int)
        assert row[edge - 8 : edge - 3].max() < 90
        assert row[edge + 4 : edge + 9].min() > 150
        # Warped back by 4 px it is where it was in the first frame, and nothing differs.
        assert row[63 + edge - 12 : 63 + edge - 7].max() < 90
        assert row[63 + edge : 63 + edge + 5].min() > 150
        assert picture[49 + 5 : 49 + 45, 63 + 2 : 63 + 55].mean() < 15


class OwnColors(KnownMotion):
    """It paints every flow in one colour."""

    @staticmethod
    def flow_to_color(flow, max_magnitude_px, code):
        assert (max_magnitude_px, code) == (7.0, ColorCode(gamma=2.0))
        return np.full((*flow.shape[:2], 3), (200, 60, 20), np.uint8)


@pytest.mark.parametrize(("style", "left"), [("wheel", 0), ("side", 63)])
def test_the_colours_of_a_video_are_painted_by_its_estimator(tmp_path, style, left):
    source, viz = stripes(tmp_path / "frames", [0, 4, 8]), tmp_path / "viz.avi"
    run(OwnColors(), source, viz=viz, max_flow=7.0, look=Look(style=style, gamma=2.0))
    for picture in frames_of(viz)[1]:
        painted = picture[4:45, left + 4 : left + 59].mean((0, 1))
        np.testing.assert_allclose(painted, (200, 60, 20), atol=NEAR)


def test_a_style_without_frames_holds_none(tmp_path):
    source = frames_folder(tmp_path / "frames", [1, 2, 3])
    outputs = VideoOutputs(viz=tmp_path / "v.avi", look=Look(style="heat"))
    summary = estimate_video(FakeEstimator().load, source, outputs)
    assert (summary["style"], summary["scale"]) == ("heat", "running")


def test_a_video_does_not_know_the_truth(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [1, 2, 3])
    with pytest.raises(ValueError, match="the style error needs --truth"):
        run(estimator, source, viz=tmp_path / "v.avi", look=Look(style="error"))
    assert names_in(tmp_path) == ["frames"]


@pytest.mark.parametrize(
    ("rule", "name", "scales"),
    [
        ("frame", "frame", [80, 8, 1]),
        ("percentile", "running percentile", [80, 80, 80]),
        ("sequence", "running", [100, 100, 100]),
        (50.0, "fixed", None),
    ],
)
def test_the_record_has_the_scale_of_every_picture(tmp_path, estimator, rule, name, scales):
    source = frames_folder(tmp_path / "frames", [80, 0, 0, 0])
    estimator_of = {0: 80, 1: 8, 2: 0}

    class Slowing(FakeEstimator):
        def decode(self, first, second):
            flow = super().decode(first, second)
            flow[:] = estimator_of[self._flows - 1], 0
            return flow

    outputs = {"folder": tmp_path / "flows", "viz": tmp_path / "v.avi", "max_flow": rule}
    summary = run(Slowing(), source, **outputs)
    viz = json.loads((tmp_path / "flows" / "pwcflow.json").read_text())["viz"]
    assert viz.get("max_flow_px_of_pictures") == scales
    last = {"frame": None, "fixed": 50}.get(name, scales and scales[-1])
    assert (viz["scale"], viz["max_flow_px"]) == (name, last)
    assert (summary["scale"], summary["max_flow_px"]) == (name, last)
    again = run(Slowing(), source, **outputs)
    assert again["outcome"] == "skipped"
    assert (again["style"], again["scale"]) == ("wheel", name)


def test_another_look_makes_the_video_anew_and_keeps_the_flows(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [20, 30, 40])
    outputs = {"folder": tmp_path / "flows", "viz": tmp_path / "v.avi"}
    run(estimator, source, **outputs)
    look = Look(background="black", unknown=(255, 0, 255))
    summary = run(estimator, source, **outputs, look=look)
    assert (summary["outcome"], summary["flows_kept"]) == ("done", 2)
    assert run(estimator, source, **outputs, look=look)["outcome"] == "skipped"
    viz = json.loads((tmp_path / "flows" / "pwcflow.json").read_text())["viz"]
    assert (viz["background"], viz["unknown"]) == ("black", "#ff00ff")


def test_an_option_that_is_left_out_the_next_time_makes_the_video_anew(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [20, 30, 40])
    outputs = {"folder": tmp_path / "flows", "viz": tmp_path / "v.avi"}
    run(estimator, source, **outputs, look=Look(gamma=2.0))
    assert run(estimator, source, **outputs)["outcome"] == "done"
    assert run(estimator, source, **outputs)["outcome"] == "skipped"


def test_flows_that_are_there_are_told_without_the_video_that_nobody_asks_for(tmp_path, estimator):
    source, folder = frames_folder(tmp_path / "frames", [20, 30, 40]), tmp_path / "flows"
    run(estimator, source, folder=folder, viz=tmp_path / "v.avi")
    again = run(estimator, source, folder=folder)
    assert again["outcome"] == "skipped"
    assert [again[name] for name in ("viz", "style", "scale", "max_flow_px")] == [None] * 4


@pytest.mark.parametrize("suffix", [".gif", ".webp"])
@pytest.mark.parametrize(
    ("look", "size"),
    [
        (Look(style="side"), (126, 49)),
        (Look(style="warp"), (126, 98)),
        (Look(style="overlay", opacity=0.5), (63, 49)),
        # A unit is 8 px: 7.5 + 2 of them wide, and 3.4 + 1.4 * 8 + 2 high
        (Look(style="heat", noise_floor=0.5), (63 + 76, 133)),
    ],
    ids=lambda value: value.style if isinstance(value, Look) else "",
)
def test_an_animation_of_a_style_has_its_odd_size_and_is_on_record(tmp_path, suffix, look, size):
    source = stripes(tmp_path / "frames", [0, 4, 8])
    outputs = {"folder": tmp_path / "flows", "viz": tmp_path / f"v{suffix}", "look": look}
    run(KnownMotion(), source, **outputs, suffix=".npy")
    with Image.open(tmp_path / f"v{suffix}") as image:
        pictures = [np.array(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]
        assert image.size == size
    # one flow in one colour twice: WebP keeps what looks alike as one picture
    assert len(pictures) == (1 if (look.style, suffix) == ("heat", ".webp") else 2)
    if look.style == "side":  # the first frame at the left: its step is at 20, then at 24
        for picture, edge in zip(pictures, (20, 24), strict=True):
            assert abs(picture[10:40, edge - 9 : edge - 4].astype(int) - 40).max() < 30
            assert abs(picture[10:40, edge + 4 : edge + 9].astype(int) - 200).max() < 30
    record = json.loads((tmp_path / "flows" / "pwcflow.json").read_text())
    scaled = look.style != "warp"
    assert record["suffix"] == ".npy"
    assert record["viz"] == {
        "file": f"../v{suffix}",
        **look.settings(),
        "scale": "running" if scaled else None,
        "asked_px": None,
        "asked_fps": None,
        "max_flow_px": 5.0 if scaled else None,  # a quarter above 4
        "fps": 25.0,
        **({"max_flow_px_of_pictures": [5.0, 5.0]} if scaled else {}),
    }
    assert run(KnownMotion(), source, **outputs, suffix=".npy")["outcome"] == "skipped"


def test_the_bound_of_an_animation_is_that_of_its_pictures(tmp_path, estimator, monkeypatch):
    source = stripes(tmp_path / "frames", [0, 4, 8])
    monkeypatch.setattr(animation, "_MOST_PIXELS", 2 * 49 * 63)
    run(estimator, source, viz=tmp_path / "v.gif")
    loads = estimator.loads
    with pytest.raises(OutputError, match="of 126 x 98 pixels takes 1 frame at most"):
        run(estimator, source, viz=tmp_path / "w.gif", look=Look(style="warp"))
    assert estimator.loads == loads
    assert names_in(tmp_path) == ["frames", "v.gif"]


def test_a_video_without_room_for_its_legend_is_refused_before_anything_is_loaded(
    tmp_path, estimator
):
    source = stripes(tmp_path / "frames", [0, 4, 8])
    with pytest.raises(OutputError, match="63 x 49 pixels has no room for a legend inside"):
        run(
            estimator,
            source,
            folder=tmp_path / "flows",
            viz=tmp_path / "v.mp4",
            look=Look(legend="inside"),
        )
    assert estimator.loads == 0
    assert sorted(tmp_path.rglob("*.*")) == sorted((tmp_path / "frames").iterdir())


# pairs


def test_a_pair_is_shown_with_frames_truth_and_the_flow_back(tmp_path):
    class Straight(FakeEstimator):
        def decode(self, first, second):
            flow = super().decode(first, second)
            flow[:] = 0
            flow[0, 0, 0] = 2 if second[0] > first[0] else -9  # so that the check fails there
            return flow

    first, second = tmp_path / "1.png", tmp_path / "2.png"
    write_image(first, gray(100))
    write_image(second, gray(110))
    write_flow(tmp_path / "t.flo", np.zeros((HEIGHT, WIDTH, 2), np.float32))
    pictures = {}
    for style, truth in (("occlusion", None), ("error", tmp_path / "t.flo"), ("warp", None)):
        viz = tmp_path / f"{style}.png"
        legend = "none" if style == "error" else None
        summary = estimate_pair(
            Straight().load, first, second, output=None, viz=viz, truth=truth,
            look=Look(style=style, legend=legend),
        )  # fmt: skip
        assert (summary["style"], summary["scale"], summary["max_flow_px"]) == (style, None, None)
        # one pixel is off by 2 px, which is no outlier
        assert (summary["end_point_error_px"], summary["outliers"]) == (
            (pytest.approx(2 / (HEIGHT * WIDTH)), 0) if truth else (None, None)
        )
        pictures[style] = read_image(viz)
    # (0, 0) goes to (2, 0), from where nothing comes back: 4 >= 0.01 * 4 + 0.5
    assert tuple(pictures["occlusion"][0, 0]) == (193, 78, 40)  # 100 + 0.6 * (255, 64, 0 - 100)
    assert (pictures["occlusion"][1:] == 100).all()
    assert tuple(pictures["error"][0, 0]) == (224, 243, 248)  # 2 px of 3
    assert tuple(pictures["warp"][HEIGHT + 9, WIDTH + 9]) == (30, 30, 30)


def test_a_legend_without_room_is_told_and_leaves_nothing(tmp_path, estimator):
    for name in ("1.png", "2.png"):
        write_image(tmp_path / name, gray(1, 8, 8))
    images = tmp_path / "1.png", tmp_path / "2.png"
    with pytest.raises(OutputError, match="no room for a legend inside"):
        estimate_pair(
            estimator.load, *images, output=tmp_path / "a.flo", viz=tmp_path / "a.png",
            look=Look(legend="inside"),
        )  # fmt: skip
    assert names_in(tmp_path) == ["1.png", "2.png"]


def test_the_flow_back_is_estimated_once_for_its_file_and_its_picture(tmp_path):
    class Moving(FakeEstimator):
        """By 2 px to the right, and from there by 1 px to the left, or by 2 in the last rows."""

        def decode(self, first, second):
            flow = super().decode(first, second)
            flow[:] = 0
            flow[..., 0] = 2 if second[0] > first[0] else -1
            flow[4:, :, 0] *= 1 if second[0] > first[0] else 2
            return flow

    images = tmp_path / "1.png", tmp_path / "2.png"
    for path, level in zip(images, (100, 110), strict=True):
        write_image(path, gray(level))
    estimator = Moving()
    estimate_pair(
        estimator.load, *images, output=tmp_path / "a.flo", backward=tmp_path / "b.flo",
        viz=tmp_path / "v.png", look=Look(style="occlusion"),
    )  # fmt: skip
    assert estimator.encoded == [100, 110, 110, 100]
    assert read_flow(tmp_path / "b.flo")[[3, 4], 0, 0].tolist() == [-1, -2]
    occluded = (read_image(tmp_path / "v.png") != 100).any(-1)
    assert occluded[:4].all()  # off by 1 px: 1 >= 0.01 * (4 + 1) + 0.5
    assert not occluded[4:, : WIDTH - 2].any()
    assert occluded[:, WIDTH - 2 :].all()  # leads out of the picture


def test_the_picture_of_an_error_replaces_no_half_of_the_truth(tmp_path, estimator):
    write_image(tmp_path / "1.png", gray(30))
    write_flow(tmp_path / "t_x.png", np.zeros((HEIGHT, WIDTH, 2), np.float32), bound=20)
    before = (tmp_path / "t_y.png").read_bytes()
    with pytest.raises(OutputError, match="it is an input"):
        estimate_pair(
            estimator.load, tmp_path / "1.png", tmp_path / "1.png", output=None,
            viz=tmp_path / "t_y.png", truth=tmp_path / "t_x.png", look=Look(style="error"),
        )  # fmt: skip
    assert (tmp_path / "t_y.png").read_bytes() == before
