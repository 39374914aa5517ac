"""What all sources of frames have in common: selection, sizes, times."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pwcflow.counted import counted
from pwcflow.errors import VideoError
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection, reached, shown
from pwcflow.image_file import Image
from pwcflow.video.resize import resized

DEFAULT_FPS = 25.0
"""Frames per second of what is made of frames without times, as images are."""
MOST_PIXELS = 1 << 28
"""Of a resized frame, as of an image."""


LoadImage = Callable[[], Image]
"""Returns a frame that may have to be decoded and resized yet."""


class Frame(NamedTuple):
    """A frame of a source, which is loaded only when it is wanted."""

    name: str
    """For a message."""
    seconds: float | None
    """Since the first frame of the source; None if unknown."""
    load: LoadImage
    """Returns the picture; may be called at any time, in any thread."""


class FrameSource(AbstractContextManager["FrameSource"], ABC):
    """Frames in order, (H, W, 3) RGB: uint8, or what images hold, uint16 and float32.

    A context manager; iterate it once, or what `loads` returns. Every frame has the size and dtype
    of the first. When the source turns out to be damaged, all the frames before the damage come
    first and `VideoError` after.

    Attributes:
        path: the file, folder or pattern, `camera:0`, or `standard input`.
        fps: frames taken per second; None for images, or when the container has no sensible figure.
        expected_frames: for a progress bar only; from the header's figure, often wrong, or None.
        numbers: of the frames come to so far, counted in the source from 0.
        timestamps: of the frames come to so far, in seconds since the source's first frame, as a
            player shows them; None for a source without times, as images are.
        original_size: (width, height) before any resizing; None before the first frame.
        reader: what decodes, for provenance.
    """

    reader = "opencv"

    def __init__(
        self,
        path: Path,
        fps: float | None,
        expected_frames: int | None,
        *,
        has_times: bool,
        selection: FrameSelection = ALL_FRAMES,
    ) -> None:
        """Hold what is known before the first frame.

        Raises:
            VideoError: a time is asked for, and the source has none.
        """
        if selection.needs_times and not has_times:
            raise VideoError(
                f"{path} does not tell the times of its frames; give --start and --end as numbers "
                "of frames, without s"
            )
        self.path = path
        self.fps = fps / selection.step if fps else None
        self.expected_frames = selection.expected(expected_frames, fps)
        self.numbers: list[int] = []
        self.timestamps: list[float] | None = [] if has_times else None
        self.original_size: tuple[int, int] | None = None
        self.selection = selection
        self._dtype: np.dtype[Any] | None = None  # of the first frame
        self._closing = ExitStack()
        self._started = self._ended = False
        self._seen = 0
        self._last_seconds: float | None = None

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        self._closing.close()

    def __iter__(self) -> Iterator[Image]:
        """Yield the frames; `VideoError` (or `ImageError`, of images) when one is unusable."""
        for load in self.loads():
            yield load()

    def loads(self) -> Iterator[LoadImage]:
        """Yield for each frame what loads it, which may raise what iterating the source does.

        Once the first has returned its frame, which all others have to be like, several threads
        may load at a time, in any order.
        """
        if self._started:
            raise ValueError(f"the frames of {self.path} can be iterated only once")
        self._started = True
        for number, frame in enumerate(self._frames()):
            if self._is_over(number, frame.seconds):
                self._ended = True
                break
            self._seen, self._last_seconds = number + 1, frame.seconds
            if self._wants(number, frame.seconds):
                self.numbers.append(number)
                if self.timestamps is not None:
                    self.timestamps.append(round(frame.seconds or 0.0, 6))
                yield partial(self._loaded, frame)
            if self._is_over(number + 1, None):  # the next one may be long in coming
                self._ended = True
                break
        self._check_taken()

    def on_exit(self, action: Callable[[], object]) -> None:
        """Have something done when the source is closed."""
        self._closing.callback(action)

    def provenance(self) -> dict[str, Any]:
        """Return how the frames came about, for a record: what is not as it is by itself.

        The flow is that of the frames as they were yielded, so of the resized ones.
        """
        facts: dict[str, Any] = {"reader": self.reader, **self.selection.settings()}
        if self.original_size and self.original_size != self.selection.target(*self.original_size):
            facts["resized_from"] = "{}x{}".format(*self.original_size)
            facts["resized_to"] = "{}x{}".format(*self.selection.target(*self.original_size))
        return facts

    @abstractmethod
    def _frames(self) -> Iterator[Frame]:
        """Yield the frames from the first on, taken or not."""

    def _wants(self, number: int, seconds: float | None) -> bool:
        """Return whether a frame is taken, if it comes before the end."""
        if self.numbers:
            return (number - self.numbers[0]) % self.selection.step == 0
        return reached(self.selection.start, number, seconds)

    def _is_over(self, number: int, seconds: float | None) -> bool:
        end = self.selection.end
        return end is not None and reached(end, number, seconds)

    def _loaded(self, frame: Frame) -> Image:
        name, image = frame.name, frame.load()
        size = image.shape[1], image.shape[0]
        self.original_size = self.original_size or size
        if size != self.original_size:
            raise VideoError(
                f"{name} is {size[0]} x {size[1]} pixels but the frames before "
                f"it are {self.original_size[0]} x {self.original_size[1]}; "
                "all frames must have one size"
            )
        if self._dtype is None:
            self._dtype = image.dtype
        if image.dtype != self._dtype:
            raise VideoError(
                f"{name} holds {_numbers(image.dtype)} but the frames before it hold "
                f"{_numbers(self._dtype)}; all frames must have one bit depth, so save them alike"
            )
        width, height = self.selection.target(*size)
        if (width, height) != size and width * height > MOST_PIXELS:
            raise VideoError(
                f"frames of {self.path} would become {width} x {height} pixels, more than "
                f"{MOST_PIXELS // 10**6} million; ask for fewer"
            )
        return resized(image, width, height)

    def _check_taken(self) -> None:
        """Raise `VideoError` if what was asked for left nothing, or nothing to compare."""
        if len(self.numbers) > 1 or (self.numbers and self._seen == 1 and not self._ended):
            return
        start, end = self.selection.start, self.selection.end
        has = counted(self._seen, "frame")
        last = "" if self._last_seconds is None else f", the last at {self._last_seconds:.3f} s"
        if self.numbers:
            raise VideoError(
                f"--start, --end and --step take only frame {self.numbers[0]} of {self.path}; flow "
                "needs two"
            )
        if end is not None and not isinstance(start, type(end)):
            raise VideoError(
                f"no frame of {self.path} lies between --start {shown(start)} and --end "
                f"{shown(end)}"
            )
        raise VideoError(
            f"--start {shown(start)} is beyond the end of {self.path}, which has {has}{last}"
        )


def _numbers(dtype: np.dtype[Any]) -> str:
    return f"{8 * dtype.itemsize}-bit {'floats' if dtype.kind == 'f' else 'integers'}"
