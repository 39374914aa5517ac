"""One process at a time at a folder or a file: the system ends a lock with its process."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from pwcflow.atomic_file import replacing, target_of
from pwcflow.errors import OutputError, reason_of
from pwcflow.made_folders import missing_folders, remove_empty

LOCK_NAME = ".pwcflow.lock"
_LOCK_OF_A_FILE = re.compile(r"\.pwcflow-[0-9a-f]{16}\.lock")
_TRIES = 100  # each fails only if another process made or removed the file at that very moment


class InUseError(OutputError):
    """Another process is writing into a folder, or a file."""


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone; made with its parents where it is missing.

    The folders that were made and are empty in the end are removed again. A lock that a killed
    process held is free: only its file is still there. Where the file system has no locks, a
    warning says so.

    Raises:
        InUseError: another process holds it, or this one does already.
        OutputError: the folder cannot be made or written into.
    """
    made: list[Path] = []
    try:
        with _held(folder / LOCK_NAME, folder, partial(_make, folder, made)):
            yield
    finally:
        remove_empty(made)


@contextmanager
def locked_file(path: Path) -> Iterator[str]:
    """Hold a file for this process alone; what killed processes left of it is removed.

    Yield the `mark` for `replacing`, by which the next process finds what this one leaves if it is
    killed. Where the file system has no locks the mark is empty and nothing is removed, as nobody
    knows then who is alive; a warning says so, once for each folder.

    Raises:
        InUseError: another process holds `path`, or this one does already.
        OutputError: as in `replacing`.
    """
    target = target_of(path)
    mark = f"pwcflow-{sha256(os.fsencode(target.name)).hexdigest()[:16]}"  # of any name's length
    lock = target.with_name(f".{mark}.lock")
    with _held(lock, path, partial(target_of, path)) as is_alone:
        if is_alone:
            _remove_marked(lock)
        yield f"{mark}-" if is_alone else ""


@contextmanager
def replacing_alone(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling as `replacing` does, while `locked_file` holds `path`.

    For what takes long to write, or is large.

    Raises:
        InUseError: another process writes `path`, or this one does already.
        OutputError: as in `replacing`.
    """
    with locked_file(path) as mark, replacing(path, mark=mark) as temporary:
        yield temporary


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in a folder of files that `locked_file` held.

    What living processes write stays. Where the file system has no locks, only the locks go.
    """
    for lock in folder.glob(".pwcflow-*.lock"):
        if _LOCK_OF_A_FILE.fullmatch(lock.name):
            with suppress(OutputError), _held(lock, lock, partial(target_of, lock)) as is_alone:
                if is_alone:
                    _remove_marked(lock)


def _remove_marked(lock: Path) -> None:
    for left in lock.parent.glob(f"{lock.stem}-*"):
        with suppress(OSError):  # it takes space, and nothing else
            left.unlink()


@contextmanager
def _held(path: Path, what: Path, prepare: Callable[[], object]) -> Iterator[bool]:
    """Hold the lock `path` of `what`; yield False where the file system has no locks."""
    descriptor, is_alone = _lock(path, what, prepare)
    try:
        yield is_alone
    finally:
        _release(path, descriptor)


def _make(folder: Path, made: list[Path]) -> None:
    made.extend(parent for parent in missing_folders(folder) if parent not in made)
    folder.mkdir(parents=True, exist_ok=True)


def _lock(path: Path, what: Path, prepare: Callable[[], object]) -> tuple[int, bool]:
    try:
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # it was empty, and its maker has just removed it
                descriptor = _open(path, prepare)
                is_alone = _take(path, what, descriptor)
                if is_alone is not None:
                    return descriptor, is_alone
    except OSError as error:
        if isinstance(error, PermissionError) and os.path.lexists(path):
            raise OutputError(
                f"cannot write {what}: there is no permission to open its lock {path}, which a "
                "process of another user holds or left when it was killed; remove that file if "
                "none writes there, or choose another output"
            ) from error
        raise OutputError(
            f"cannot write {what}: {reason_of(error)}; choose another output"
        ) from error
    raise InUseError(f"{what} keeps changing under another process; wait until that ends")


def _open(path: Path, prepare: Callable[[], object]) -> int:
    flags = os.O_RDWR | os.O_CREAT
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:  # the folder is missing
        prepare()
        return os.open(path, flags, 0o666)


def _take(path: Path, what: Path, descriptor: int) -> bool | None:
    """Lock an open file, and return whether it is locked: False where there are no locks.

    None when its last holder has removed it, so that it would lock nothing.
    """
    try:
        _lock_file(descriptor)
        current = path.stat()
        if os.path.samestat(current, os.fstat(descriptor)):
            return True
    except (BlockingIOError, PermissionError) as error:
        os.close(descriptor)
        raise InUseError(
            f"{what} is being written by another process; wait until that ends, or choose "
            "another output"
        ) from error
    except FileNotFoundError:
        pass
    except OSError as error:
        _warn_of_no_locks(path.parent.absolute(), reason_of(error))
        return False
    os.close(descriptor)
    return None


@cache  # a training asks every few minutes: once for each folder is enough
def _warn_of_no_locks(folder: Path, reason: str) -> None:
    logging.getLogger(__name__).warning(
        "files in %s cannot be locked (%s): let no other process write into it", folder, reason
    )


def _release(path: Path, descriptor: int) -> None:
    """Remove the file while it is locked, so that nobody locks one that is about to go.

    Another file that has come in its place, after the folder was removed, is another process's.
    Windows does not remove a file that is open: there it goes afterwards, unless somebody else has
    opened it by then.
    """
    is_ours = False
    with suppress(OSError):
        is_ours = os.path.samestat(path.stat(), os.fstat(descriptor))
        if is_ours:
            path.unlink()
    os.close(descriptor)
    if sys.platform == "win32" and is_ours:
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
