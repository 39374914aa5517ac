"""Frames of a video file, or of a folder of images, one at a time in constant memory.

Sizes, rotation and length are those of the decoded frames: what a container's header announces
is often wrong and serves a progress bar at most.
"""

import math
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast

import cv2

from pwcflow.container import first_lost_frame, index_is_missing
from pwcflow.errors import PwcFlowError, VideoError, reason_of
from pwcflow.image_file import IMAGE_SUFFIXES, Image, read_image
from pwcflow.opencv_log import quiet_codecs

HIGHEST_FPS = 1000
"""Read or written: time bases such as 90000 turn up as a rate, and no encoder takes them."""

# OpenCV returns "no frame" both at the end and for a packet it cannot decode, but goes on to the
# next packet when asked again. At the true end asking again is free and never yields a frame.
_TRIES_AFTER_THE_END = 100
_MOST_FRAMES = 2**31  # an unknown count turns up as -1, 0 or about -9e18
_BROADCAST = (b"\x47", b"\x00\x00\x01\xba")  # transport and program streams begin anywhere


class FrameSource(AbstractContextManager["FrameSource"], ABC):
    """Frames in order, (H, W, 3) RGB uint8 or, from a folder of 16-bit images, uint16.

    A context manager; iterate it once. Every frame has the size of the first. When the source
    turns out to be damaged, all the frames before the damage come first and `VideoError` after.

    Attributes:
        path: the file or folder.
        fps: frames per second; None for a folder, or when the container has no sensible figure.
        expected_frames: for a progress bar only; the header's figure, often wrong, or None.
    """

    def __init__(self, path: Path, fps: float | None, expected_frames: int | None) -> None:
        """Hold what is known before the first frame."""
        self.path = path
        self.fps = fps
        self.expected_frames = expected_frames
        self._started = False

    def __exit__(self, *_: object) -> None:
        """Close what is open."""

    def __iter__(self) -> Iterator[Image]:
        """Yield the frames; `VideoError` (or `ImageError`, in a folder) when one is unusable."""
        if self._started:
            raise ValueError(f"the frames of {self.path} can be iterated only once")
        self._started = True
        size: tuple[int, ...] | None = None
        for name, frame in self._frames():
            size = size or frame.shape[:2]
            if frame.shape[:2] != size:
                raise VideoError(
                    f"{name} is {frame.shape[1]} x {frame.shape[0]} pixels but the frames before "
                    f"it are {size[1]} x {size[0]}; all frames must have one size"
                )
            yield frame

    @abstractmethod
    def _frames(self) -> Iterator[tuple[str, Image]]:
        """Yield (name for a message, frame)."""


def open_frames(path: Path) -> FrameSource:
    """Return the frames of a video file, or of the images in a folder in natural order.

    A video whose pictures change their size on the way is not noticed: OpenCV rescales all of them
    to the first size, and tells of no other.

    Raises:
        VideoError: nothing there, no images in the folder, not a video, a still image, a pipe or
            device, no pictures in it, or a name that OpenCV cannot open.
    """
    with _explained(path):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _Folder(path)
        if not stat.S_ISREG(mode):  # reading a pipe may wait for ever
            raise VideoError(
                f"{path} is not a regular file; save the video to one, or give a folder of frames"
            )
        if path.suffix.lower() in IMAGE_SUFFIXES:
            raise VideoError(
                f"{path} is a still image, and flow needs at least two frames; give a video, a "
                "folder of frames, or two images"
            )
        return _VideoFile(path)


def count_frames(path: Path) -> int:
    """Return how many frames of a video file can be decoded, without a look at what is missing.

    Raises:
        VideoError: it cannot be opened.
    """
    with _explained(path):
        video = _VideoFile(path)
    with video:
        return sum(1 for _ in iter(video.grab, False))


def opencv_name(path: Path, action: str, kind: type[PwcFlowError]) -> str:
    """Return the name that OpenCV takes for a file, whatever the locale: it crashes unless UTF-8.

    Raises:
        PwcFlowError: of `kind`, beginning with `action`: the name is not UTF-8.
    """
    try:
        # An absolute path, so that "a:b.mp4" is not taken for a protocol called "a".
        return os.fsencode(path.absolute()).decode()
    except UnicodeDecodeError as error:
        raise kind(
            f"{action}: its name or its folder's is not UTF-8, which OpenCV cannot open; rename it"
        ) from error


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


class _Folder(FrameSource):
    """The image files of a folder; other files and sub-folders are ignored."""

    def __init__(self, path: Path) -> None:
        self._files = sorted(filter(_is_frame, path.iterdir()), key=natural_key)
        if not self._files:
            raise VideoError(
                f"{path} holds no images; a folder of frames needs files named "
                f"{' '.join(sorted(IMAGE_SUFFIXES))}"
            )
        super().__init__(path, None, len(self._files))

    def _frames(self) -> Iterator[tuple[str, Image]]:
        for file in self._files:
            yield str(file), read_image(file)


class _VideoFile(FrameSource):
    def __init__(self, path: Path) -> None:
        start = _first_bytes(path)
        if _is_text(start):  # FFmpeg would render it as a video, or follow a play list
            raise VideoError(_why_not_a_video(path))
        name = opencv_name(path, f"cannot read {path}", VideoError)
        with quiet_codecs():
            self._capture = cv2.VideoCapture(name, cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise VideoError(_why_not_a_video(path))
        self._capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)  # frames as a person sees them
        fps = self._capture.get(cv2.CAP_PROP_FPS)
        count = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        self._starts_anywhere = start.startswith(_BROADCAST)
        super().__init__(
            path,
            fps if math.isfinite(fps) and 0 < fps <= HIGHEST_FPS else None,
            int(count) if 0 < count < _MOST_FRAMES else None,
        )

    def __exit__(self, *_: object) -> None:
        self._capture.release()

    def _frames(self) -> Iterator[tuple[str, Image]]:
        grabbed, held, seconds = 0, None, 0.0
        while self.grab() or (grabbed == 0 and self._starts_anywhere and self._goes_on()):
            if held is not None:
                yield held
            found, frame = self._capture.retrieve()
            if not found:
                raise VideoError(self._broken(grabbed))
            seconds = self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
            image = cast(Image, cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
            held = f"frame {grabbed} of {self.path}", image
            grabbed += 1
        # A frame after the "end" means that the one here could not be decoded. A lost tail has
        # nothing after it: it shows in the layout of the container.
        goes_on = self._goes_on()
        if held is None and not goes_on:
            raise VideoError(
                f"{self.path} has no frame that can be decoded; it is cut off or damaged, or "
                "holds no pictures"
            )
        lost: int | None = grabbed
        if not goes_on:
            lost = first_lost_frame(self.path, grabbed, seconds, self.expected_frames)
        # In what is left of a frame that was cut, a decoder repeats the frame before: held back.
        if held is not None and lost in (None, grabbed):
            yield held
        if lost is not None:
            raise VideoError(self._broken(lost))

    def grab(self) -> bool:
        """Decode the next frame; False when that fails or there is none."""
        return self._capture.grab()

    def _goes_on(self) -> bool:
        return any(self.grab() for _ in range(_TRIES_AFTER_THE_END))

    def _broken(self, index: int) -> str:
        expected = self.expected_frames
        announced = f" of {expected}" if expected and expected > index else ""
        return (
            f"{self.path} breaks at frame {index}{announced} (counted from 0), which cannot be "
            "decoded: the file is damaged or cut off; copy, download or encode it again"
        )


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(1024)
    if not start:
        raise VideoError(f"{path} is empty (0 bytes); copy or download it again")
    return start


def _is_text(start: bytes) -> bool:
    """Return whether a file looks like text; every video but YUV4MPEG begins with some zeros."""
    return b"\0" not in start and not start.startswith(b"YUV4MPEG2 ")


def _why_not_a_video(path: Path) -> str:
    if index_is_missing(path):
        return (
            f"{path} is cut off: the index that belongs to its pictures is missing; copy, "
            "download or record it again"
        )
    return (
        f"{path} holds no pictures that OpenCV can decode: it is not a video, has sound only, is "
        "damaged, or uses an unknown codec; convert it with ffmpeg or give a folder of frames"
    )


def _is_frame(path: Path) -> bool:
    visible = not path.name.startswith(".")  # copies from a Mac bring "._frame1.png" along
    return visible and path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()


def natural_key(path: Path) -> tuple[list[str | int], str]:
    """Return a key that sorts frame2 before frame10."""
    parts = re.split(r"(\d+)", path.name)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], path.name
