"""A colour video on disk: every frame handed in is in the file, or there is an error."""

import math
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.errors import OutputError, VideoError
from pwcflow.opencv_log import quiet_codecs, quiet_encoding, settled_environment
from pwcflow.video import HIGHEST_FPS, count_frames, opencv_name

# Codecs to try, best first. MPEG-4 and MJPEG come before H.264: their encoders are part of
# FFmpeg, while "avc1" is missing from the wheels of OpenCV or, on some boards, is a hardware
# encoder that opens and then fails. MJPEG in AVI plays everywhere and is closer to the original
# than MPEG-4 at the same size; VP8 is as good as VP9 here and four times as fast.
_CODECS = {
    ".mp4": ("mp4v", "avc1"),
    ".m4v": ("mp4v", "avc1"),
    ".mov": ("mp4v", "avc1"),
    ".avi": ("MJPG", "XVID"),
    ".mkv": ("mp4v", "MJPG"),
    ".webm": ("VP80", "VP90"),
}

VIDEO_SUFFIXES = tuple(_CODECS)
"""Suffixes, in lower case, of the videos that can be written."""

# Outside these, FFmpeg's encoders abort the process (an assertion about a bit rate of 0, a buffer
# overrun in MJPEG at 4 x 4 pixels), or OpenCV cannot express the rate. HIGHEST_FPS is another.
_LOWEST_FPS = 0.1
_SMALLEST_SIDE = 16

_PARTIAL_RESULT_IS_KEPT = (VideoError, KeyboardInterrupt)


def check_video_suffix(path: Path) -> None:
    """Raise `OutputError` unless `path` has the suffix of a video that can be written."""
    if path.suffix.lower() not in _CODECS:
        raise OutputError(
            f"cannot write {path}: '{path.suffix}' is not a video format that can be written; "
            f"choose one of {' '.join(VIDEO_SUFFIXES)}"
        )


class ColorVideoWriter(AbstractContextManager["ColorVideoWriter"]):
    """Writes RGB images as the frames of one video that appears whole on `path`, or not at all.

    A context manager. Leaving it finishes the file, decodes it again and counts its frames, and
    only then puts it in place of whatever `path` was. That also happens on `VideoError` and
    KeyboardInterrupt, so that what was computed before a damaged frame is kept; any other
    exception leaves `path` as it was. Without a frame, nothing is written.

    OpenCV drops the last row or column of an odd size, and tiny pictures crash some encoders, so
    the edge is repeated up to even sides of at least 16: 101 x 75 becomes a video of 102 x 76.

    Attributes:
        path: the video.
        frames_written: how many frames were handed in so far.
    """

    def __init__(self, path: Path, fps: float) -> None:
        """Check the arguments; the file is created with the first frame.

        Args:
            path: the video; its suffix, one of `VIDEO_SUFFIXES`, chooses the container.
            fps: frames per second, 0.1 to 1000.

        Raises:
            OutputError: the suffix is not one of a video, or `fps` is out of range.
        """
        check_video_suffix(path)
        if not _LOWEST_FPS <= fps <= HIGHEST_FPS:
            raise OutputError(
                f"cannot write {path} at {fps:g} frames per second; choose a rate from "
                f"{_LOWEST_FPS:g} to {HIGHEST_FPS}"
            )
        self.path = path
        self.frames_written = 0
        self._unsure = 0
        self._fps = _expressible(fps)
        self._codecs = _CODECS[path.suffix.lower()]
        self._shape: tuple[int, ...] = ()
        self._encoder: cv2.VideoWriter | None = None
        self._temporary = Path()
        self._stack = ExitStack()  # holds the temporary file
        self._settled = ExitStack()

    def __enter__(self) -> "ColorVideoWriter":
        """Prepare for frames that come from another thread than this one."""
        self._settled.enter_context(settled_environment())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Finish the video, or remove it when an exception says that it is of no use."""
        with self._settled:
            if error is None or isinstance(error, _PARTIAL_RESULT_IS_KEPT):
                self.close()
            elif self._encoder is not None:
                self._encoder.release()
                self._encoder = None
                self._stack.__exit__(kind, error, traceback)

    def write(self, image: npt.NDArray[np.uint8]) -> None:
        """Append a frame, (H, W, 3) RGB uint8, of the size of the first.

        Raises:
            OutputError: the file cannot be created, or none of the codecs is there.
            ValueError: the shape or the type is not that of a frame of this video.
        """
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            raise ValueError(f"a frame is (H, W, 3) uint8, not {image.shape} {image.dtype}")
        if self._shape and image.shape != self._shape:
            raise ValueError(
                f"all frames need the shape of the first, {self._shape}: {image.shape}"
            )
        self._shape = image.shape
        bottom, right = (_padding(side) for side in image.shape[:2])
        bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        frame = cv2.copyMakeBorder(bgr, 0, bottom, 0, right, cv2.BORDER_REPLICATE)
        if self._encoder is None:
            self._encoder = self._opened(frame.shape[1], frame.shape[0])
        self._unsure = 1  # an interrupt may come between the lines below
        with quiet_encoding():  # a full disk is told once, at the end
            self._encoder.write(frame)
        self.frames_written += 1
        self._unsure = 0

    def close(self) -> None:
        """Finish the video and put it on `path`; without a frame, or done before, do nothing.

        Raises:
            OutputError: the file does not hold every frame written; it is removed.
        """
        if self._encoder is None:
            return
        self._encoder.release()
        self._encoder = None
        with self._stack:
            try:
                found = count_frames(self._temporary)
            except VideoError:
                found = 0
            if not 0 <= found - self.frames_written <= self._unsure:
                raise OutputError(
                    f"cannot write {self.path}: {self.frames_written} frames went in but {found} "
                    "can be read back; check the free space, or choose another suffix"
                )

    def _opened(self, width: int, height: int) -> cv2.VideoWriter:
        with ExitStack() as stack:
            self._temporary = stack.enter_context(replacing(self.path))
            name = opencv_name(self._temporary, f"cannot write {self.path}", OutputError)
            self._temporary.write_bytes(bytes(8))  # OpenCV does not tell why it cannot write
            for codec in self._codecs:
                with quiet_codecs(opening_writer=True):
                    encoder = cv2.VideoWriter(
                        name,
                        cv2.CAP_FFMPEG,
                        cv2.VideoWriter.fourcc(*codec),
                        self._fps,
                        (width, height),
                    )
                if encoder.isOpened():
                    self._stack = stack.pop_all()
                    return encoder
                encoder.release()
            raise OutputError(
                f"cannot write {self.path}: OpenCV has no encoder {' or '.join(self._codecs)} for "
                f"{width} x {height} pixels at {self._fps:g} frames per second in "
                f"'{self.path.suffix}'; choose another of {' '.join(VIDEO_SUFFIXES)}"
            )


def _padding(side: int) -> int:
    return max(side + side % 2, _SMALLEST_SIDE) - side


def _expressible(fps: float) -> float:
    """Return `fps` with as many decimals as MPEG-4 takes: no more than 65535 in whole units."""
    return round(fps, int(math.log10(65535 / fps)))
