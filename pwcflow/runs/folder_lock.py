"""One process at a time in a folder, held by the system: a lock ends with its process."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pwcflow.errors import OutputError, reason_of

LOCK_NAME = ".pwcflow.lock"
_TRIES = 100  # each fails only if another process made or removed the file at that very moment


class FolderInUseError(OutputError):
    """Another process is writing into a folder."""


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone; made with its parents where it is missing.

    The folders that were made and are empty in the end are removed again. A lock that a killed
    process held is free: only its file is still there. Where the file system has no locks, a
    warning says so.

    Raises:
        FolderInUseError: another process holds it, or this one does already.
        OutputError: the folder cannot be made or written into.
    """
    made: list[Path] = []
    try:
        descriptor = _lock(folder, made)
        try:
            yield
        finally:
            _release(folder / LOCK_NAME, descriptor)
    finally:
        for empty in made:
            with suppress(OSError):  # it has got files, or another process has made use of it
                empty.rmdir()


def _lock(folder: Path, made: list[Path]) -> int:
    path = folder / LOCK_NAME
    try:
        for _ in range(_TRIES):
            missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
            made.extend(parent for parent in missing if parent not in made)
            with suppress(FileNotFoundError):  # it was empty, and its maker has just removed it
                folder.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
                if _take(folder, path, descriptor):
                    return descriptor
    except OSError as error:
        raise OutputError(
            f"cannot write into the folder {folder}: {reason_of(error)}; choose another"
        ) from error
    raise FolderInUseError(f"{folder} keeps changing under another process; wait until that ends")


def _take(folder: Path, path: Path, descriptor: int) -> bool:
    """Lock an open file; False when its last holder has removed it, so that it locks nothing."""
    try:
        _lock_file(descriptor)
        current = path.stat()
        if os.path.samestat(current, os.fstat(descriptor)):
            return True
    except (BlockingIOError, PermissionError) as error:
        os.close(descriptor)
        raise FolderInUseError(
            f"{folder} is being written by another process; wait until that ends, or choose "
            "another folder"
        ) from error
    except FileNotFoundError:
        pass
    except OSError as error:
        logging.getLogger(__name__).warning(
            "%s cannot be locked (%s): let no other process write into it", folder, reason_of(error)
        )
        return True
    os.close(descriptor)
    return False


def _release(path: Path, descriptor: int) -> None:
    """Remove the file while it is locked, so that nobody locks one that is about to go.

    Windows does not remove a file that is open: there it goes afterwards, unless somebody else has
    opened it by then.
    """
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)
    if sys.platform == "win32":
        with suppress(OSError):
            path.unlink()


if sys.platform == "win32":
    import msvcrt

    def _lock_file(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock_file(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
