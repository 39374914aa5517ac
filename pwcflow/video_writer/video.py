"""A colour video on disk: every frame handed in is in the file, or there is an error."""

import math
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.errors import OutputError, VideoError
from pwcflow.opencv_log import quiet_codecs, quiet_encoding, settled_environment
from pwcflow.video import HIGHEST_FPS, count_frames, opencv_name
from pwcflow.video_writer.animation import ANIMATION_SUFFIXES, ColorAnimationWriter, shows
from pwcflow.video_writer.writer import ColorWriter

# Codecs to try, best first. H.264 ("avc1") plays everywhere, but OpenCV's wheels have no encoder
# for it, and on some boards it is a hardware encoder that opens and then fails: hence it is tried
# out. The encoders of MPEG-4 and MJPEG are part of FFmpeg. MJPEG in AVI plays everywhere and is
# closer to the original than MPEG-4 at the same size; VP8 is as good as VP9 here and four times as
# fast.
_TRIED_OUT = "avc1"
_TRIAL_FRAMES = 3
_CODECS = {
    ".mp4": (_TRIED_OUT, "mp4v"),
    ".m4v": (_TRIED_OUT, "mp4v"),
    ".mov": (_TRIED_OUT, "mp4v"),
    ".avi": ("MJPG", "XVID"),
    ".mkv": (_TRIED_OUT, "mp4v", "MJPG"),
    ".webm": ("VP80", "VP90"),
}

CODEC_SUFFIXES = tuple(_CODECS)
"""Suffixes, in lower case, of the videos that `ColorVideoWriter` writes."""
VIDEO_SUFFIXES = (*CODEC_SUFFIXES, *ANIMATION_SUFFIXES)
"""Suffixes, in lower case, of the videos and animations that can be written."""

_SMALLEST_SIDE = 16  # at 4 x 4 pixels MJPEG's encoder writes beyond its buffer


def check_video_suffix(path: Path) -> None:
    """Raise `OutputError` unless `path` has the suffix of a video that can be written."""
    if path.suffix.lower() not in VIDEO_SUFFIXES:
        raise OutputError(
            f"cannot write {path}: '{path.suffix}' is not a video format that can be written; "
            f"choose one of {' '.join(VIDEO_SUFFIXES)}"
        )


def color_writer(path: Path, fps: float, *, selectable: bool = True) -> ColorWriter:
    """Return what writes a colour video or animation, by the suffix of `path`.

    Args:
        path: the file.
        fps: frames per second.
        selectable: whether the user may ask for fewer or smaller frames, for messages.

    Raises:
        OutputError: the suffix is neither's, or `fps` is out of its range.
    """
    if path.suffix.lower() in ANIMATION_SUFFIXES:
        return ColorAnimationWriter(path, fps, selectable=selectable)
    return ColorVideoWriter(path, fps)


def shows_all(path: Path, frames: int, fps: float) -> bool:
    """Return whether a file that `color_writer` wrote is there, whole, with so many frames."""
    try:
        if path.suffix.lower() in ANIMATION_SUFFIXES:
            return shows(path.read_bytes(), frames, fps)
        return count_frames(path) == frames
    except (OSError, VideoError):
        return False


class ColorVideoWriter(ColorWriter):
    """Writes a video, which is decoded again and its frames counted before it is put in place.

    OpenCV drops the last row or column of an odd size, and tiny pictures crash some encoders, so
    the edge is repeated up to even sides of at least 16: 101 x 75 becomes a video of 102 x 76.
    """

    def __init__(self, path: Path, fps: float) -> None:
        """Check the arguments; the file is created with the first frame.

        Args:
            path: the video; its suffix, one of `CODEC_SUFFIXES`, chooses the container.
            fps: frames per second, 0.1 to 1000.

        Raises:
            OutputError: the suffix is not one of a video, or `fps` is out of range.
        """
        check_video_suffix(path)
        super().__init__(path, fps, HIGHEST_FPS)
        self._unsure = 0
        self._codecs = _CODECS[path.suffix.lower()]
        self._encoder: cv2.VideoWriter | None = None
        self._temporary = Path()
        self._stack = ExitStack()  # holds the temporary file
        self._settled = ExitStack()

    def __enter__(self) -> "ColorVideoWriter":
        """Hold `path`, and prepare for frames that come from another thread than this one."""
        super().__enter__()
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
            super().__exit__(kind, error, traceback)

    def write(self, image: npt.NDArray[np.uint8]) -> None:
        """Append a frame, (H, W, 3) RGB uint8, of the size of the first.

        Raises:
            OutputError: the file cannot be created, or none of the codecs is there.
            ValueError: the shape or the type is not that of a frame of this video.
        """
        self._check_frame(image)
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
            if not self._temporary.exists():
                raise OutputError(
                    f"cannot write {self.path}: what was written of it in {self._temporary.parent} "
                    "was removed meanwhile; write it again"
                )
            try:
                found = count_frames(self._temporary)
            except VideoError:
                found = 0
            if not 0 <= found - self.frames_written <= self._unsure:
                raise OutputError(
                    f"cannot write {self.path}: {self.frames_written} frames went in but {found} "
                    "can be read back; check the free space, or choose another suffix"
                )

    def discard(self) -> None:
        """Remove what was written; `path` stays as it was."""
        if self._encoder is not None:
            self._encoder.release()
            self._encoder = None
            with suppress(_Discarded), self._stack:
                raise _Discarded

    def _opened(self, width: int, height: int) -> cv2.VideoWriter:
        with ExitStack() as stack:
            self._temporary = stack.enter_context(replacing(self.path, mark=self._mark))
            name = opencv_name(self._temporary, f"cannot write {self.path}", OutputError)
            self._temporary.write_bytes(bytes(8))  # OpenCV does not tell why it cannot write
            for codec in self._codecs:
                if codec == _TRIED_OUT and not self._works(name, codec, width, height):
                    continue
                encoder = self._encoder_of(name, codec, width, height)
                if encoder.isOpened():
                    self._stack = stack.pop_all()
                    return encoder
                encoder.release()
            raise OutputError(
                f"cannot write {self.path}: OpenCV has no encoder {' or '.join(self._codecs)} for "
                f"{width} x {height} pixels at {self.fps:g} frames per second in "
                f"'{self.path.suffix}'; choose another of {' '.join(VIDEO_SUFFIXES)}"
            )

    def _works(self, name: str, codec: str, width: int, height: int) -> bool:
        """Return whether a few frames that are written to a file can be read back."""
        encoder = self._encoder_of(name, codec, width, height)
        if not encoder.isOpened():
            encoder.release()
            return False
        with quiet_encoding():
            for level in range(_TRIAL_FRAMES):
                encoder.write(np.full((height, width, 3), level, np.uint8))
        encoder.release()
        try:
            return count_frames(self._temporary) == _TRIAL_FRAMES
        except VideoError:
            return False

    def _encoder_of(self, name: str, codec: str, width: int, height: int) -> cv2.VideoWriter:
        with quiet_codecs(opening_writer=True):
            return cv2.VideoWriter(
                name,
                cv2.CAP_FFMPEG,
                cv2.VideoWriter.fourcc(*codec),
                _expressible(self.fps),
                (width, height),
            )


class _Discarded(Exception):
    """Tells the temporary file that it is of no use."""


def _padding(side: int) -> int:
    return max(side + side % 2, _SMALLEST_SIDE) - side


def _expressible(fps: float) -> float:
    """Return `fps` with as many decimals as MPEG-4 takes: no more than 65535 in whole units."""
    return round(fps, int(math.log10(65535 / fps)))
