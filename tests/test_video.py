import os
import struct
import subprocess
import sys
import wave
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import ImageError, VideoError
from pwcflow.opencv_log import quiet_codecs
from pwcflow.video import count_frames, open_frames
from pwcflow.video_writer import ColorVideoWriter
from tests.video_samples import (
    CODECS,
    FRAMES,
    HEIGHT,
    WIDTH,
    corner_colours,
    cut,
    index_in_front,
    index_of,
    patch,
    picture,
    quadrants,
    rotated_video,
    write_video,
)


def indices(path):
    """The indices seen before the end, and the error that ended it, if any."""
    seen = []
    with open_frames(path) as frames:
        try:
            seen.extend(index_of(frame) for frame in frames)
        except VideoError as error:
            return seen, str(error)
    return seen, None


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


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("suffix", CODECS)
def test_truncated_video_gives_its_good_frames_and_then_an_error(tmp_path, suffix, share):
    path = write_video(tmp_path / f"a{suffix}")
    if suffix in (".mp4", ".mov"):
        index_in_front(path)
        assert indices(path) == (list(range(FRAMES)), None)
    cut(path, share)
    seen, error = indices(path)
    assert 0 < len(seen) < FRAMES
    assert seen == list(range(len(seen)))
    assert f"breaks at frame {len(seen)}" in error
    assert "\n" not in error


@pytest.mark.parametrize("suffix", CODECS)
def test_video_with_a_tail_of_zeros_ends_in_an_error(tmp_path, suffix):
    path = write_video(tmp_path / f"a{suffix}")
    if suffix in (".mp4", ".mov"):
        index_in_front(path)
    data = path.read_bytes()  # a download that reserved its space and then broke off
    path.write_bytes(data[: int(len(data) * 0.6)].ljust(len(data), b"\0"))
    seen, error = indices(path)
    assert 0 < len(seen) < FRAMES
    assert f"breaks at frame {len(seen)}" in error


def test_truncated_mp4_with_its_index_at_the_end_is_said_to_be_cut_off(tmp_path):
    path = write_video(tmp_path / "a.mp4")
    cut(path, 0.9)
    with pytest.raises(VideoError, match=r"a\.mp4 is cut off: the index"):
        open_frames(path)


def test_avi_that_lost_only_its_index_is_complete(tmp_path):
    path = write_video(tmp_path / "a.avi")
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"idx1") + 20])
    assert indices(path) == (list(range(FRAMES)), None)


@pytest.mark.parametrize("fill", [None, b"\0"], ids=["cut", "zeros"])
@pytest.mark.parametrize("extra", [-2, 0, 3, 8, 9, 40, 700])
def test_avi_keeps_the_whole_frames_around_a_cut(tmp_path, extra, fill):
    path = write_video(tmp_path / "a.avi")
    data = path.read_bytes()
    header = data.index(b"movi")
    for _ in range(21):
        header = data.index(b"00dc", header + 1)
    start = data[: header + extra]
    path.write_bytes(start.ljust(len(data), fill) if fill else start)
    seen, error = indices(path)
    assert seen == list(range(20 if extra >= 0 else 19))
    assert f"breaks at frame {len(seen)} of {FRAMES}" in error


def test_one_undecodable_packet_is_not_skipped(tmp_path):
    path = write_video(tmp_path / "a.mp4")
    data = bytearray(path.read_bytes())
    table = data.index(b"stsz") + 16
    sizes = struct.unpack_from(f">{FRAMES}I", data, table)
    start = data.index(b"mdat") + 4 + sum(sizes[:20])
    data[start : start + sizes[20]] = bytes(sizes[20])
    path.write_bytes(data)
    seen, error = indices(path)
    assert seen == list(range(20))
    assert f"breaks at frame 20 of {FRAMES}" in error


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


def test_sample_table_that_promises_more_than_there_is_ends_in_an_error(tmp_path):
    path = index_in_front(write_video(tmp_path / "a.mp4"))
    data = path.read_bytes()
    start = data.index(b"mdat") - 4  # a length of 0 means "to the end of the file"
    path.write_bytes((data[:start] + bytes(4) + data[start + 4 :])[: int(len(data) * 0.7)])
    seen, error = indices(path)
    assert 0 < len(seen) < FRAMES
    assert f"breaks at frame {len(seen)} of {FRAMES}" in error


def test_mp4_shortened_by_its_edit_list_is_sound(tmp_path):
    path = write_video(tmp_path / "a.mp4")
    data = path.read_bytes()
    start = data.index(b"elst") + 12
    units = struct.unpack_from(">I", data, start)[0]
    edited = struct.pack(">I", units * 25 // FRAMES)
    path.write_bytes(data[:start] + edited + data[start + 4 :])
    seen, error = indices(path)
    assert error is None
    assert seen == list(range(len(seen)))
    assert 25 <= len(seen) <= 27 < FRAMES


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


@pytest.mark.parametrize("suffix", CODECS)
def test_decoders_do_not_write_to_stderr_over_a_damaged_video(tmp_path, capfd, suffix):
    path = write_video(tmp_path / f"a{suffix}")
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 2, len(data) * 4 // 5, 97):
        data[place] = 0
    path.write_bytes(data)
    indices(path)
    assert capfd.readouterr() == ("", "")


def test_quiet_codecs_puts_the_settings_back(monkeypatch):
    logging = getattr(cv2.utils, "logging", cv2)
    level = logging.getLogLevel()
    with quiet_codecs():
        assert logging.getLogLevel() == 0
    assert logging.getLogLevel() == level
    assert "OPENCV_FFMPEG_LOGLEVEL" not in os.environ
    monkeypatch.setenv("OPENCV_FFMPEG_LOGLEVEL", "32")
    with quiet_codecs():
        assert logging.getLogLevel() == level
        assert os.environ["OPENCV_FFMPEG_LOGLEVEL"] == "32"


def test_folder_is_read_in_natural_order_without_its_other_files(tmp_path):
    for index in (10, 2, 1, 33):
        cv2.imwrite(str(tmp_path / f"frame{index}.png"), picture(index))
    cv2.imwrite(str(tmp_path / "frame4.BMP"), picture(4))
    (tmp_path / "notes.txt").write_text("not a frame")
    (tmp_path / "._frame1.png").write_bytes(b"left by a Mac")
    (tmp_path / "frame3.png").mkdir()
    with open_frames(tmp_path) as frames:
        assert frames.fps is None
        assert frames.expected_frames == 5
        assert [index_of(frame) for frame in frames] == [1, 2, 4, 10, 33]


def test_folder_of_16_bit_images_keeps_its_bits(tmp_path):
    for index in range(2):
        cv2.imwrite(str(tmp_path / f"{index}.png"), np.full((8, 9, 3), 1000 + index, np.uint16))
    with open_frames(tmp_path) as frames:
        assert [(frame.dtype, int(frame.max())) for frame in frames] == [
            (np.uint16, 1000),
            (np.uint16, 1001),
        ]


def test_folder_without_images_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(VideoError, match=r"holds no images; .*\.png"):
        open_frames(tmp_path)


def test_frame_of_another_size_in_a_folder_is_named_with_both_sizes(tmp_path):
    cv2.imwrite(str(tmp_path / "1.png"), picture(1))
    cv2.imwrite(str(tmp_path / "2.png"), picture(2, width=50, height=40))
    with open_frames(tmp_path) as source, pytest.raises(VideoError) as caught:
        frames = iter(source)
        assert index_of(next(frames)) == 1
        next(frames)
    assert all(text in str(caught.value) for text in ("2.png", "50 x 40", f"{WIDTH} x {HEIGHT}"))


def test_damaged_image_in_a_folder_is_named(tmp_path):
    cv2.imwrite(str(tmp_path / "1.png"), picture(1))
    (tmp_path / "2.png").touch()
    with open_frames(tmp_path) as frames, pytest.raises(ImageError, match=r"2\.png"):
        list(frames)
