"""The flow files of a run in a folder: their names, and which of them are whole."""

import re
from contextlib import suppress
from pathlib import Path

from pwcflow.errors import PwcFlowError
from pwcflow.flow_file import FLOW_SUFFIXES, check_written, read_flow

DEFAULT_SUFFIX = ".flo"
# Up to ten million frames: two days of video. Other numbers, such as dates, are not ours to remove.
_NUMBERED = re.compile(r"([0-9]{6}|[1-9][0-9]{6})(\.[a-z0-9]+)")


def flow_file(folder: Path, number: int, suffix: str = DEFAULT_SUFFIX) -> Path:
    """Return the file of a flow, which is numbered by the first of its two frames."""
    return folder / f"{number:06d}{suffix}"


def number_of(path: Path) -> int | None:
    """Return the number of a file that is named as the flows of a run are; None for others."""
    numbered = _NUMBERED.fullmatch(path.name)
    return int(numbered[1]) if numbered and numbered[2] in FLOW_SUFFIXES else None


def numbered_flows(folder: Path, suffix: str = DEFAULT_SUFFIX) -> list[Path]:
    """Return the files that are named as the flows of a run are, by their numbers."""
    files = folder.iterdir() if folder.is_dir() else ()
    flows = [path for path in files if path.suffix == suffix and number_of(path) is not None]
    return sorted(flows, key=lambda path: (int(path.stem), path.name))


def usable_flows(folder: Path, height: int, width: int, suffix: str = DEFAULT_SUFFIX) -> int:
    """Return how many flow files of an earlier run are there from the first on, whole, in a size.

    The first and the last one are read. Of those between, beginning, length and end are looked at,
    as `check_written` does: files appear whole or not at all, but for a power cut.
    """
    size = height, width
    count = 0
    for path in numbered_flows(folder, suffix):
        if path != flow_file(folder, count, suffix):
            break
        try:
            check_written(path, size)
            if count == 0 and read_flow(path).shape[:2] != size:
                break
        except PwcFlowError:
            break
        count += 1
    while count:
        with suppress(PwcFlowError):
            if read_flow(flow_file(folder, count - 1, suffix)).shape[:2] == size:
                return count
        count -= 1
    return 0
