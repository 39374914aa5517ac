"""Keeps OpenCV and its codecs from writing to stderr what our own messages say in a line."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import cv2

from pwcflow.held_stderr import Result, dropped_stderr, with_complaints

_FFMPEG_LEVEL = "OPENCV_FFMPEG_LOGLEVEL"
_FFMPEG_SILENT = "-16"  # silent as -8 is, FFmpeg's AV_LOG_QUIET, but not what a user would set
_CHOSEN_BY_THE_USER = ("OPENCV_FFMPEG_DEBUG", "OPENCV_LOG_LEVEL")  # and _FFMPEG_LEVEL, if not ours
_OPENCV_SILENT = 0


def quietly(work: Callable[[], Result]) -> tuple[Result, bytes]:
    """Return what `work` returns, and what libjpeg and libpng complained of meanwhile.

    Nothing of that, or of OpenCV's own messages, goes to stderr. `work` decodes or encodes an
    image; several threads may do so at a time. See `with_complaints`, which may call it twice.
    """
    with _opencv_is_silent:
        return with_complaints(work)


@contextmanager
def quiet_codecs(*, opening_writer: bool = False) -> Iterator[None]:
    """Keep OpenCV and FFmpeg from writing to stderr while a video is being opened.

    OpenCV reads FFmpeg's level from the environment at an opening (OpenCV 4 at each, 5 at the
    first), and the level then holds for the decoding that follows, so nothing is changed at import
    and OpenCV's own settings are put back. A user who has set a level in the environment gets the
    messages.

    The environment changes, which no other thread may look at meanwhile: enter the block before
    there are threads, or inside the block of `settled_environment`.

    Args:
        opening_writer: also hold back file descriptor 2, because a few complaints about codec tags
            are printed past all levels. One thread at a time is inside such a block.
    """
    if _the_user_has_chosen():
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_opencv_is_silent)
        stack.enter_context(_ffmpeg_opens_silently)
        if opening_writer:
            stack.enter_context(dropped_stderr())
        yield


@contextmanager
def quiet_encoding() -> Iterator[None]:
    """Keep OpenCV from writing to stderr inside the block, unless the user has set a level.

    Cheap enough for every frame, and safe in every thread: the environment stays as it is.
    """
    if _the_user_has_chosen():
        yield
        return
    with _opencv_is_silent:
        yield


@contextmanager
def settled_environment() -> Iterator[None]:
    """Change the environment for all `quiet_codecs` inside the block, which then need not do so.

    Enter and leave it while no other thread reads the environment. In C, getenv may crash while
    another thread adds a variable, and CUDA calls it at times of its own choosing.
    """
    if _the_user_has_chosen():
        yield
        return
    with _ffmpeg_opens_silently:
        yield


class _Shared:
    """Makes a setting of the process while any thread is inside, and undoes it after the last."""

    def __init__(self, setting: Callable[[], AbstractContextManager[None]]) -> None:
        self._setting = setting
        self._lock = threading.Lock()
        self._inside = 0
        self._undo = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._undo.enter_context(self._setting())
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._undo.close()


@contextmanager
def _opencv_level() -> Iterator[None]:
    logging = _opencv_logging()
    level = logging.setLogLevel(_OPENCV_SILENT)
    try:
        yield
    finally:
        logging.setLogLevel(level)


@contextmanager
def _ffmpeg_level() -> Iterator[None]:
    os.environ[_FFMPEG_LEVEL] = _FFMPEG_SILENT
    try:
        yield
    finally:
        os.environ.pop(_FFMPEG_LEVEL, None)


_opencv_is_silent = _Shared(_opencv_level)
_ffmpeg_opens_silently = _Shared(_ffmpeg_level)


def _the_user_has_chosen() -> bool:
    if os.environ.get(_FFMPEG_LEVEL, _FFMPEG_SILENT) != _FFMPEG_SILENT:
        return True
    return any(name in os.environ for name in _CHOSEN_BY_THE_USER)


def _opencv_logging() -> Any:
    """Return the module with OpenCV's log level, which OpenCV 4 has in `cv2` itself."""
    return getattr(cv2.utils, "logging", cv2)
