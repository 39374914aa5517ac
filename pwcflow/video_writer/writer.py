"""What colour videos and animations have in common: frames go in one by one, a whole file comes."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from pwcflow.errors import OutputError, VideoError
from pwcflow.locks import locked_file

_LOWEST_FPS = 0.1  # below, FFmpeg's encoders abort the process: an assertion about a bit rate of 0
_PARTIAL_RESULT_IS_KEPT = (VideoError, KeyboardInterrupt)


class ColorWriter(AbstractContextManager["ColorWriter"], ABC):
    """Writes RGB images as the frames of one file that appears whole on `path`, or not at all.

    A context manager. Inside, no other process writes `path`. Leaving it finishes the file, looks
    whether every frame is in it, and only then puts it in place of whatever `path` was. That also
    happens on `VideoError` and KeyboardInterrupt, so that what was computed before a damaged frame
    is kept; any other exception leaves `path` as it was. Without a frame, nothing is written.

    Attributes:
        path: the file.
        fps: frames per second, as they were asked for.
        frames_written: how many frames were handed in so far.
    """

    def __init__(self, path: Path, fps: float, highest_fps: float, why: str = "") -> None:
        """Check the frame rate.

        Raises:
            OutputError: `fps` is not from 0.1 to `highest_fps`; `why` ends the message.
        """
        if not _LOWEST_FPS <= fps <= highest_fps:
            raise OutputError(
                f"cannot write {path} at {fps:g} frames per second; choose a rate from "
                f"{_LOWEST_FPS:g} to {highest_fps:g} by --fps{why}"
            )
        self.path = path
        self.fps = fps
        self.frames_written = 0
        self._shape: tuple[int, ...] = ()
        self._mark = ""  # of the temporary file
        self._lock = ExitStack()

    def __enter__(self) -> "ColorWriter":
        """Keep other processes from `path`, before anything is computed for it.

        Raises:
            InUseError: another process writes it.
            OutputError: its folder is missing, or it is a folder or a device.
        """
        self._mark = self._lock.enter_context(locked_file(self.path))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Finish the file, or drop it when an exception says that it is of no use."""
        with self._lock:
            if error is None or isinstance(error, _PARTIAL_RESULT_IS_KEPT):
                self.close()
            else:
                self.discard()

    def check_size(self, height: int, width: int, frames: int | None) -> None:
        """Raise `OutputError` if so many frames of this size cannot be written; None: unknown."""

    @abstractmethod
    def write(self, image: npt.NDArray[np.uint8]) -> None:
        """Append a frame, (H, W, 3) RGB uint8, of the size of the first.

        Raises:
            OutputError: the file cannot be created, or cannot take the frame.
            ValueError: the shape or the type is not that of a frame of this file.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish the file and put it on `path`; without a frame, or done before, do nothing.

        Raises:
            OutputError: the file does not hold every frame written; it is removed.
        """

    @abstractmethod
    def discard(self) -> None:
        """Drop what was written; `path` stays as it was."""

    def _check_frame(self, image: npt.NDArray[np.uint8]) -> None:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            raise ValueError(f"a frame is (H, W, 3) uint8, not {image.shape} {image.dtype}")
        if self._shape and image.shape != self._shape:
            raise ValueError(
                f"all frames need the shape of the first, {self._shape}: {image.shape}"
            )
        self._shape = image.shape
