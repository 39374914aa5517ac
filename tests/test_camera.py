"""A camera, played by a fake one: tests have none."""

from itertools import islice
from pathlib import Path

import cv2
import pytest

from pwcflow.errors import VideoError
from pwcflow.frame_selection import FrameSelection
from pwcflow.video import open_frames
from tests.video_samples import index_of, picture

CAMERA = Path("camera:0")


class FakeCapture:
    """Shows its numbers, for so many frames."""

    frames = 1000
    released = False

    def __init__(self, number):
        self.number, self.grabbed = number, 0

    def isOpened(self):
        return self.number == 0

    def get(self, _):
        return 30.0

    def grab(self):
        self.grabbed += 1
        return self.grabbed <= self.frames

    def retrieve(self):
        return True, picture(self.grabbed - 1)

    def release(self):
        FakeCapture.released = True


@pytest.fixture(autouse=True)
def _fake(monkeypatch):
    monkeypatch.setattr(cv2, "VideoCapture", FakeCapture)


def test_a_camera_gives_frames_up_to_the_end_asked_for():
    with open_frames(CAMERA, FrameSelection(start=2, end=9, step=3)) as source:
        assert [index_of(frame) for frame in source] == [2, 5, 8]
        assert source._capture.grabbed == 9  # no frame is waited for in vain
    assert FakeCapture.released
    assert source.fps == 10
    times = source.timestamps
    assert times == sorted(times)
    assert 0 < times[-1] < 5


def test_a_camera_goes_on_until_it_is_interrupted():
    with open_frames(CAMERA) as source:
        assert [index_of(frame) for frame in islice(source, 100)] == list(range(100))
    assert source.expected_frames is None


def test_a_camera_that_is_not_there_or_goes_away_is_told(monkeypatch):
    with pytest.raises(VideoError, match=r"^camera:7 cannot be opened: there is no such camera"):
        open_frames(Path("camera:7"))
    monkeypatch.setattr(FakeCapture, "frames", 3)
    with (
        pytest.raises(VideoError, match="camera:0 gives no frames any more, after 3"),
        open_frames(CAMERA) as source,
    ):
        list(source)


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CAMERA.write_bytes(b"")
    with pytest.raises(VideoError, match="is empty"):
        open_frames(CAMERA)
