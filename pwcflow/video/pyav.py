"""Video files read by PyAV, which is optional: `pip install av`.

It decodes what OpenCV's wheels cannot, AV1 and, since OpenCV 4.13, interlaced video (see
`video_opencv`), keeps more than 8 bits, and notices that pictures change their size.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np

from pwcflow.errors import VideoError
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.image_file import Image
from pwcflow.video.container import first_lost_frame
from pwcflow.video.encoded import (
    DECODING_THREADS,
    broken,
    no_frame,
    sensible_count,
    sensible_fps,
    why_not_a_video,
)
from pwcflow.video.source import Frame, FrameSource


def pyav_is_here() -> bool:
    """Return whether PyAV is installed."""
    return find_spec("av") is not None


class PyavVideo(FrameSource):
    """A video file; pictures of more than 8 bits are uint16."""

    reader = "av"

    def __init__(
        self, path: Path, selection: FrameSelection = ALL_FRAMES, file: Path | None = None
    ) -> None:
        """Open the file.

        Args:
            path: its name in messages.
            selection: what is taken.
            file: where it is, when that is not its name.

        Raises:
            VideoError: PyAV is missing, or finds no pictures.
        """
        if not pyav_is_here():
            raise VideoError(
                "the reader av needs PyAV, which is not installed; run: pip install av"
            )
        import av

        if not hasattr(av.VideoFrame, "rotation"):
            raise VideoError("the reader av needs PyAV 14.1 or newer; run: pip install -U av")
        self._file = file or path
        with ExitStack() as opened:
            try:
                self._container: Any = av.open(str(self._file.absolute()))
            except (av.error.FFmpegError, OSError, ValueError) as error:
                raise VideoError(why_not_a_video(path, self._file)) from error
            opened.callback(self._container.close)
            if not self._container.streams.video:
                raise VideoError(why_not_a_video(path, self._file))
            self._stream = self._container.streams.video[0]
            self._stream.thread_type = "AUTO"
            self._stream.thread_count = DECODING_THREADS
            rate = self._stream.average_rate or self._stream.guessed_rate
            self._announced = sensible_count(self._stream.frames)
            fps = sensible_fps(float(rate or 0))
            super().__init__(path, fps, self._announced, has_times=True, selection=selection)
            self._closing = opened.pop_all()

    def _frames(self) -> Iterator[Frame]:
        from av.error import FFmpegError

        stream, number, held, seconds = self._stream, 0, None, 0.0
        first = float((stream.start_time or 0) * (stream.time_base or 0))
        try:
            for picture in self._container.decode(stream):
                if held:
                    yield held
                if picture.time is not None:
                    seconds = picture.time - first
                elif number:
                    seconds += 1 / (stream.average_rate or 25)
                name = f"frame {number} of {self.path}"
                held = Frame(name, seconds, partial(_image, picture))
                number += 1
        except FFmpegError as error:
            if held:
                yield held
            raise VideoError(broken(self.path, number, self._announced)) from error
        if held is None:
            raise VideoError(no_frame(self.path))
        lost = first_lost_frame(self._file, number, seconds, self._announced)
        if lost in (None, number):  # what is left of a frame that was cut is no frame
            yield held
        if lost is not None:
            raise VideoError(broken(self.path, lost, self._announced))


def _image(picture: Any) -> Image:
    deep = max(component.bits for component in picture.format.components) > 8
    layout = "rgb48le" if deep else "rgb24"
    pixels = picture.to_ndarray(format=layout, interpolation="BICUBIC")  # as OpenCV does
    turned = np.rot90(pixels, picture.rotation // 90 % 4)
    return cast(Image, np.ascontiguousarray(turned, np.uint16 if deep else np.uint8))
