"""Which flows are to be shown, and where the pictures lie that they were made of."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pwcflow.errors import FlowFileError, VideoError, reason_of
from pwcflow.flow_file import FLOW_SUFFIXES, is_flow_name
from pwcflow.runs.provenance import RECORD_NAME
from pwcflow.runs.recorded_frames import OpenFrames, frame_number_of, recorded_frames
from pwcflow.video import FrameSource, natural_key, open_frames
from pwcflow.video.frame_files import ImageFiles

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShownFlow:
    """A flow file of a sequence."""

    path: Path
    frame: int
    """The number of its first frame among the pictures of the sequence, from 0."""
    seconds: float | None = None
    """The time of that frame, if it is known."""


@dataclass(frozen=True)
class FlowSequence:
    """Flow files of one folder, and their pictures."""

    flows: tuple[ShownFlow, ...]
    open_pictures: OpenFrames | None = None
    """Opens what yields the pictures; None for no pictures."""
    pictures: str | None = None
    """Where those come from, for a person."""
    why_none: str | None = None
    """Why there are none, though they were looked for."""
    fps: float | None = None


def find_flows(results: Sequence[Path]) -> list[FlowSequence]:
    """Return the flows that files and folders stand for, in order, one sequence a folder.

    Raises:
        FlowFileError: a folder cannot be read, or has no flow files in it.
    """
    sequences: list[FlowSequence] = []
    for path in (file for result in results for file in _files_of(result)):
        if sequences and sequences[-1].flows[0].path.parent == path.parent:
            sequence = sequences.pop()
        else:
            sequence = FlowSequence(())
        flows = (*sequence.flows, ShownFlow(path, len(sequence.flows)))
        sequences.append(replace(sequence, flows=flows))
    return sequences


def with_recorded_pictures(sequence: FlowSequence) -> FlowSequence:
    """Return a sequence with the pictures that the record beside its flows tells of, if it can.

    Raises:
        OutputError: the record is there and cannot be read.
    """
    found = recorded_frames([flow.path for flow in sequence.flows])
    if found.is_of_these:
        sequence = _timed(_numbered(sequence), found.times)
    return replace(
        sequence,
        open_pictures=found.open,
        pictures=found.path,
        why_none=found.why_none,
        fps=found.fps,
    )


def with_given_pictures(sequence: FlowSequence, frames: Sequence[Path]) -> FlowSequence:
    """Return a sequence with pictures that the user names.

    A flow whose file is called by a number is of the frame with that number, as `pwcflow video`
    names them, unless there is just one frame more than there are flows; others go in order.

    Args:
        sequence: the flows.
        frames: what `open_frames` takes, or the images in order.

    Raises:
        PwcFlowError: they cannot be opened, or images do not fit in number.
    """
    several = len(frames) > 1
    if several and len(frames) != len(sequence.flows) + 1:
        flows = "1 flow lies" if len(sequence.flows) == 1 else f"{len(sequence.flows)} flows lie"
        raise VideoError(
            f"{flows} between {len(sequence.flows) + 1} images, but --frames names {len(frames)}; "
            "name each, or their folder"
        )

    def open_pictures() -> FrameSource:
        return ImageFiles(frames[0].parent, frames) if several else open_frames(frames[0])

    with open_pictures() as source:
        fps, expected = source.fps, source.expected_frames
    if expected != len(sequence.flows) + 1:
        sequence = _numbered(sequence)
    name = f"{len(frames)} images" if several else str(frames[0])
    return replace(sequence, open_pictures=open_pictures, pictures=name, fps=fps)


def _files_of(result: Path) -> Iterable[Path]:
    if not result.is_dir():
        return [result]
    try:
        entries = sorted(result.iterdir(), key=natural_key)
    except OSError as error:
        raise FlowFileError(
            f"cannot list {result}: {reason_of(error)}; check its permissions"
        ) from error
    files = [entry for entry in entries if is_flow_name(entry) and entry.is_file()]
    inner = next((entry for entry in entries if (entry / RECORD_NAME).is_file()), None)
    if files and inner:
        logger.warning(
            "flows in folders within %s are left out; name those folders too, such as %s",
            result,
            inner,
        )
    if not files:
        remedy = f"name a folder in it, as {inner}" if inner else "name the folder of the flows"
        raise FlowFileError(
            f"{result} has no flow files in it, whose names end in {', '.join(FLOW_SUFFIXES)}; "
            f"{remedy}"
        )
    return files


def _numbered(sequence: FlowSequence) -> FlowSequence:
    """Return a sequence whose flows are of the frames that their names tell, if all names do."""
    numbers = [frame_number_of(flow.path) for flow in sequence.flows]
    flows = [
        replace(flow, frame=number)
        for flow, number in zip(sequence.flows, numbers, strict=True)
        if number is not None
    ]
    return replace(sequence, flows=tuple(flows)) if len(flows) == len(numbers) else sequence


def _timed(sequence: FlowSequence, times: Sequence[float]) -> FlowSequence:
    flows = tuple(
        replace(flow, seconds=times[flow.frame]) if flow.frame < len(times) else flow
        for flow in sequence.flows
    )
    return replace(sequence, flows=flows)
