"""Colour animations on disk, GIF and WebP: for short clips, since they are encoded in one go."""

from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.counted import counted
from pwcflow.errors import OutputError
from pwcflow.image_file.animation import gif_pictures, webp_durations_ms
from pwcflow.opencv_log import quiet_encoding
from pwcflow.video_writer.writer import ColorWriter

_MOST_PIXELS = 1 << 27  # of all frames together, 400 MB: OpenCV encodes them from memory


class _Format(NamedTuple):
    unit_ms: int
    """In which the file counts how long a frame is shown."""
    highest_fps: float
    """Viewers take frames that are shown for 10 ms or less as ones of 100 ms."""
    longest_side: int
    settings: list[int]
    """For OpenCV."""


# Of the qualities and kinds of dithering of OpenCV 5, these two come closest to the original: 2.8
# levels off on average in images/flow.png, where the defaults are 47 off. WebP at 90 is a seventh
# of the lossless size.
_FORMATS = {
    ".gif": _Format(10, 50, 65535, [cv2.IMWRITE_GIF_QUALITY, 8, cv2.IMWRITE_GIF_DITHER, 3]),
    ".webp": _Format(1, 90, 16383, [cv2.IMWRITE_WEBP_QUALITY, 90]),
}

ANIMATION_SUFFIXES = tuple(_FORMATS)
"""Suffixes, in lower case, of the animations that can be written."""


class ColorAnimationWriter(ColorWriter):
    """Writes a GIF or an animated WebP, which plays again and again.

    All frames are held in memory until the end, so their number is bounded; each frame is shown
    until the time of the next one, rounded to what the format counts in, 1/100 s or 1/1000 s.
    """

    def __init__(self, path: Path, fps: float, *, selectable: bool = True) -> None:
        """Check the arguments.

        Args:
            path: the animation; its suffix is one of `ANIMATION_SUFFIXES`.
            fps: frames per second, 0.1 to 50 (GIF) or 90 (WebP).
            selectable: whether the user may ask for fewer or smaller frames, for messages.

        Raises:
            OutputError: `fps` is out of range.
        """
        self._format = _FORMATS[path.suffix.lower()]
        self._selectable = selectable
        fewer = ", or --step" if selectable else ""
        why = f"{fewer}; viewers do not play {path.suffix} any faster"
        super().__init__(path, fps, self._format.highest_fps, why)
        self._frames: list[npt.NDArray[Any]] = []

    def check_size(self, height: int, width: int, frames: int | None) -> None:
        """Raise `OutputError` if so many frames of this size cannot be written; None: unknown."""
        longest = self._format.longest_side
        if max(height, width) > longest:
            smaller = "give --max-side, or" if self._selectable else "choose"
            raise OutputError(
                f"cannot write {self.path}: {width} x {height} pixels, and {longest} a side is its "
                f"limit; {smaller} a video such as .mp4"
            )
        most = max(_MOST_PIXELS // (height * width), 1)
        if frames is not None and frames > most:
            less = "give --end or --step for fewer, --max-side for smaller ones, or"
            raise OutputError(
                f"cannot write {self.path}: an animation of {width} x {height} pixels takes "
                f"{counted(most, 'frame')} at most, and there are {frames}; "
                f"{less if self._selectable else 'choose'} a video such as .mp4"
            )

    def write(self, image: npt.NDArray[np.uint8]) -> None:
        """Append a frame, (H, W, 3) RGB uint8, of the size of the first.

        Raises:
            OutputError: there are too many frames, or they are too large.
            ValueError: the shape or the type is not that of a frame of this animation.
        """
        self._check_frame(image)
        height, width = image.shape[:2]
        self.check_size(height, width, len(self._frames) + 1)
        self._frames.append(cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        self.frames_written = len(self._frames)

    def close(self) -> None:
        """Encode the animation and put it on `path`; without a frame, or done before, do nothing.

        Raises:
            OutputError: OpenCV cannot encode it, or it would not hold every frame written.
        """
        frames, self._frames = self._frames, []
        if not frames:
            return
        data = self._encoded(frames)
        if not shows(data, len(frames), self.fps):
            raise OutputError(
                f"cannot write {self.path}: OpenCV lost some of its {len(frames)} frames; choose "
                "a video such as .mp4"
            )
        with replacing(self.path, mark=self._mark) as temporary:
            temporary.write_bytes(data)

    def discard(self) -> None:
        """Forget the frames; `path` stays as it was."""
        self._frames = []

    def _encoded(self, frames: list[npt.NDArray[Any]]) -> bytes:
        animation = cv2.Animation()
        animation.frames = frames
        animation.durations = _durations_ms(len(frames), self.fps, self._format.unit_ms)
        encoded = None
        with quiet_encoding():
            try:
                done, encoded = cv2.imencodeanimation(
                    self.path.suffix.lower(), animation, self._format.settings
                )
            except cv2.error:
                done = False
        if not done or encoded is None:
            height, width = frames[0].shape[:2]
            raise OutputError(
                f"cannot write {self.path}: OpenCV cannot encode {len(frames)} frames of {width} x "
                f"{height} pixels so; choose a video such as .mp4"
            )
        return encoded.tobytes()


def shows(data: bytes, frames: int, fps: float) -> bool:
    """Return whether an animation that `ColorAnimationWriter` encoded is there with all its frames.

    The encoder of WebP shows one picture for as long as frames look alike, so there it is their
    time that tells; if all do, it makes a still image.
    """
    if data.startswith(b"GIF8"):
        return gif_pictures(BytesIO(data)) == (frames, frames, True)
    durations = webp_durations_ms(data)
    whole = len(data) >= 12 and len(data) == 8 + int.from_bytes(data[4:8], "little")
    times = sum(_durations_ms(frames, fps, _FORMATS[".webp"].unit_ms))
    return whole and (not durations or sum(durations) == times)


def _durations_ms(frames: int, fps: float, unit_ms: int) -> list[int]:
    """Return how long each frame is shown: to the time of the next one, which is rounded."""
    starts = (round(number * 1000 / unit_ms / fps) * unit_ms for number in range(frames + 1))
    return [end - start for start, end in pairwise(starts)]
