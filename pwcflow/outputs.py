"""What is known about outputs before the work: a command that cannot write tells so at once."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pwcflow.atomic_file import check_folder_writable
from pwcflow.errors import OutputError, reason_of
from pwcflow.flow_file import FLOW_SUFFIXES
from pwcflow.image_file import IMAGE_SUFFIXES
from pwcflow.made_folders import missing_folders, remove_empty
from pwcflow.video.find import places_of_frames
from pwcflow.video_writer import VIDEO_SUFFIXES

_FILE_SUFFIXES = {*IMAGE_SUFFIXES, *FLOW_SUFFIXES, *VIDEO_SUFFIXES}


def check_nothing_lost(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Raise `OutputError` if an output would take the place of an input, or of another output."""
    taken = {os.path.realpath(path) for path in inputs}
    for output in filter(None, outputs):
        if os.path.realpath(output) in taken:
            raise OutputError(
                f"cannot write {output}: it is an input, or another output; choose another name"
            )
        taken.add(os.path.realpath(output))


def check_no_frames(outputs: Iterable[Path], videos: Iterable[Path]) -> None:
    """Raise `OutputError` if an output would be, or replace, a frame of a folder or pattern."""
    taken = {place: video for video in videos for place in places_of_frames(video)}
    for output in outputs:
        if output.suffix.lower() not in IMAGE_SUFFIXES:
            continue
        folder = os.path.realpath(output.parent)
        video = taken.get((folder, None)) or taken.get((folder, output.suffix))
        if video:
            raise OutputError(
                f"cannot write {output}: it would be taken for a frame of {video}; choose another "
                "folder"
            )


def check_no_flows(outputs: Iterable[Path], folders: Iterable[Path]) -> None:
    """Raise `OutputError` if an output would be taken for a flow of a folder, once written."""
    taken = {os.path.realpath(folder): folder for folder in folders}
    for output in outputs:
        folder = taken.get(os.path.realpath(output.parent))
        if folder and output.suffix.lower() in FLOW_SUFFIXES:
            raise OutputError(
                f"cannot write {output}: it would be taken for a flow of {folder}; choose another "
                "folder"
            )


def check_folder(folder: Path, why: str, *, any_name: bool = False) -> None:
    """Raise `OutputError` unless `folder` can be written into, or be made with its parents.

    Args:
        folder: where files are to go.
        why: the reason that it must be a folder, for the message.
        any_name: whether it may be called like a file, as the user has not chosen its name.
    """
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise OutputError(f"{why}, but {existing} is a file; choose another name")
    if not any_name and existing != folder and folder.suffix.lower() in _FILE_SUFFIXES:
        raise OutputError(
            f"{why}, but {folder} is the name of a file; choose one without {folder.suffix}"
        )
    check_folder_writable(existing)


def make_folder(folder: Path) -> None:
    """Make a folder with its parents, where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot make the folder {folder}: {reason_of(error)}; choose another"
        ) from error


@contextmanager
def folder_for_now(folder: Path) -> Iterator[None]:
    """Make a folder and its missing parents; in the end remove those made, if they are empty."""
    missing = missing_folders(folder)
    try:
        make_folder(folder)
        yield
    finally:
        remove_empty(missing)
