"""The flow files of a folder and of the folders in it."""

import os
from pathlib import Path

from pwcflow.errors import FlowFileError, reason_of
from pwcflow.flow_file import FLOW_SUFFIXES, is_flow_name
from pwcflow.video import natural_path_key


def flow_files_below(folder: Path, but: Path | None = None) -> list[Path]:
    """Return the flow files of a folder at any depth, in natural order.

    Hidden files and folders, and files that are no flow by their names, are passed over.

    Args:
        folder: where to look.
        but: the folder of the outputs, in which nothing is looked for; None if there is none.

    Raises:
        FlowFileError: there are none, or a folder cannot be listed.
    """
    found: list[Path] = []

    def stop(error: OSError) -> None:
        raise error

    skipped = but and os.path.realpath(but)
    try:
        for parent, folders, names in os.walk(folder, onerror=stop):
            inner = [name for name in folders if not name.startswith(".")]
            folders[:] = [name for name in inner if os.path.realpath(Path(parent, name)) != skipped]
            paths = (Path(parent, name) for name in names)
            found += [path for path in paths if is_flow_name(path) and path.is_file()]
    except OSError as error:
        raise FlowFileError(
            f"cannot list {folder}: {reason_of(error)}; check its permissions"
        ) from error
    if not found:
        known = ", ".join(FLOW_SUFFIXES)
        raise FlowFileError(
            f"{folder} has no flow files in it, whose names end in {known}, or in _x.jpg beside "
            "_y.jpg; name another folder"
        )
    return sorted(found, key=natural_path_key)
