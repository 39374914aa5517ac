"""Folders that a command makes: those that are empty in the end are removed again."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def missing_folders(folder: Path) -> list[Path]:
    """Return a folder and its parents as far as they are not there, the innermost first."""
    return [parent for parent in (folder, *folder.parents) if not parent.exists()]


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders, the innermost first, as far as they are empty."""
    for folder in folders:
        with suppress(OSError):  # it has got files, or another process has made use of it
            folder.rmdir()
