"""Frames taken of tiny videos and folders, each of which shows its own number."""

import cv2
import numpy as np
import pytest

from pwcflow.errors import VideoError
from pwcflow.frame_selection import FrameSelection, RawFormat
from pwcflow.video import open_frames
from pwcflow.video.resize import resized
from tests.video_samples import (
    HEIGHT,
    WIDTH,
    index_of,
    interlaced_video,
    patch,
    picture,
    write_video,
)

FPS = 25.0


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("clips") / "clip.mkv", fps=FPS)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "frames"
    folder.mkdir()
    for index in range(6):
        cv2.imwrite(str(folder / f"{index}.png"), picture(index))
    return folder


def taken(path, **selection):
    """The numbers that the frames show, and the source after them."""
    with open_frames(path, FrameSelection(**selection)) as source:
        seen = [index_of(frame) for frame in source]
    assert source.numbers == seen
    return seen, source


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, range(40)),
        ({"start": 37}, range(37, 40)),
        ({"end": 3}, range(3)),
        ({"start": 5, "end": 20, "step": 6}, [5, 11, 17]),
        ({"start": 5, "end": 17, "step": 6}, [5, 11]),
        ({"step": 13}, [0, 13, 26, 39]),
        ({"end": 1000}, range(40)),
        ({"start": 1.4}, range(35, 40)),  # frame 35 is at 35 / 25 = 1.4 s
        ({"start": 1.41}, range(36, 40)),
        ({"end": 0.08}, [0, 1]),
        ({"start": 0.2, "end": 0.5, "step": 3}, [5, 8, 11]),  # frames 5 to 12
        ({"start": 10, "end": 0.52}, [10, 11, 12]),
    ],
    ids=str,
)
def test_start_end_and_step_take_the_frames_that_arithmetic_says(clip, selection, expected):
    seen, source = taken(clip, **selection)
    assert seen == list(expected)
    assert source.timestamps == pytest.approx([number / FPS for number in expected], abs=1e-3)
    assert source.expected_frames == len(seen)
    assert source.fps == FPS / selection.get("step", 1)


def test_times_are_those_of_the_pictures_where_the_rate_varies(tmp_path):
    path = write_video(tmp_path / "a.mkv", frames=12)
    data = bytearray(path.read_bytes())
    times, place = [], data.index(b"\x1f\x43\xb6\x75")
    for index in range(12):  # simple blocks of track 1: a time of 16 bits, in ms
        place = next(
            at
            for at in range(place, len(data))
            if data[at] == 0x81 and int.from_bytes(data[at + 1 : at + 3], "big") == index * 40
            and data[at + 3] in (0, 0x80)
        )  # fmt: skip
        times.append(index * 40 if index < 6 else index * 100)
        data[place + 1 : place + 3] = times[-1].to_bytes(2, "big")
        place += 4
    path.write_bytes(data)
    seen, source = taken(path)
    assert seen == list(range(12))
    assert source.timestamps == pytest.approx([time / 1000 for time in times])
    assert taken(path, start=0.7)[0] == [7, 8, 9, 10, 11]


def test_a_folder_has_numbers_but_no_times(folder):
    seen, source = taken(folder, start=1, step=2)
    assert seen == [1, 3, 5]
    assert (source.timestamps, source.fps, source.expected_frames) == (None, None, 3)
    with pytest.raises(VideoError, match=r"does not tell the times .* as numbers"):
        open_frames(folder, FrameSelection(start=0.5))


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (
            {"start": 40},
            r"--start 40 is beyond the end of .*, which has 40 frames, the last",
        ),
        ({"start": 5.0}, "--start 5s is beyond the end of"),
        ({"start": 20, "end": 0.1}, r"no frame of .* lies between --start 20 and --end 0.1s"),
        ({"start": 39}, "take only frame 39 of .*; flow needs two"),
        ({"end": 1}, "take only frame 0 of"),
        ({"step": 40}, "take only frame 0 of"),
    ],
)
def test_a_selection_that_leaves_no_pair_is_told_in_one_line(clip, selection, message):
    with pytest.raises(VideoError, match=message) as caught:
        taken(clip, **selection)
    assert "\n" not in str(caught.value)


def test_damage_before_the_start_is_told_and_damage_after_the_end_is_not_met(tmp_path):
    path = write_video(tmp_path / "a.mkv")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(VideoError, match="breaks at frame"):
        taken(path, start=35)
    assert taken(path, end=10)[0] == list(range(10))


def test_frames_are_resized_and_the_record_says_so(clip):
    with open_frames(clip, FrameSelection(end=3, scale=0.5)) as source:
        frames = list(source)
    assert [frame.shape for frame in frames] == [(HEIGHT // 2, WIDTH // 2, 3)] * 3
    assert [index_of(frame) for frame in frames] == [0, 1, 2]
    assert source.original_size == (WIDTH, HEIGHT)
    assert source.provenance() == {
        "reader": "opencv",
        "end": "3",
        "scale": 0.5,
        "resized_from": "128x96",
        "resized_to": "64x48",
    }


def test_a_longest_side_keeps_the_aspect_and_never_enlarges(clip):
    for side, shape in ((64, (48, 64, 3)), (500, (HEIGHT, WIDTH, 3))):
        with open_frames(clip, FrameSelection(end=2, max_side=side)) as source:
            assert {frame.shape for frame in source} == {shape}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_shrinking_takes_the_mean_of_areas(dtype):
    checks = np.indices((8, 12)).sum(0) % 2  # skipping every other pixel would see one of the two
    image = np.repeat((checks * 200)[..., None], 3, axis=2).astype(dtype)
    small = resized(image, 6, 4)
    assert (small.shape, small.dtype) == ((4, 6, 3), dtype)
    assert (small == 100).all()


def test_one_axis_may_shrink_while_the_other_grows():
    image = np.zeros((2, 8, 3), np.uint8)
    image[:, ::2] = 100
    wide = resized(image, 4, 6)
    assert wide.shape == (6, 4, 3)
    assert (wide == 50).all()
    assert resized(image, 8, 2) is image


def test_interlaced_video_is_told_instead_of_garbled(tmp_path, monkeypatch):
    path = interlaced_video(tmp_path / "a.avi")
    monkeypatch.setattr("pwcflow.video.open.pyav_is_here", lambda: False)
    if tuple(map(int, cv2.__version__.split(".")[:2])) < (4, 13):
        assert taken(path)[0] == list(range(6))
        return
    told = "is interlaced, which this OpenCV cannot decode"
    with pytest.raises(VideoError, match=f"{told}; PyAV can: run pip install av"):
        taken(path)
    with pytest.raises(VideoError, match=told):
        taken(path, reader="opencv")
    seen = []
    with (
        pytest.raises(VideoError, match=f"{told}; add --reader av") as caught,
        open_frames(interlaced_video(tmp_path / "b.avi", first=3)) as source,
    ):
        seen.extend(map(index_of, source))
    assert len(seen) > 1
    assert seen == list(range(len(seen)))
    assert f"frame {len(seen)} of" in str(caught.value)


def test_pictures_that_repeat_are_not_taken_for_interlaced_ones(tmp_path):
    path = write_video(tmp_path / "a.avi", frames=5, draw=lambda _: picture(7))
    still = np.full((HEIGHT, WIDTH, 3), 50, np.uint8)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 25, (WIDTH, HEIGHT))
    for _ in range(5):
        writer.write(still)
    writer.release()
    assert len(taken_frames(path)) == 5


def taken_frames(path):
    with open_frames(path) as source:
        return list(source)


def test_av1_without_a_decoder_is_told_with_what_to_install(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.mkv", frames=4)
    patch(path, b"V_MPEG4/ISO/ASP", b"V_AV1".ljust(15, b"\0"))
    monkeypatch.setattr("pwcflow.video.open.pyav_is_here", lambda: False)
    with pytest.raises(VideoError, match=r"is AV1, which this OpenCV cannot decode; PyAV can: run"):
        taken(path)


@pytest.mark.parametrize(
    "selection", [{"size": (99_999, 99_999)}, {"scale": 1e9}, {"scale": 1e308}]
)
def test_frames_too_large_for_any_memory_are_refused(clip, selection):
    message = r"would become .* more than 268 million"
    with (
        open_frames(clip, FrameSelection(**selection)) as source,
        pytest.raises(VideoError, match=message),
    ):
        next(iter(source))


def test_raw_frames_come_from_no_folder(folder):
    with pytest.raises(VideoError, match="--raw is for a file"):
        open_frames(folder, FrameSelection(raw=RawFormat(8, 8, "gray")))
