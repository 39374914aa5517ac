"""Videos that are read: every frame upright, in order and as RGB, whatever the name; or refused."""

import os
import struct
import subprocess
import sys
import wave
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import VideoError
from pwcflow.frame_selection import FrameSelection
from pwcflow.video import count_frames, open_frames
from pwcflow.video_writer import ColorVideoWriter
from tests.video_samples import (
    CODECS,
    FRAMES,
    HEIGHT,
    WIDTH,
    corner_colours,
    cut,
    index_of,
    patch,
    picture,
    quadrants,
    rotated_video,
    write_video,
)


@pytest.mark.parametrize(
    ("matrix", "size", "corners"),
    [
        ((1, 0, 0, 1), (HEIGHT, WIDTH), "rgb."),
        ((0, 1, -1, 0), (WIDTH, HEIGHT), "br.g"),  # 90 degrees clockwise
        ((-1, 0, 0, -1), (HEIGHT, WIDTH), ".bgr"),  # 180 degrees
        ((0, -1, 1, 0), (WIDTH, HEIGHT), "g.rb"),  # 270 degrees
    ],
)
def test_rotated_video_is_upright_and_has_the_size_a_person_sees(tmp_path, matrix, size, corners):
    with open_frames(rotated_video(tmp_path / "phone.mp4", matrix, frames=3)) as frames:
        seen = list(frames)
    assert [frame.shape for frame in seen] == [(*size, 3)] * 3
    assert {corner_colours(frame) for frame in seen} == {corners}


@pytest.mark.parametrize("suffix", CODECS)
def test_rotated_video_becomes_an_upright_one_with_every_frame(tmp_path, suffix):
    source = rotated_video(tmp_path / "phone.mp4", (0, 1, -1, 0), FRAMES)
    path = tmp_path / f"out{suffix}"
    with open_frames(source) as frames, ColorVideoWriter(path, frames.fps) as writer:
        for frame in frames:
            writer.write(frame)
    with open_frames(path) as frames:
        seen = list(frames)
    assert [frame.shape for frame in seen] == [(WIDTH, HEIGHT, 3)] * FRAMES
    assert {corner_colours(frame) for frame in seen} == {"br.g"}


@pytest.mark.parametrize("suffix", CODECS)
def test_every_frame_arrives_in_order(tmp_path, suffix):
    path = write_video(tmp_path / f"a{suffix}")
    with open_frames(path) as frames:
        seen = [index_of(frame) for frame in frames]
        assert seen == list(range(FRAMES))
        assert frames.expected_frames == FRAMES
        assert frames.fps == 25
        assert frames.path == path
    assert count_frames(path) == FRAMES


def test_frames_are_rgb_uint8_of_their_own_memory(tmp_path):
    with open_frames(write_video(tmp_path / "a.avi", frames=3, draw=quadrants)) as frames:
        seen = list(frames)
    assert all(frame.dtype == np.uint8 and corner_colours(frame) == "rgb." for frame in seen)
    assert not np.shares_memory(seen[0], seen[1])


@pytest.mark.parametrize("length", [0, 90, 100_000])
def test_wrong_frame_count_of_a_webm_changes_nothing(tmp_path, length):
    path = write_video(tmp_path / "a.webm")
    duration = struct.pack(">d", FRAMES / 25 * 1000)
    patch(path, b"\x44\x89\x88" + duration, b"\x44\x89\x88" + struct.pack(">d", length * 40.0))
    with open_frames(path) as frames:
        assert frames.expected_frames != FRAMES
        assert [index_of(frame) for frame in frames] == list(range(FRAMES))


def test_stream_without_a_frame_count_is_read_to_its_end(tmp_path):
    path = tmp_path / "camera.mjpeg"
    stream = [cv2.imencode(".jpg", picture(index))[1].tobytes() for index in range(FRAMES)]
    path.write_bytes(b"".join(stream))
    with open_frames(path) as frames:
        assert frames.expected_frames is None
        assert [index_of(frame) for frame in frames] == list(range(FRAMES))


def test_video_of_one_frame_yields_it(tmp_path):
    with open_frames(write_video(tmp_path / "a.mp4", frames=1)) as frames:
        assert len(list(frames)) == 1


def test_frames_cannot_be_iterated_twice(tmp_path):
    with open_frames(write_video(tmp_path / "a.mp4", frames=2)) as frames:
        assert len(list(frames)) == 2
        with pytest.raises(ValueError, match="only once"):
            next(iter(frames))


@pytest.mark.parametrize(("rate", "fps"), [(1200, None), (0, None), (240, 240.0)])
def test_nonsensical_frame_rate_is_unknown(tmp_path, rate, fps):
    path = write_video(tmp_path / "a.avi", frames=3, fps=240.0)
    scale, old = struct.unpack("<II", path.read_bytes().split(b"vids")[1][16:24])
    patch(path, struct.pack("<II", scale, old), struct.pack("<II", scale, rate * old // 240))
    with open_frames(path) as frames:
        if rate:
            assert frames.fps == fps
        else:  # FFmpeg puts a figure of its own in place of 0
            assert frames.fps is None or 0 < frames.fps <= 1000


def test_colon_in_a_name_is_not_a_protocol(tmp_path, monkeypatch):
    if os.name == "nt":
        pytest.skip("Windows has no such names")
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "take.mp4", frames=2).rename("take:1.mp4")
    assert count_frames(Path("take:1.mp4")) == 2


NOT_UTF8 = "its name or its folder's is not UTF-8, which OpenCV cannot open; rename it"


@pytest.fixture
def latin(tmp_path):
    """A folder whose name is Latin-1, as old archives unpack it."""
    folder = tmp_path / os.fsdecode(b"v\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    return folder


def test_name_that_is_not_utf8_is_refused_instead_of_crashing(tmp_path, latin):
    path = write_video(tmp_path / "a.mp4", frames=2).rename(tmp_path / f"{latin.name}.mp4")
    with pytest.raises(VideoError, match=f"^cannot read .*: {NOT_UTF8}$"):
        open_frames(path)


def test_folder_that_is_not_utf8_is_refused_by_a_relative_name_too(tmp_path, latin, monkeypatch):
    write_video(tmp_path / "a.mp4", frames=2).rename(latin / "a.mp4")
    monkeypatch.chdir(latin)
    with pytest.raises(VideoError, match=NOT_UTF8):
        open_frames(Path("a.mp4"))


@pytest.mark.skipif(os.name == "nt", reason="names on Windows do not depend on the locale")
def test_any_utf8_name_is_read_and_written_without_a_locale(tmp_path):
    write_video(tmp_path / "a.mp4", frames=3).rename(tmp_path / "vidéo.mp4")
    script = (
        "import sys, pathlib\n"
        "from pwcflow.video import count_frames, open_frames\n"
        "from pwcflow.video_writer import ColorVideoWriter\n"
        "source, copy = map(pathlib.Path, sys.argv[1:])\n"
        "with open_frames(source) as frames, ColorVideoWriter(copy, 25) as writer:\n"
        "    for frame in frames:\n"
        "        writer.write(frame)\n"
        "print(sys.getfilesystemencoding(), count_frames(copy))\n"
    )
    names = [str(tmp_path / name) for name in ("vidéo.mp4", "copié.mp4")]
    bare = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", script, *names],
        env={**os.environ, **bare},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.split()[1] == "3"
    assert (tmp_path / "copié.mp4").exists()


def make_pipe(path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no named pipes here")
    os.mkfifo(path)  # reading it would wait for a writer


def make_empty(path):
    path.touch()


def make_text(path):
    path.write_text("hello\n" * 100)


def make_play_list(path):
    write_video(path.with_name("b.mp4"), frames=3)
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nb.mp4\n#EXT-X-ENDLIST\n")


def make_sound(path):
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(16000))


def make_audio_only_mp4(path):
    write_video(path, frames=3)
    patch(path, b"vide", b"soun", after=b"hdlr")


def make_headers_only(path):
    write_video(path)
    cut(path, 0.02)


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (lambda _: None, "a.mp4", "^there is no file .*; check the name and the folder$"),
        (lambda _: None, "a" * 300 + ".mp4", "^cannot read .*: file name too long; check it"),
        (make_pipe, "a.mp4", "not a regular file; save the video to one"),
        (make_empty, "a.mp4", "is empty"),
        (make_text, "a.mp4", "no pictures that OpenCV can decode"),
        (make_text, "notes.txt", "no pictures that OpenCV can decode"),
        (make_play_list, "a.m3u8", "no pictures that OpenCV can decode"),
        (make_sound, "a.wav", "no pictures that OpenCV can decode"),
        (make_audio_only_mp4, "a.mp4", "no pictures that OpenCV can decode|no frame"),
        (make_headers_only, "a.mp4", "is cut off"),
        (make_headers_only, "a.webm", "no frame that can be decoded|no pictures"),
        (make_text, "a.png", "is a still image, and flow needs at least two frames"),
    ],
)
def test_unusable_file_is_explained_in_one_line(tmp_path, capfd, make, name, message):
    path = tmp_path / name
    make(path)
    with pytest.raises(VideoError, match=message) as caught, open_frames(path) as frames:
        list(frames)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at threads as Linux does")
@pytest.mark.parametrize("reader", ["opencv", "av"])
def test_four_threads_decode_however_many_processors_there_are(reader, tmp_path):
    if reader == "av":
        pytest.importorskip("av")
    path = write_video(tmp_path / "a.mkv")
    with open_frames(path, FrameSelection(reader=reader)) as source:
        frames = iter(source)
        assert index_of(next(frames)) == 0
        names = [name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm")]
        decoding = sorted(name for name in names if name.startswith("av:"))
        if not decoding:
            pytest.skip("its FFmpeg gives the threads that decode no names")
        assert decoding == [f"av:mpeg4:df{number}" for number in range(4)]
        assert [index_of(frame) for frame in frames] == list(range(1, FRAMES))
