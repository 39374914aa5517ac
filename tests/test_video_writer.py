import os
from contextlib import contextmanager, suppress

import cv2
import numpy as np
import pytest

from pwcflow.errors import OutputError, VideoError
from pwcflow.video import open_frames
from pwcflow.video_writer import CODEC_SUFFIXES, ColorVideoWriter, check_video_suffix, video

FRAMES = 12


def picture(index, width=101, height=75):
    """One colour a frame; a bright last column and last row."""
    image = np.full((height, width, 3), (20 * index, 100, 220 - 20 * index), np.uint8)
    image[:, -1] = image[-1] = 250
    return image


def write(path, frames=FRAMES, size=(101, 75)):
    with ColorVideoWriter(path, 25.0) as writer:
        for index in range(frames):
            writer.write(picture(index, *size))
    return writer


def write_all(path, images):
    with ColorVideoWriter(path, 25) as writer:
        for image in images:
            writer.write(image)


def noise(frames):
    """Pictures that no codec makes small."""
    rng = np.random.default_rng(0)
    return (rng.integers(0, 256, (128, 128, 3), np.uint8) for _ in range(frames))


def interrupted(frames, error):
    yield from map(picture, range(frames))
    raise error


def read(path):
    with open_frames(path) as frames:
        return list(frames)


@pytest.mark.parametrize("suffix", CODEC_SUFFIXES)
def test_output_video_of_an_odd_size_is_reopened_and_has_every_frame(tmp_path, capfd, suffix):
    path = tmp_path / f"flow{suffix}"
    assert write(path).frames_written == FRAMES
    seen = read(path)
    assert [frame.shape for frame in seen] == [(76, 102, 3)] * FRAMES
    for index, frame in enumerate(seen):
        np.testing.assert_allclose(frame[20, 20], picture(index)[20, 20], atol=25)
        assert frame[20, 100:].min() > 150  # the last column, and its copy
        assert frame[74:, 20].min() > 150
    assert list(tmp_path.iterdir()) == [path]
    assert capfd.readouterr() == ("", "")


def test_missing_codecs_are_an_error_and_leave_no_file(tmp_path, capfd, monkeypatch):
    monkeypatch.setitem(video._CODECS, ".webm", ("zzzz", "FFV1"))  # one unknown, one not ours
    with pytest.raises(OutputError, match="no encoder zzzz or FFV1 for 102 x 76"):
        write(tmp_path / "flow.webm")
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_second_codec_is_taken_when_the_first_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(video._CODECS, ".avi", ("zzzz", "MJPG"))
    write(tmp_path / "flow.avi")
    assert len(read(tmp_path / "flow.avi")) == FRAMES


def test_a_codec_that_is_tried_out_first_leaves_nothing_of_the_trial(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "_TRIED_OUT", "mp4v")
    monkeypatch.setitem(video._CODECS, ".mkv", ("mp4v", "zzzz"))
    write(tmp_path / "flow.mkv")
    seen = read(tmp_path / "flow.mkv")
    assert len(seen) == FRAMES
    np.testing.assert_allclose(seen[0][20, 20], picture(0)[20, 20], atol=25)


def test_h264_is_written_whole_or_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(video._CODECS, ".mp4", ("avc1",))
    path = tmp_path / "flow.mp4"
    with suppress(OutputError):
        write(path)
    assert len(read(path)) == FRAMES if path.exists() else list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", CODEC_SUFFIXES)
@pytest.mark.parametrize("size", [(1, 1), (4, 4), (3, 40), (17, 16)])
def test_tiny_frames_are_padded_instead_of_crashing_the_encoder(tmp_path, suffix, size):
    path = tmp_path / f"flow{suffix}"
    write(path, size=size)
    width, height = (max(16, side + side % 2) for side in size)
    assert [frame.shape for frame in read(path)] == [(height, width, 3)] * FRAMES


@pytest.mark.parametrize("fps", [0.1, 24000 / 1001, 60000 / 1001, 1000 / 3, 999.99])
@pytest.mark.parametrize("suffix", CODEC_SUFFIXES)
def test_frame_rate_survives(tmp_path, suffix, fps):
    path = tmp_path / f"flow{suffix}"
    with ColorVideoWriter(path, fps) as writer:
        for index in range(FRAMES):
            writer.write(picture(index))
    with open_frames(path) as frames:
        assert frames.fps == pytest.approx(fps, rel=2e-3)
        assert len(list(frames)) == FRAMES


def test_frame_of_another_size_is_refused_and_removes_the_file(tmp_path):
    path = tmp_path / "flow.mp4"
    with pytest.raises(ValueError, match="shape of the first"):
        write_all(path, [picture(0), picture(1, width=202)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "image",
    [np.zeros((9, 9), np.uint8), np.zeros((9, 9, 4), np.uint8), np.zeros((9, 9, 3), np.float32)],
    ids=lambda image: f"{image.shape} {image.dtype}",
)
def test_array_that_is_no_frame_is_refused(tmp_path, image):
    with (
        pytest.raises(ValueError, match="a frame is"),
        ColorVideoWriter(tmp_path / "a.mp4", 5) as w,
    ):
        w.write(image)


@pytest.mark.parametrize("error", [VideoError("the input broke off"), KeyboardInterrupt()])
def test_frames_before_an_interruption_are_kept(tmp_path, error):
    path = tmp_path / "flow.mp4"
    path.write_bytes(b"old")
    with pytest.raises(type(error)):
        write_all(path, interrupted(5, error))
    assert len(read(path)) == 5
    assert list(tmp_path.iterdir()) == [path]


def test_any_other_exception_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "flow.mp4"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError):
        write_all(path, interrupted(1, RuntimeError()))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_behind_without_a_frame(tmp_path):
    assert write(tmp_path / "flow.mp4", frames=0).frames_written == 0
    assert list(tmp_path.iterdir()) == []


def test_frames_lost_on_disk_are_noticed_and_the_old_file_stays(tmp_path):
    path = tmp_path / "flow.avi"
    path.write_bytes(b"old")
    writer = ColorVideoWriter(path, 25)
    for index in range(FRAMES):
        writer.write(picture(index))
    (temporary,) = tmp_path.glob(".*.avi")
    temporary.unlink()  # as if the disk had refused the data
    write_all(temporary, [picture(0)] * 3)
    with pytest.raises(OutputError, match=f"{FRAMES} frames went in but 3 can be read back"):
        writer.close()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_removed_meanwhile_is_told(tmp_path):
    path = tmp_path / "flow.mp4"
    writer = ColorVideoWriter(path, 25)
    writer.write(picture(0))
    for name in tmp_path.iterdir():
        name.unlink()
    with pytest.raises(OutputError) as caught:
        writer.close()
    told = f"what was written of it in {tmp_path} was removed meanwhile; write it again"
    assert str(caught.value) == f"cannot write {path}: {told}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["flow.mpeg4", "flow", "flow.png", ".mp4"])
def test_unknown_suffix_is_refused_up_front(tmp_path, name):
    with pytest.raises(OutputError, match=r"not a video format .* \.mp4"):
        check_video_suffix(tmp_path / name)
    with pytest.raises(OutputError):
        ColorVideoWriter(tmp_path / name, 25)


def test_suffix_in_capitals_is_a_video(tmp_path):
    check_video_suffix(tmp_path / "FLOW.MP4")


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf"), 5000.0, 1e-3])
def test_frame_rate_no_encoder_can_take_is_refused_up_front(tmp_path, fps):
    with pytest.raises(OutputError, match="choose a rate from"):
        ColorVideoWriter(tmp_path / "flow.mp4", fps)


def test_missing_folder_is_an_error(tmp_path):
    with pytest.raises(OutputError, match="does not exist"):
        write(tmp_path / "nowhere" / "flow.mp4")


@contextmanager
def largest_file(size):
    """Let the system refuse to make files larger than that, as it does on a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_refusal_of_the_system_is_the_reason_given(tmp_path):
    with (
        pytest.raises(OutputError, match="file too large; write to a file system that takes"),
        largest_file(0),
    ):
        write(tmp_path / "flow.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", CODEC_SUFFIXES)
def test_disk_that_fills_up_is_told_once(tmp_path, capfd, suffix):
    with pytest.raises(OutputError, match="check the free space"), largest_file(20_000):
        write_all(tmp_path / f"flow{suffix}", noise(60))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_folder_that_is_not_utf8_is_refused_instead_of_crashing(tmp_path):
    folder = tmp_path / os.fsdecode(b"v\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(OutputError, match=r"^cannot write .*flow\.mp4: its name .* is not UTF-8"):
        write(folder / "flow.mp4")
    assert list(folder.iterdir()) == []


def test_written_red_is_read_as_red(tmp_path):
    path = tmp_path / "flow.mp4"
    with ColorVideoWriter(path, 25) as writer:
        writer.write(np.full((64, 64, 3), (250, 10, 10), np.uint8))
    capture = cv2.VideoCapture(str(path))
    blue, _, red = capture.read()[1][32, 32]
    capture.release()
    assert red > 200 > 60 > blue
