"""Flow files in, a page out: needs no torch."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pwcflow.atomic_file import check_writable
from pwcflow.color import SMALLEST_SCALE_PX, color_wheel
from pwcflow.color.scale import scale_of
from pwcflow.errors import OutputError, VideoError
from pwcflow.flow_file import read_flow
from pwcflow.locks import replacing_alone
from pwcflow.outputs import check_nothing_lost
from pwcflow.progress import progress_bar
from pwcflow.video import DEFAULT_FPS
from pwcflow.viewer.encoder import EncodedPicture, Encoder, in_threads
from pwcflow.viewer.encoding import step_for
from pwcflow.viewer.page import PageWriter
from pwcflow.viewer.pieces import pieces_of
from pwcflow.viewer.results import (
    FlowSequence,
    find_flows,
    with_given_pictures,
    with_recorded_pictures,
)

_PAGE_SUFFIXES = (".html", ".htm")


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
    if output.suffix.lower() not in _PAGE_SUFFIXES:
        raise OutputError(f"cannot write {output}: a page is called NAME.html; choose such a name")
    sequences = find_flows(results)
    check_nothing_lost([output], [flow.path for item in sequences for flow in item.flows])
    check_nothing_lost([output], frames)
    check_writable(output)
    sequences = _with_pictures(sequences, frames, look_for_frames)
    paths = [flow.path for sequence in sequences for flow in sequence.flows]
    with progress_bar(len(paths) * (1 if max_flow else 2), progress, unit="flow") as bar:
        scale = max_flow or _largest_scale(paths, bound, bar.update)
        settings = {
            "flows": len(paths),
            "scale": scale,
            "fps": fps or next((item.fps for item in sequences if item.fps), DEFAULT_FPS),
            "wheel": color_wheel().tolist(),
        }
        encoder = Encoder(step_for(scale), max_side, bound)
        with replacing_alone(output) as temporary, temporary.open("xb") as file:
            page = PageWriter(file, title or _name_of(results[0]), settings)
            contents = _write_pieces(page, sequences, encoder, bar.update)
            page.finish()
    return {
        "results": [str(result) for result in results],
        "output": str(output),
        "flows": len(paths),
        "frames": contents.pictures,
        "frames_from": [item.pictures for item in sequences if item.pictures],
        "why_no_frames": next((item.why_none for item in sequences if item.why_none), None),
        "width": contents.size[0],
        "height": contents.size[1],
        "max_flow_px": round(scale, 3),
        "precision_px": contents.step_px / 2,
        "bytes": output.stat().st_size,
    }


class _Contents(NamedTuple):
    pictures: int
    size: tuple[int, int]
    """(width, height) of the largest flow."""
    step_px: float
    """The largest."""


def _write_pieces(
    page: PageWriter,
    sequences: list[FlowSequence],
    encoder: Encoder,
    update: Callable[[], object],
) -> _Contents:
    pictures, size, step = 0, (0, 0), 0.0
    with (
        closing(pieces_of(sequences)) as pieces,
        closing(in_threads(encoder, pieces)) as encoded_pieces,
    ):
        for encoded in encoded_pieces:
            if isinstance(encoded, EncodedPicture):
                page.picture(encoded.key, encoded.webp)
                pictures += 1
            else:
                page.flow(encoded.place, encoded.flow, encoded.facts)
                size = max(size, encoded.size)
                step = max(step, encoded.flow.step_px)
                update()
    return _Contents(pictures, size, step)


def _largest_scale(
    paths: Sequence[Path], bound: float | None, update: Callable[[], object]
) -> float:
    scale = SMALLEST_SCALE_PX
    with closing(in_threads(lambda path: scale_of(read_flow(path, bound=bound)), paths)) as scales:
        for longest in scales:
            scale = max(scale, longest)
            update()
    return scale


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
