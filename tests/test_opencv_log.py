import os
import threading

import cv2
import numpy as np
import pytest

from pwcflow.image_file import read_image, write_image
from pwcflow.opencv_log import quiet_codecs, quiet_encoding, quietly, settled_environment
from pwcflow.video import count_frames
from pwcflow.video_writer import ColorVideoWriter

LOGGING = getattr(cv2.utils, "logging", cv2)
FFMPEG_LEVEL = "OPENCV_FFMPEG_LOGLEVEL"
SECONDS = 20  # for what takes milliseconds
IMAGE = np.full((48, 64, 3), 90, np.uint8)


@pytest.fixture(autouse=True)
def settings_are_put_back():
    level = LOGGING.getLogLevel()
    assert level != 0
    yield
    assert LOGGING.getLogLevel() == level
    assert FFMPEG_LEVEL not in os.environ


@pytest.fixture
def changes(monkeypatch):
    """The threads that set or removed FFmpeg's level in the environment of the process."""
    threads = []

    def noting(function):
        def change(name, *value):
            if os.fsdecode(name) == FFMPEG_LEVEL:
                threads.append(threading.current_thread())
            function(name, *value)

        return change

    monkeypatch.setattr(os, "putenv", noting(os.putenv))
    monkeypatch.setattr(os, "unsetenv", noting(os.unsetenv))
    return threads


def in_thread(work):
    """Run `work` in another thread, to its end."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), "the threads wait for each other"


def test_the_first_in_silences_and_the_last_out_restores():
    level = LOGGING.getLogLevel()
    first, second = quiet_encoding(), quiet_encoding()
    first.__enter__()
    assert LOGGING.getLogLevel() == 0
    second.__enter__()
    first.__exit__(None, None, None)
    assert LOGGING.getLogLevel() == 0
    second.__exit__(None, None, None)
    assert LOGGING.getLogLevel() == level


def test_the_level_is_restored_after_an_error():
    level = LOGGING.getLogLevel()
    for block in (quiet_encoding, quiet_codecs, settled_environment):
        with pytest.raises(RuntimeError), block():
            raise RuntimeError
        assert LOGGING.getLogLevel() == level
        assert FFMPEG_LEVEL not in os.environ
    with pytest.raises(ZeroDivisionError):
        quietly(lambda: 1 // 0)
    assert LOGGING.getLogLevel() == level


def test_a_frame_can_be_written_while_an_image_is_decoded():
    def encode():
        with quiet_encoding():
            assert LOGGING.getLogLevel() == 0

    quietly(lambda: in_thread(encode))
    with quiet_encoding():
        assert quietly(LOGGING.getLogLevel) == (0, b"")
        assert LOGGING.getLogLevel() == 0


def test_many_threads_leave_the_settings_as_they_were():
    def work():
        for _ in range(200):
            with quiet_encoding():
                assert LOGGING.getLogLevel() == 0
            with quiet_codecs():
                assert LOGGING.getLogLevel() == 0
                assert FFMPEG_LEVEL in os.environ
            assert quietly(LOGGING.getLogLevel) == (0, b"")

    failures = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", failures.append)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3 * SECONDS)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_encoding_leaves_the_environment_alone(changes):
    with quiet_encoding():
        quietly(int)
    assert changes == []


def test_the_environment_changes_twice_around_a_settled_block(changes):
    with settled_environment():
        assert FFMPEG_LEVEL in os.environ
        with quiet_codecs(), settled_environment(), quiet_codecs(opening_writer=True):
            assert LOGGING.getLogLevel() == 0
        assert len(changes) == 1
    assert len(changes) == 2


def test_threads_that_write_do_not_change_the_environment(tmp_path, changes):
    with ColorVideoWriter(tmp_path / "a.mp4", 25) as writer:
        in_thread(lambda: [writer.write(IMAGE) for _ in range(5)])
    assert changes == [threading.main_thread()] * 2
    assert count_frames(tmp_path / "a.mp4") == 5


def test_a_writer_without_a_block_works_too(tmp_path):
    writer = ColorVideoWriter(tmp_path / "a.mp4", 25)
    writer.write(IMAGE)
    assert FFMPEG_LEVEL not in os.environ
    writer.close()
    assert count_frames(tmp_path / "a.mp4") == 1


@pytest.mark.parametrize("error", [None, RuntimeError(), KeyboardInterrupt()])
def test_a_writer_puts_the_environment_back(tmp_path, error):
    with ColorVideoWriter(tmp_path / "a.mp4", 25) as writer:
        writer.write(IMAGE)
        writer.__exit__(type(error) if error else None, error, None)
        assert FFMPEG_LEVEL not in os.environ


@pytest.mark.parametrize("name", [FFMPEG_LEVEL, "OPENCV_FFMPEG_DEBUG", "OPENCV_LOG_LEVEL"])
def test_a_user_who_has_chosen_a_level_keeps_it(monkeypatch, name):
    level = LOGGING.getLogLevel()
    with monkeypatch.context() as patch:
        patch.setenv(name, "-8")
        before = dict(os.environ)
        for block in (quiet_encoding, quiet_codecs, settled_environment):
            with block():
                assert LOGGING.getLogLevel() == level
                assert dict(os.environ) == before
        assert dict(os.environ) == before


def test_frames_are_written_while_images_are_read(tmp_path):
    write_image(tmp_path / "a.png", IMAGE)
    with ColorVideoWriter(tmp_path / "a.mp4", 25) as writer:
        thread = threading.Thread(target=lambda: [writer.write(IMAGE) for _ in range(50)])
        thread.start()
        for _ in range(50):
            np.testing.assert_array_equal(read_image(tmp_path / "a.png"), IMAGE)
        thread.join(SECONDS)
    assert count_frames(tmp_path / "a.mp4") == 50


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
