"""The frames that flows were made of, as far as the record beside the flows knows them."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pwcflow.errors import PwcFlowError, VideoError
from pwcflow.flow_file import kind_of
from pwcflow.frame_selection import FrameSelection, selection_of
from pwcflow.runs.provenance import RECORD_NAME, Record, input_of, read_record, record_or_fault
from pwcflow.video import FrameSource, open_frames
from pwcflow.video.find import files_of

OpenFrames = Callable[[], FrameSource]


@dataclass(frozen=True, kw_only=True)
class RecordedFrames:
    """What is known about the frames of some flows."""

    is_of_these: bool = False
    """Whether there is a record, and the flows may be those that it tells of."""
    times: tuple[float, ...] = ()
    """Those of the frames in seconds; empty if unknown."""
    fps: float | None = None
    """Frames taken per second: what the source tells, else the mean by `times`."""
    open: OpenFrames | None = None
    """Opens what yields the frames; None if that is no longer there."""
    path: str | None = None
    """Where that is, for a person."""
    why_none: str | None = None
    """Why it cannot be opened, with what to do about that if there is anything."""
    has_remedy: bool = False
    """Whether there is."""


def recorded_frames(flow_files: Sequence[Path]) -> RecordedFrames:
    """Return what the record beside flows, all of one folder, tells of their frames.

    Raises:
        OutputError: the record is there and cannot be read.
    """
    folder = flow_files[0].parent
    record = record_or_fault(folder)
    if isinstance(record, str):
        return RecordedFrames(why_none=f"{RECORD_NAME} beside the flows {record}")
    if any(frame_number_of(path) is None for path in flow_files):
        return RecordedFrames(why_none=f"{folder / RECORD_NAME} is of other flows")
    times = tuple(map(float, record.get("timestamps_s") or ()))
    known = RecordedFrames(is_of_these=True, times=times, fps=_rate_of(times))
    try:
        found = _source_of(record)
        if isinstance(found, str):
            return replace(known, why_none=found)
        path, open_them = found
        with open_them() as source:
            fps = source.fps
    except PwcFlowError as error:
        return replace(known, why_none=str(error), has_remedy=True)
    return replace(known, open=open_them, path=path, fps=fps or known.fps)


def recorded_selection(flow_files: Sequence[Path]) -> FrameSelection | None:
    """Return which frames the record beside flows, all of one folder, tells were taken.

    Returns:
        None without a record, or where it does not tell, or is of other flows.

    Raises:
        OutputError: the record is there and cannot be read.
    """
    record = read_record(flow_files[0].parent)
    settings = record.get("input", {}).get("settings") if record else None
    if settings is None or any(frame_number_of(path) is None for path in flow_files):
        return None
    with suppress(ValueError):
        return selection_of(settings)
    return None


def has_record(flows: Path) -> bool:
    """Return whether a record lies beside a flow file, or in a folder at any depth.

    Raises:
        FlowFileError: there is no such flow file, of which a record beside it cannot be.
    """
    if flows.is_dir():
        return next(flows.rglob(RECORD_NAME), None) is not None
    kind_of(flows)
    return os.path.lexists(flows.parent / RECORD_NAME)


def frame_number_of(path: Path) -> int | None:
    """Return the number of the first frame of a flow file, if its name tells one."""
    stem = path.stem
    return int(stem) if stem.isascii() and stem.isdigit() and len(stem) <= 18 else None


def _source_of(record: Record) -> tuple[str, OpenFrames] | str:
    """Return the path of the frames that a record tells of, and what opens them; or why none.

    Raises:
        VideoError: they are not there, or cannot be read.
    """
    told = record.get("input", {})
    if "path" not in told:
        return f"{RECORD_NAME} does not tell of which frames the flows are"
    path, settings = told["path"], told.get("settings")
    if told.get("fingerprint") is None:
        return f"the frames came from {path}, which is no file"
    if settings is None:
        return f"{RECORD_NAME} does not tell which frames of {path} were taken"
    if _are_gone(Path(path)):
        raise VideoError(f"the frames of {path} are gone; put them back")
    if input_of(Path(path), settings)["fingerprint"] != told["fingerprint"]:
        return f"{path} has changed since"
    try:
        selection = selection_of(settings)
    except ValueError as error:
        return f"{RECORD_NAME} tells {error}"
    return path, lambda: open_frames(Path(path), selection)


def _are_gone(source: Path) -> bool:
    """Return whether nothing is left of the frames of a file, folder or pattern."""
    try:
        files = files_of(source)
        if files:
            files[0].stat()
    except FileNotFoundError:
        return True
    except OSError:  # which whoever reads them tells
        return False
    return files == []


def _rate_of(times: Sequence[float]) -> float | None:
    length = times[-1] - times[0] if times else 0
    return (len(times) - 1) / length if length > 0 else None
