"""Pieces of a page encoded by threads, a few of them ahead of the writing."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from pwcflow.errors import FlowFileError
from pwcflow.flow_file import read_flow
from pwcflow.frame_selection import FrameSelection
from pwcflow.processors import usable_processors
from pwcflow.video.resize import resized
from pwcflow.viewer.encoding import EncodedFlow, encode_flow, encode_picture, sampled
from pwcflow.viewer.pieces import Picture, Piece, PlacedFlow, check_sizes

_LARGEST_SIDE_PX = 16383
"""Of what WebP holds; canvases of browsers take little more."""
_THREADS = min(4, usable_processors())
_T = TypeVar("_T")
_R = TypeVar("_R")


class EncodedPicture(NamedTuple):
    """A frame as the page holds it."""

    key: str
    webp: bytes


class EncodedPlacedFlow(NamedTuple):
    """A flow as the page holds it."""

    place: int
    """Among all flows of the page, from 0."""
    flow: EncodedFlow
    size: tuple[int, int]
    """(width, height) of the file, before it was made smaller."""
    facts: dict[str, Any]
    """What the page tells of it."""


class Encoder:
    """Encodes pictures and flows, in any thread."""

    def __init__(self, step_px: float, max_side: int | None, bound: float | None) -> None:
        """Hold what all pieces have in common.

        Args:
            step_px: what flows are rounded to.
            max_side: the longest side, in pixels, at which they are shown.
            bound: that of pairs of 8-bit pictures which do not record it.
        """
        self._step_px = step_px
        self._selection = FrameSelection(max_side=max_side)
        self._bound = bound

    def __call__(self, piece: Piece) -> EncodedPicture | EncodedPlacedFlow:
        """Return a piece as the page holds it.

        Raises:
            PwcFlowError: a flow cannot be read, is too large, or not of the size of its pictures.
        """
        return self._picture(piece) if isinstance(piece, Picture) else self._flow(piece)

    def _picture(self, picture: Picture) -> EncodedPicture:
        height, width = picture.image.shape[:2]
        image = resized(picture.image, *self._selection.target(width, height))
        return EncodedPicture(picture.key, encode_picture(image, picture.name))

    def _flow(self, placed: PlacedFlow) -> EncodedPlacedFlow:
        flow = read_flow(placed.flow.path, bound=self._bound)
        height, width = flow.shape[:2]
        check_sizes(placed, width, height)
        shown = self._selection.target(width, height)
        if max(shown) > _LARGEST_SIDE_PX:
            raise FlowFileError(
                f"{placed.flow.path} is {width} x {height} pixels, more than browsers draw; "
                "give --max-side 4096"
            )
        if shown != (width, height):
            flow = sampled(flow, *shown)
        facts = {
            "name": placed.flow.path.name,
            "first": placed.first,
            "second": placed.second,
            "seconds": placed.flow.seconds,
            "file-width": width,
            "file-height": height,
        }
        encoded = encode_flow(flow, self._step_px)
        return EncodedPlacedFlow(placed.place, encoded, (width, height), facts)


def in_threads(function: Callable[[_T], _R], items: Iterable[_T]) -> Generator[_R, None, None]:
    """Yield what a function makes of items, in order; threads work a few items ahead."""
    threads = ThreadPoolExecutor(_THREADS, "view")
    waiting: deque[Future[_R]] = deque()
    try:
        for item in items:
            waiting.append(threads.submit(function, item))
            if len(waiting) > 2 * _THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)
