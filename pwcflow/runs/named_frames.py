"""Frames that a user names for flows: all of them, or those that were taken by the record."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from pwcflow.errors import PwcFlowError
from pwcflow.flow_file import read_flow
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.runs.recorded_frames import recorded_selection
from pwcflow.video import open_frames


def selection_for(flow_files: Sequence[Path], source: Path) -> FrameSelection | None:
    """Return what is to be taken of a video or a folder to have the frames of flows.

    It gives one frame more than there are flows, of their size: all frames, or if those are not
    so, those that the record beside the flows tells were taken. None if neither are.

    Args:
        flow_files: all of one folder.
        source: what `open_frames` takes and can be read twice.

    Raises:
        OutputError: all frames do not fit, and the record is there and cannot be read.
    """
    if _fits(flow_files, source, ALL_FRAMES):
        return ALL_FRAMES
    recorded = recorded_selection(flow_files)
    if recorded is None or recorded == ALL_FRAMES or not _fits(flow_files, source, recorded):
        return None
    return recorded


def _fits(flow_files: Sequence[Path], source: Path, selection: FrameSelection) -> bool:
    """Return whether a selection gives frames as many as the flows need, and of their size."""
    needed = len(flow_files) + 1
    with suppress(PwcFlowError), open_frames(source, selection) as frames:
        if source.is_dir() and frames.expected_frames != needed:  # known, and quickly so
            return False
        taken = iter(frames)
        first = next(taken, None)
        if first is None or first.shape[:2] != read_flow(flow_files[0]).shape[:2]:
            return False
        return source.is_dir() or sum(1 for _ in islice(taken, needed)) == needed - 1
    return False
