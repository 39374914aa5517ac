"""Frames out of a pipe."""

import io
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import VideoError
from pwcflow.frame_selection import FrameSelection, RawFormat
from pwcflow.video import STDIN, open_frames
from pwcflow.video.stream import Pipe, stream_source
from tests.video_samples import FRAMES, HEIGHT, WIDTH, index_of, picture, write_video


class Trickle(io.BytesIO):
    """Hands out a few bytes at a time, as a pipe may."""

    def read(self, size=-1):
        return super().read(min(size, 777) if size > 0 else 777)

    read1 = read


def frames_of(data, **selection):
    source = stream_source(STDIN, Pipe(Trickle(data)), FrameSelection(**selection))
    return list(source), source


def raw(layout, width=WIDTH, height=HEIGHT):
    return {"raw": RawFormat(width, height, layout)}


def jpeg(index):
    return cv2.imencode(".jpg", picture(index))[1].tobytes()


def png(index):
    return cv2.imencode(".png", picture(index))[1].tobytes()


def y4m(count, header="YUV4MPEG2 W128 H96 F30000:1001 Ip A1:1 C420jpeg"):
    frames = (cv2.cvtColor(picture(index), cv2.COLOR_RGB2YUV_I420) for index in range(count))
    return header.encode() + b"\n" + b"".join(b"FRAME\n" + frame.tobytes() for frame in frames)


def test_raw_colours_keep_every_value():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 5, 7, 3), np.uint8)
    frames, source = frames_of(pixels.tobytes(), **raw("rgb24", 7, 5))
    assert np.array_equal(frames, pixels)
    assert (source.numbers, source.timestamps, source.fps) == ([0, 1, 2], None, None)
    assert np.array_equal(frames_of(pixels.tobytes(), **raw("bgr24", 7, 5))[0], pixels[..., ::-1])
    gray = frames_of(pixels.tobytes(), **raw("gray", 21, 5))[0]
    assert np.array_equal(gray[1][..., 2], pixels[1].reshape(5, 21))


def test_raw_sixteen_bits_are_little_endian():
    pixels = np.arange(2 * 3 * 4, dtype="<u2").reshape(2, 3, 4) * 1000
    frames, _ = frames_of(pixels.tobytes(), **raw("gray16le", 4, 3))
    assert frames[0].dtype == np.uint16
    assert np.array_equal(frames[1][..., 0], pixels[1])
    deep, _ = frames_of(pixels.tobytes(), **raw("rgb48le", 4, 1))
    assert np.array_equal(deep[1].ravel(), pixels.ravel()[12:])


def test_raw_frames_are_taken_as_those_of_a_video_are():
    data = b"".join(picture(index).tobytes() for index in range(10))
    frames, source = frames_of(data, **raw("rgb24"), start=1, step=4, max_side=64)
    assert [index_of(frame) for frame in frames] == source.numbers == [1, 5, 9]
    assert frames[0].shape == (48, 64, 3)


def test_a_raw_frame_cut_short_is_told():
    with pytest.raises(VideoError, match=r"- ends inside frame 1 .*: 30 of the 105 bytes"):
        frames_of(bytes(135), **raw("rgb24", 7, 5))


def test_a_raw_file_is_read_like_a_pipe(tmp_path):
    path = tmp_path / "clip.yuv"
    path.write_bytes(b"".join(f.tobytes() for f in map(yuv, range(5))))
    with open_frames(path, FrameSelection(**raw("yuv420p"))) as source:
        assert [index_of(frame) for frame in source] == list(range(5))


def yuv(index):
    return cv2.cvtColor(picture(index), cv2.COLOR_RGB2YUV_I420)


@pytest.mark.parametrize("encode", [jpeg, png])
def test_pictures_in_a_row_are_frames(encode):
    data = b"".join(map(encode, range(12)))
    frames, source = frames_of(data)
    assert [index_of(frame) for frame in frames] == list(range(12))
    assert source.timestamps is None


def test_a_preview_inside_a_jpeg_is_no_frame():
    preview = jpeg(200)[:3000]
    extra = b"\xff\xe1" + (len(preview) + 2).to_bytes(2, "big") + preview
    data = b"".join(jpeg(i)[:2] + extra + b"\xff\xff" + jpeg(i)[2:] for i in range(3))
    assert [index_of(frame) for frame in frames_of(data)[0]] == [0, 1, 2]


@pytest.mark.parametrize("encode", [jpeg, png])
def test_a_picture_cut_short_ends_in_an_error_after_the_whole_ones(encode):
    data = b"".join(map(encode, range(3)))[:-40]
    source = stream_source(STDIN, Pipe(Trickle(data)), FrameSelection())
    seen = []
    with pytest.raises(VideoError, match="- breaks at frame 2"):
        seen.extend(map(index_of, source))
    assert seen == [0, 1]


def test_a_picture_of_another_depth_in_a_row_is_told():
    deep = cv2.imencode(".png", picture(2).astype(np.uint16))[1].tobytes()
    source = stream_source(STDIN, Pipe(Trickle(png(0) + png(1) + deep)), FrameSelection())
    seen = []
    with pytest.raises(VideoError, match=r"frame 2 of - holds 16-bit .* before it hold 8-bit"):
        seen.extend(map(index_of, source))
    assert seen == [0, 1]


def test_yuv4mpeg_has_a_rate_and_times():
    frames, source = frames_of(y4m(4))
    assert [index_of(frame) for frame in frames] == [0, 1, 2, 3]
    assert source.fps == pytest.approx(29.97, abs=0.001)
    assert source.timestamps == pytest.approx([0, 0.03337, 0.06673, 0.1001], abs=1e-4)


def test_yuv4mpeg_of_odd_sides_and_of_gray():
    gray = bytes([16, 235, 16]) * 3
    chroma = bytes([128]) * 8
    odd, _ = frames_of(b"YUV4MPEG2 W3 H3 F25:1\nFRAME\n" + gray + chroma)
    mono, _ = frames_of(b"YUV4MPEG2 W3 H3 F25:1 Cmono\nFRAME Xnote\n" + gray)
    expected = np.repeat(np.array([[[0], [255], [0]]] * 3, np.uint8), 3, axis=2)
    assert np.array_equal(odd[0], expected)
    assert np.array_equal(mono[0], expected)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (y4m(2)[:-1], "breaks at frame 1"),
        (y4m(1, "YUV4MPEG2 W128 F25:1"), "header tells no size"),
        (y4m(1, "YUV4MPEG2 W128 H96 F25:1 C444p10"), "of the kind 444p10.*-pix_fmt yuv420p"),
        (b"YUV4MPEG2 W4 H4 F25:1\n", "- has no frame"),
        (y4m(1) + b"garbage\n" * 3000, "breaks at frame 1"),
    ],
)
def test_a_damaged_yuv4mpeg_is_told(data, message):
    with pytest.raises(VideoError, match=message):
        frames_of(data)


SCRIPT = """
import sys
from pathlib import Path
from pwcflow.errors import VideoError
from pwcflow.frame_selection import FrameSelection, parse_raw
from pwcflow.video import open_frames
from tests.video_samples import index_of
raw = parse_raw(sys.argv[1]) if sys.argv[1:] else None
try:
    with open_frames(Path("-"), FrameSelection(raw=raw, end=30)) as source:
        print(*map(index_of, source))
except VideoError as error:
    print(error)
"""


def piped(data, *arguments):
    root = Path(__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        input=data,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert (run.returncode, run.stderr) == (0, b"")
    return run.stdout.decode().strip()


def test_standard_input_takes_raw_frames_pictures_and_whole_videos(tmp_path):
    shown = " ".join(map(str, range(30)))
    pixels = b"".join(picture(index).tobytes() for index in range(FRAMES))
    assert piped(pixels, "128x96:rgb24") == shown
    assert piped(b"".join(map(jpeg, range(FRAMES)))) == shown
    for suffix in (".mkv", ".mp4"):
        assert piped(write_video(tmp_path / f"a{suffix}").read_bytes()) == shown


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "standard input is empty (0 bytes)"),
        (b"hello\n" * 99, "standard input holds no pictures that OpenCV can decode"),
        (bytes(99999), "standard input holds no pictures that OpenCV can decode"),
    ],
)
def test_standard_input_without_a_video_is_told_in_one_line(data, message):
    told = piped(data)
    assert told.startswith(message)
    assert "\n" not in told


def test_a_copy_of_standard_input_does_not_stay(tmp_path, monkeypatch):
    class Input:
        buffer = io.BytesIO(write_video(tmp_path / "a.mkv").read_bytes())
        closed = False
        isatty = staticmethod(lambda: False)

    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setattr(sys, "stdin", Input)
    with open_frames(STDIN) as source:
        assert len(list(place.iterdir())) == 1
        assert len(list(source)) == FRAMES
    assert list(place.iterdir()) == []
