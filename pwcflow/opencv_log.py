"""Keeps OpenCV and its codecs from writing to stderr what our own messages say in a line."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2

# How chatty OpenCV and FFmpeg are is a setting of the process, shared by all threads.
_lock = threading.Lock()
_quiet_decoders = 0
_level_before = 0
_FFMPEG_LEVEL = "OPENCV_FFMPEG_LOGLEVEL"
_CHOSEN_BY_THE_USER = (_FFMPEG_LEVEL, "OPENCV_FFMPEG_DEBUG", "OPENCV_LOG_LEVEL")
_FFMPEG_SILENT = "-8"
_OPENCV_SILENT = 0


@contextmanager
def quiet_decoding() -> Iterator[None]:
    """Silence OpenCV's log inside the block: our own message says the same in a line.

    The level belongs to the process, so the first thread in lowers it and the last one out restores
    it; what other threads log in these milliseconds is lost.
    """
    global _quiet_decoders, _level_before
    logging = _opencv_logging()
    with _lock:
        if _quiet_decoders == 0:
            _level_before = logging.getLogLevel()
            logging.setLogLevel(_OPENCV_SILENT)
        _quiet_decoders += 1
    try:
        yield
    finally:
        with _lock:
            _quiet_decoders -= 1
            if _quiet_decoders == 0:
                logging.setLogLevel(_level_before)


@contextmanager
def quiet_codecs(*, opening_writer: bool = False) -> Iterator[None]:
    """Keep OpenCV and FFmpeg from writing to stderr while a video is being opened.

    OpenCV reads FFmpeg's level from the environment at every opening, and the level then holds
    for the decoding that follows, so nothing is changed at import and OpenCV's own settings are
    put back. A user who has set a level in the environment gets the messages. Keep the block
    short: other threads wait to enter it.

    Args:
        opening_writer: also send file descriptor 2 to nowhere, because a few complaints about
            codec tags are printed past all levels.
    """
    with _lock:
        if any(name in os.environ for name in _CHOSEN_BY_THE_USER):
            yield
            return
        logging = _opencv_logging()
        level = logging.setLogLevel(_OPENCV_SILENT)
        os.environ[_FFMPEG_LEVEL] = _FFMPEG_SILENT
        try:
            if opening_writer:
                with _stderr_to_nowhere():
                    yield
            else:
                yield
        finally:
            del os.environ[_FFMPEG_LEVEL]
            logging.setLogLevel(level)


@contextmanager
def _stderr_to_nowhere() -> Iterator[None]:
    try:
        kept = os.dup(2)
    except OSError:  # no stderr, so nothing to hide
        yield
        return
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _opencv_logging() -> Any:
    """Return the module with OpenCV's log level, which OpenCV 4 has in `cv2` itself."""
    return getattr(cv2.utils, "logging", cv2)
