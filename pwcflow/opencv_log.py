"""Keeps OpenCV and its codecs from writing to stderr what our own messages say in a line."""

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import cv2

# How chatty OpenCV and FFmpeg are is a setting of the process, shared by all threads.
_lock = threading.Lock()
_FFMPEG_LEVEL = "OPENCV_FFMPEG_LOGLEVEL"
_CHOSEN_BY_THE_USER = (_FFMPEG_LEVEL, "OPENCV_FFMPEG_DEBUG", "OPENCV_LOG_LEVEL")
_FFMPEG_SILENT = "-8"
_OPENCV_SILENT = 0
_CODEC_LINE = re.compile(
    rb"(?:libpng (?:warning|error):|Corrupt JPEG data|Premature end of JPEG|Unknown Adobe color"
    rb"|Inconsistent progression|Warning: unknown JFIF|Invalid SOS parameters)[^\n]*\n"
)


@contextmanager
def quiet_decoding() -> Iterator[bytearray]:
    """Keep OpenCV, libjpeg and libpng from writing to stderr inside the block.

    The block is given an empty bytearray; once the block is over, it holds the lines of libjpeg and
    libpng, for libjpeg tells in no other way that it made up pixels. What other threads wrote to
    stderr meanwhile is then passed on. One thread at a time is inside, so keep the block short.
    """
    logging = _opencv_logging()
    complaints = bytearray()
    with _lock:
        level = logging.setLogLevel(_OPENCV_SILENT)
        try:
            with _stderr_held_back() as text:
                yield complaints
        finally:
            logging.setLogLevel(level)
            complaints += b"".join(_CODEC_LINE.findall(text))
            if others := _CODEC_LINE.sub(b"", text):
                with suppress(OSError):
                    os.write(2, others)


@contextmanager
def quiet_codecs(*, opening_writer: bool = False) -> Iterator[None]:
    """Keep OpenCV and FFmpeg from writing to stderr while a video is being opened.

    OpenCV reads FFmpeg's level from the environment at every opening, and the level then holds
    for the decoding that follows, so nothing is changed at import and OpenCV's own settings are
    put back. A user who has set a level in the environment gets the messages. Keep the block
    short: other threads wait to enter it.

    Args:
        opening_writer: also hold back file descriptor 2, because a few complaints about codec tags
            are printed past all levels.
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
                with _stderr_held_back():
                    yield
            else:
                yield
        finally:
            del os.environ[_FFMPEG_LEVEL]
            logging.setLogLevel(level)


@contextmanager
def _stderr_held_back() -> Iterator[bytearray]:
    """Fill a bytearray, at the end of the block, with what went to file descriptor 2 inside it."""
    text = bytearray()
    with tempfile.TemporaryFile() as held:
        try:
            kept = os.dup(2)
        except OSError:  # no stderr, so put back one that leads nowhere
            kept = os.open(os.devnull, os.O_WRONLY)
        os.dup2(held.fileno(), 2)
        try:
            yield text
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            text += held.read()


def _opencv_logging() -> Any:
    """Return the module with OpenCV's log level, which OpenCV 4 has in `cv2` itself."""
    return getattr(cv2.utils, "logging", cv2)
