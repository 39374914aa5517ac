"""Which flows are to be shown, and where the pictures lie that they were made of."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pwcflow.errors import FlowFileError, PwcFlowError, VideoError, reason_of
from pwcflow.flow_file import FLOW_SUFFIXES, is_flow_name
from pwcflow.frame_selection import selection_of
from pwcflow.runs.provenance import RECORD_NAME, Record, input_of, read_record
from pwcflow.video import FrameSource, natural_key, open_frames
from pwcflow.video.frame_files import ImageFiles

OpenPictures = Callable[[], FrameSource]


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
    open_pictures: OpenPictures | None = None
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
    folder = sequence.flows[0].path.parent
    record = read_record(folder)
    if record is None:
        return replace(sequence, why_none=f"there is no {RECORD_NAME} beside the flows")
    if not all(_number_of(flow.path) is not None for flow in sequence.flows):
        return replace(sequence, why_none=f"{folder / RECORD_NAME} is of other flows")
    sequence = _timed(_numbered(sequence), record)
    try:
        path, open_pictures = _recorded_source(record)
        with open_pictures() as source:
            fps = source.fps
    except PwcFlowError as error:
        return replace(sequence, why_none=str(error))
    return replace(sequence, open_pictures=open_pictures, pictures=path, fps=fps or sequence.fps)


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
    if not files:
        inner = next((entry for entry in entries if (entry / RECORD_NAME).is_file()), None)
        remedy = f"name a folder in it, as {inner}" if inner else "name the folder of the flows"
        raise FlowFileError(
            f"{result} has no flow files in it, whose names end in {', '.join(FLOW_SUFFIXES)}; "
            f"{remedy}"
        )
    return files


def _recorded_source(record: Record) -> tuple[str, OpenPictures]:
    """Return the path of the frames that a record tells of, and what opens them.

    Raises:
        VideoError: they are not there, not what they were, or the record does not tell.
    """
    told = record.get("input")
    if not isinstance(told, dict) or not isinstance(told.get("path"), str):
        raise VideoError(f"{RECORD_NAME} does not tell of which frames the flows are")
    path, settings = told["path"], told.get("settings")
    if told.get("fingerprint") is None:
        raise VideoError(f"the frames came from {path}, which is no file")
    if not isinstance(settings, dict):
        raise VideoError(f"{RECORD_NAME} does not tell which frames of {path} were taken")
    if input_of(Path(path), settings)["fingerprint"] != told["fingerprint"]:
        raise VideoError(f"{path} has changed since")
    try:
        selection = selection_of(settings)
    except ValueError as error:
        raise VideoError(f"{RECORD_NAME} tells {error}") from error
    return path, lambda: open_frames(Path(path), selection)


def _numbered(sequence: FlowSequence) -> FlowSequence:
    """Return a sequence whose flows are of the frames that their names tell, if all names do."""
    numbers = [_number_of(flow.path) for flow in sequence.flows]
    flows = [
        replace(flow, frame=number)
        for flow, number in zip(sequence.flows, numbers, strict=True)
        if number is not None
    ]
    return replace(sequence, flows=tuple(flows)) if len(flows) == len(numbers) else sequence


def _number_of(path: Path) -> int | None:
    stem = path.stem
    return int(stem) if stem.isascii() and stem.isdigit() and len(stem) <= 18 else None


def _timed(sequence: FlowSequence, record: Record) -> FlowSequence:
    times = record.get("timestamps_s")
    if not isinstance(times, list) or not all(isinstance(time, (int, float)) for time in times):
        return sequence
    flows = tuple(
        replace(flow, seconds=float(times[flow.frame])) if flow.frame < len(times) else flow
        for flow in sequence.flows
    )
    length = times[-1] - times[0] if times else 0
    return replace(sequence, flows=flows, fps=(len(times) - 1) / length if length > 0 else None)
