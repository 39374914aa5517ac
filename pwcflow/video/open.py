"""Frames of anything that has them, one at a time in constant memory.

Sizes, rotation and length are those of the decoded frames: what a container's header announces
is often wrong and serves a progress bar at most.
"""

import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from pwcflow.errors import VideoError, reason_of
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.image_file import IMAGE_SUFFIXES
from pwcflow.image_file.animation import picture_count
from pwcflow.video.camera import Camera, camera_number
from pwcflow.video.encoded import why_not_a_video
from pwcflow.video.frame_files import (
    Animation,
    folder_source,
    is_animation,
    is_pattern,
    pages_source,
    pattern_source,
)
from pwcflow.video.opencv import OpencvVideo
from pwcflow.video.pyav import PyavVideo, pyav_is_here
from pwcflow.video.source import FrameSource
from pwcflow.video.stream import Pipe, stream_source

STDIN = Path("-")
"""Stands for standard input."""

_STDIN_NAME = Path("standard input")

_TIFF_SUFFIXES = (".tif", ".tiff")
_PNG = b"\x89PNG"


def open_frames(path: Path, selection: FrameSelection = ALL_FRAMES) -> FrameSource:
    """Return the frames that a name stands for.

    It may be a video file, a folder of images, a pattern of their names with `%04d` or `*`, a TIFF
    of several pages, an animated GIF, PNG, WebP or AVIF, `camera:0`, or `-` for standard input.
    A file or folder of just that name comes first.

    A video whose pictures change their size on the way is noticed by the reader `av` only: OpenCV
    rescales all of them to the first size, and tells of no other.

    Raises:
        VideoError: nothing there, no images in the folder, not a video, a still image, a pipe or
            device, no pictures in it, or a name that OpenCV cannot open.
    """
    with _explained(path):
        if path == STDIN:
            return _standard_input(selection)
        if not path.exists():
            if (number := camera_number(path)) is not None:
                return Camera(path, number, selection)
            if is_pattern(path):
                return pattern_source(path, selection)
        mode = path.stat().st_mode
        if selection.raw and not stat.S_ISREG(mode):
            raise VideoError(
                f"--raw is for a file of frames without a header, but {path} is none; leave it out"
            )
        if stat.S_ISDIR(mode):
            return folder_source(path, selection)
        if not stat.S_ISREG(mode):  # reading a pipe may wait for ever
            raise VideoError(
                f"{path} is not a regular file; save the video to one, or give a folder of frames, "
                "- for standard input, or camera:0"
            )
        if selection.raw:
            return _raw_file(path, selection)
        if path.suffix.lower() in IMAGE_SUFFIXES:
            return _moving_image(path, selection)
        return _video(path, selection)


def count_frames(path: Path) -> int:
    """Return how many frames of a video file can be decoded, without a look at what is missing.

    Raises:
        VideoError: it cannot be opened.
    """
    with _explained(path):
        _check_start(path, path)
        video = OpencvVideo(path)
    with video:
        return sum(1 for _ in iter(video.grab, False))


def _video(path: Path, selection: FrameSelection, file: Path | None = None) -> FrameSource:
    """Return the frames of a video file, which is named `path` and found at `file`."""
    _check_start(path, file or path)
    if selection.reader == "av":
        return PyavVideo(path, selection, file)
    video = OpencvVideo(path, selection, file)
    why_not = video.why_not()
    if why_not is None:
        return video
    video.__exit__()
    if selection.reader == "auto" and pyav_is_here():
        return PyavVideo(path, selection, file)
    how = "give --reader av" if pyav_is_here() else "run pip install av, and then this again"
    raise VideoError(f"{why_not}; PyAV can: {how}")


def _moving_image(path: Path, selection: FrameSelection) -> FrameSource:
    """Return the frames of an image file, if it has several."""
    start = _first_bytes(path)
    if is_animation(start):
        return Animation(path, selection)
    if start.startswith(_PNG) and picture_count(path.read_bytes()) > 1:
        return OpencvVideo(path, selection)
    pages = pages_source(path, selection) if path.suffix.lower() in _TIFF_SUFFIXES else None
    if pages:
        return pages
    raise VideoError(
        f"{path} is a still image, and flow needs at least two frames; give a video, a "
        "folder of frames, or two images"
    )


def _raw_file(path: Path, selection: FrameSelection) -> FrameSource:
    file = path.open("rb")
    source = stream_source(path, Pipe(file), selection)
    assert source, "raw frames are always a stream"
    source.on_exit(file.close)
    return source


def _standard_input(selection: FrameSelection) -> FrameSource:
    """Return the frames of standard input; a container has to be there whole, in a file."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise VideoError(f"- is {_STDIN_NAME}, but nothing is piped into it; pipe a video in")
    pipe = Pipe(sys.stdin.buffer)
    if stream := stream_source(_STDIN_NAME, pipe, selection):
        return stream
    folder = Path(tempfile.mkdtemp(prefix="pwcflow-"))
    try:
        file = folder / "video"
        with file.open("wb") as copy:
            shutil.copyfileobj(cast(IO[bytes], pipe), copy, 1 << 20)
        source = _video(_STDIN_NAME, selection, file)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    source.on_exit(lambda: shutil.rmtree(folder, ignore_errors=True))
    return source


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise VideoError(f"there is no file {path}; check the name and the folder") from error
    except OSError as error:
        raise VideoError(
            f"cannot read {path}: {reason_of(error)}; check it and its permissions"
        ) from error


def _check_start(path: Path, file: Path) -> None:
    """Raise `VideoError` if a file is empty, or text.

    FFmpeg would render text as a video, or follow a play list.
    """
    start = _first_bytes(file, path)
    if b"\0" not in start and not start.startswith(b"YUV4MPEG2 "):  # every other has some zeros
        raise VideoError(why_not_a_video(path, file))


def _first_bytes(file: Path, path: Path | None = None) -> bytes:
    with file.open("rb") as opened:
        start = opened.read(1024)
    if not start:
        raise VideoError(f"{path or file} is empty (0 bytes); copy or download it again")
    return start
