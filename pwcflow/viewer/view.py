"""Flow files in, a page out: needs no torch."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pwcflow.atomic_file import check_writable, replacing
from pwcflow.color import SMALLEST_SCALE_PX, color_wheel
from pwcflow.errors import FlowFileError, OutputError, VideoError
from pwcflow.flow_file import read_flow
from pwcflow.frame_selection import FrameSelection
from pwcflow.outputs import check_nothing_lost
from pwcflow.progress import progress_bar
from pwcflow.scale import scale_of
from pwcflow.video.resize import resized
from pwcflow.viewer.encoding import (
    EncodedFlow,
    encode_flow,
    encode_picture,
    sampled,
    step_for,
)
from pwcflow.viewer.page import PageWriter
from pwcflow.viewer.pieces import Picture, Piece, PlacedFlow, check_sizes, pieces_of
from pwcflow.viewer.results import (
    FlowSequence,
    find_flows,
    with_given_pictures,
    with_recorded_pictures,
)

PAGE_SUFFIXES = (".html", ".htm")
DEFAULT_FPS = 25.0
LARGEST_SIDE_PX = 16383
"""Of what WebP holds; canvases of browsers take little more."""
_THREADS = min(4, os.cpu_count() or 1)
_T = TypeVar("_T")
_R = TypeVar("_R")


class _Encoded(NamedTuple):
    piece: Piece
    flow: EncodedFlow | None
    """Of a flow."""
    webp: bytes
    """Of a picture."""
    size: tuple[int, int]
    """(width, height) of the file, before it was made smaller."""


def view(
    results: Sequence[Path],
    output: Path,
    *,
    frames: Sequence[Path] = (),
    look_for_frames: bool = True,
    max_flow: float | None = None,
    max_side: int | None = None,
    fps: float | None = None,
    title: str | None = None,
    bound: float | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Write a page that shows flows, their colours and the frames they are of.

    Args:
        results: flow files, and folders of them; each folder is a sequence.
        output: the page, which is replaced if it is there.
        frames: a video or folder, or the images in order; when empty, what the record beside the
            flows names, as far as it is there.
        look_for_frames: False for a page without frames.
        max_flow: the magnitude in pixels shown fully saturated; when None the largest of all, but
            at least 1 px.
        max_side: flows and frames with a longer side are shown smaller: frames as means of areas,
            flows as the vectors in the middles of these.
        fps: flows a second when playing; when None the frames' own rate, or 25.
        title: the heading; when None the name of the first result.
        bound: the motion in pixels that is white in pairs of 8-bit pictures which do not record it.
        progress: show a progress bar on stderr.

    Returns:
        what was done, for a person or `--json`.

    Raises:
        PwcFlowError: a flow or the given frames cannot be read or do not belong together, or the
            page cannot be written.
    """
    if output.suffix.lower() not in PAGE_SUFFIXES:
        raise OutputError(f"cannot write {output}: a page is called NAME.html; choose such a name")
    sequences = find_flows(results)
    check_nothing_lost([output], [flow.path for item in sequences for flow in item.flows])
    check_nothing_lost([output], frames)
    check_writable(output)
    sequences = _with_pictures(sequences, frames, look_for_frames)
    paths = [flow.path for sequence in sequences for flow in sequence.flows]
    with progress_bar(len(paths) * (1 if max_flow else 2), progress, unit="flow") as bar:
        scale = max_flow or SMALLEST_SCALE_PX
        if not max_flow:
            for longest in _in_threads(lambda path: scale_of(read_flow(path, bound=bound)), paths):
                scale = max(scale, longest)
                bar.update()
        settings = {
            "flows": len(paths),
            "scale": scale,
            "fps": fps or next((item.fps for item in sequences if item.fps), DEFAULT_FPS),
            "wheel": color_wheel().tolist(),
        }
        encode = _Encoder(step_for(scale), max_side, bound)
        pictures, largest, step = 0, (0, 0), 0.0
        with replacing(output) as temporary, temporary.open("xb") as file:
            page = PageWriter(file, title or _name_of(results[0]), settings)
            with closing(pieces_of(sequences)) as pieces:
                for encoded in _in_threads(encode, pieces):
                    if isinstance(encoded.piece, Picture):
                        page.picture(encoded.piece.key, encoded.webp)
                        pictures += 1
                    elif encoded.flow:
                        page.flow(encoded.piece.index, encoded.flow, _facts(encoded))
                        largest = max(largest, encoded.size)
                        step = max(step, encoded.flow.step_px)
                        bar.update()
            page.finish()
    return {
        "results": [str(result) for result in results],
        "output": str(output),
        "flows": len(paths),
        "frames": pictures,
        "frames_from": [item.pictures for item in sequences if item.pictures],
        "why_no_frames": next((item.why_none for item in sequences if item.why_none), None),
        "width": largest[0],
        "height": largest[1],
        "max_flow_px": round(scale, 3),
        "precision_px": step / 2,
        "bytes": output.stat().st_size,
    }


class _Encoder:
    """Encodes pictures and flows, in any thread."""

    def __init__(self, step_px: float, max_side: int | None, bound: float | None) -> None:
        self._step_px = step_px
        self._selection = FrameSelection(max_side=max_side)
        self._bound = bound

    def __call__(self, piece: Piece) -> _Encoded:
        return self._picture(piece) if isinstance(piece, Picture) else self._flow(piece)

    def _picture(self, picture: Picture) -> _Encoded:
        height, width = picture.image.shape[:2]
        image = resized(picture.image, *self._selection.target(width, height))
        webp = encode_picture(image, picture.name)
        small = picture._replace(image=picture.image[:0])  # to be forgotten by now
        return _Encoded(small, None, webp, (width, height))

    def _flow(self, placed: PlacedFlow) -> _Encoded:
        flow = read_flow(placed.flow.path, bound=self._bound)
        height, width = flow.shape[:2]
        check_sizes(placed, width, height)
        shown = self._selection.target(width, height)
        if max(shown) > LARGEST_SIDE_PX:
            raise FlowFileError(
                f"{placed.flow.path} is {width} x {height} pixels, more than browsers draw; "
                "give --max-side 4096"
            )
        if shown != (width, height):
            flow = sampled(flow, *shown)
        return _Encoded(placed, encode_flow(flow, self._step_px), b"", (width, height))


def _facts(encoded: _Encoded) -> dict[str, Any]:
    assert isinstance(encoded.piece, PlacedFlow)
    placed = encoded.piece
    return {
        "name": placed.flow.path.name,
        "first": placed.first,
        "second": placed.second,
        "seconds": placed.flow.seconds,
        "file-width": encoded.size[0],
        "file-height": encoded.size[1],
    }


def _with_pictures(
    sequences: list[FlowSequence], frames: Sequence[Path], look_for_frames: bool
) -> list[FlowSequence]:
    if frames:
        if len(sequences) > 1:
            raise VideoError(
                f"--frames is for the flows of one folder, but these are of {len(sequences)}; "
                "make a page of each"
            )
        return [with_given_pictures(sequences[0], frames)]
    return [with_recorded_pictures(item) for item in sequences] if look_for_frames else sequences


def _name_of(result: Path) -> str:
    return result.name or result.resolve().name or str(result)


def _in_threads(function: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
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
