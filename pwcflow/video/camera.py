"""Frames of a camera, until the end asked for, or until the user interrupts."""

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import cv2

from pwcflow.errors import VideoError
from pwcflow.frame_selection import FrameSelection
from pwcflow.opencv_log import quiet_codecs
from pwcflow.video.encoded import sensible_fps
from pwcflow.video.opencv import Picture, rgb
from pwcflow.video.source import Frame, FrameSource

_CAMERA = re.compile(r"camera:(\d{1,4})")


def camera_number(path: Path) -> int | None:
    """Return the number in `camera:0`; None for another name."""
    match = _CAMERA.fullmatch(str(path))
    return int(match[1]) if match else None


class Camera(FrameSource):
    """What a camera sees. Times are by the clock, since a camera's own rate is a promise."""

    def __init__(self, path: Path, number: int, selection: FrameSelection) -> None:
        """Open the camera.

        Raises:
            VideoError: there is none, or another program has it.
        """
        with quiet_codecs():
            self._capture = cv2.VideoCapture(number)
        if not self._capture.isOpened():
            raise VideoError(
                f"{path} cannot be opened: there is no such camera, another program has it, or "
                "you may not use it"
            )
        known = sensible_fps(self._capture.get(cv2.CAP_PROP_FPS))
        super().__init__(path, known, None, has_times=True, selection=selection)
        self._closing.callback(self._capture.release)

    def _frames(self) -> Iterator[Frame]:
        started, number = None, 0
        while self._capture.grab():
            now = time.monotonic()
            started = now if started is None else started
            seconds = now - started
            picture = self._picture() if self._wants(number, seconds) else None  # it goes on
            yield Frame(f"frame {number} of {self.path}", seconds, partial(rgb, picture))
            number += 1
        raise VideoError(f"{self.path} gives no frames any more, after {number}")

    def _picture(self) -> Picture:
        found, picture = self._capture.retrieve()
        if not found:
            raise VideoError(f"{self.path} gave a frame that cannot be decoded")
        return cast(Picture, picture)
