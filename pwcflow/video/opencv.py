"""Video files read by OpenCV.

Since 4.13 OpenCV hands out whatever lies in memory for interlaced pictures, because FFmpeg refuses
to convert them and OpenCV does not ask whether it did. That shows as two pictures that are equal in
every byte; whether it is so is then found out in another process, where FFmpeg may complain.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.errors import VideoError
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.image_file import Image
from pwcflow.opencv_log import quiet_codecs
from pwcflow.video.container import first_lost_frame
from pwcflow.video.encoded import (
    DECODING_THREADS,
    broken,
    no_frame,
    opencv_name,
    sensible_count,
    sensible_fps,
    why_not_a_video,
)
from pwcflow.video.source import Frame, FrameSource

# OpenCV returns "no frame" both at the end and for a packet it cannot decode, but goes on to the
# next packet when asked again. At the true end asking again is free and never yields a frame.
_TRIES_AFTER_THE_END = 100
_BROADCAST = (b"\x47", b"\x00\x00\x01\xba")  # transport and program streams begin anywhere
_AV1 = "AV01"

_FIRST_NOT_TO_CONVERT = (4, 13)
_COMPLAINT = b"interlaced to progressive"
_COMPLAIN = """
import sys, cv2
capture = cv2.VideoCapture(sys.argv[1], cv2.CAP_FFMPEG)
for _ in range(int(sys.argv[2]) + 1):
    capture.grab()
capture.retrieve()
"""
_AV_LOG_ERROR = "16"

Picture: TypeAlias = npt.NDArray[np.uint8]
"""(H, W, 3) BGR."""


class OpencvVideo(FrameSource):
    """A video file; pictures are uint8, whatever they were."""

    def __init__(
        self, path: Path, selection: FrameSelection = ALL_FRAMES, file: Path | None = None
    ) -> None:
        """Open the file.

        Args:
            path: its name in messages.
            selection: what is taken.
            file: where it is, when that is not its name.

        Raises:
            VideoError: OpenCV finds no pictures.
        """
        self._file = file or path
        self._name = opencv_name(self._file, f"cannot read {path}", VideoError)
        self._capture = self._opened(path)
        self._announced = sensible_count(self._capture.get(cv2.CAP_PROP_FRAME_COUNT))
        fps = sensible_fps(self._capture.get(cv2.CAP_PROP_FPS))
        super().__init__(path, fps, self._announced, has_times=True, selection=selection)
        self._own_fps = fps or 25.0
        self._closing.callback(self._capture.release)
        with self._file.open("rb") as start:
            self._starts_anywhere = start.read(4).startswith(_BROADCAST)

    @property
    def codec(self) -> str:
        """Its four letters, as the container tells them."""
        number = int(self._capture.get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF
        return number.to_bytes(4, "little").decode("latin-1").upper()

    def why_not(self) -> str | None:
        """Return why OpenCV does not decode the beginning of a sound file; None where it does."""
        probe = self._opened(self.path)
        try:
            pictures: list[Picture] = []
            while len(pictures) < 2 and probe.grab():
                pictures.append(cast(Picture, probe.retrieve()[1]))
        finally:
            probe.release()
        if not pictures and self.codec == _AV1:
            return f"{self.path} is AV1, which this OpenCV cannot decode"
        if len(pictures) == 2 and _equal(*pictures) and self._is_refused(1):
            return f"{self.path} is interlaced, which this OpenCV cannot decode"
        return None

    def grab(self) -> bool:
        """Decode the next frame; False when that fails or there is none."""
        return self._capture.grab()

    def _opened(self, path: Path) -> cv2.VideoCapture:
        with quiet_codecs():
            threads = [cv2.CAP_PROP_N_THREADS, DECODING_THREADS]
            capture = cv2.VideoCapture(self._name, cv2.CAP_FFMPEG, threads)
        if not capture.isOpened():
            raise VideoError(why_not_a_video(path, self._file))
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)  # frames as a person sees them
        return capture

    def _frames(self) -> Iterator[Frame]:
        grabbed, held, seconds = 0, None, 0.0
        before: Picture | None = None
        equal, due = 0, 1
        while self.grab() or (grabbed == 0 and self._starts_anywhere and self._goes_on()):
            if held:
                yield held
            seconds = self._seconds(grabbed)
            if self._is_over(grabbed, seconds):
                return
            name, picture = f"frame {grabbed} of {self.path}", before
            if self._wants(grabbed, seconds):
                found, retrieved = self._capture.retrieve()
                if not found:
                    raise VideoError(broken(self.path, grabbed, self._announced))
                picture = cast(Picture, retrieved)
                if before is not None and _equal(before, picture):
                    equal += 1
                    if equal == due:  # a look takes as long as decoding up to here
                        due *= 2
                        if self._is_refused(grabbed):
                            raise VideoError(
                                f"{name} is interlaced, which this OpenCV cannot decode; "
                                "add --reader av, after: pip install av"
                            )
                before = picture
            held = Frame(name, seconds, partial(rgb, picture))
            grabbed += 1
        # A frame after the "end" means that the one here could not be decoded. A lost tail has
        # nothing after it: it shows in the layout of the container.
        goes_on = self._goes_on()
        if held is None and not goes_on:
            raise VideoError(no_frame(self.path))
        lost: int | None = grabbed
        if not goes_on:
            lost = first_lost_frame(self._file, grabbed, seconds, self._announced)
        # In what is left of a frame that was cut, a decoder repeats the frame before: held back.
        if held is not None and lost in (None, grabbed):
            yield held
        if lost is not None:
            raise VideoError(broken(self.path, lost, self._announced))

    def _seconds(self, grabbed: int) -> float:
        seconds = self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
        # Where there is none, it is nonsense, or 0 throughout in OpenCV 4.
        known = seconds > 0 or (seconds == 0 and grabbed == 0)
        return seconds if known else grabbed / self._own_fps

    def _goes_on(self) -> bool:
        return any(self.grab() for _ in range(_TRIES_AFTER_THE_END))

    def _is_refused(self, number: int) -> bool:
        """Return whether FFmpeg does not convert a frame, which OpenCV then has from nowhere."""
        if tuple(map(int, cv2.__version__.split(".")[:2])) < _FIRST_NOT_TO_CONVERT:
            return False
        try:
            run = subprocess.run(
                [sys.executable, "-c", _COMPLAIN, self._name, str(number)],
                env={**os.environ, "OPENCV_FFMPEG_LOGLEVEL": _AV_LOG_ERROR},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except OSError:  # no such Python, as in a program made of one file
            return False
        return _COMPLAINT in run.stdout + run.stderr


def _equal(one: Picture, other: Picture) -> bool:
    few = slice(None, None, 64)  # rows, which mostly settle it
    return np.array_equal(one[few], other[few]) and np.array_equal(one, other)


def rgb(picture: Picture | None) -> Image:
    """Return a frame that is taken."""
    assert picture is not None, "frames that are not taken are not loaded"
    return cast(Image, cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))
