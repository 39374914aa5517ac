"""Files that appear whole or not at all."""

import errno
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from pwcflow.errors import OutputError, reason_of

_REMEDIES = {
    errno.EACCES: "write to a folder you may write to",
    errno.EPERM: "write to a folder you may write to",
    errno.EROFS: "write to a folder that is not read-only",
    errno.ENOSPC: "free some space or write to another disk",
    errno.EDQUOT: "free some space or write to another disk",
    errno.EFBIG: "write to a file system that takes larger files",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def replacing(path: Path, *, mark: str = "") -> Iterator[Path]:
    """Yield a temporary sibling that becomes `path` when the block succeeds.

    The sibling does not exist yet: the block creates it, so that it has the permissions of any new
    file. Its suffix is that of `path`, since many writers choose the format by it. When the block
    raises anything, KeyboardInterrupt included, the sibling is removed and `path` stays as it was.
    A symbolic link is followed, so the link survives and the file it names is replaced.

    Args:
        path: the file.
        mark: what the name of the sibling begins with, so that it is known after a kill.

    Raises:
        OutputError: the folder is missing, `path` is a folder or a device, the block wrote no file,
            or the system refuses to write. An OSError about another file is passed on unchanged.
    """
    # Each question to the system costs: threads that write into one folder wait for each other.
    target = target_of(path)
    temporary = target.with_name(f".{mark}{secrets.token_hex(8)}{target.suffix}")
    try:
        yield temporary
        try:
            temporary.replace(target)
        except FileNotFoundError:
            if not target.parent.is_dir():
                raise
            raise OutputError(
                f"cannot write {path}: the encoder produced no file; choose another format"
            ) from None
    except BaseException as error:
        with suppress(OSError):  # the failure has its own message
            temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        if error.filename is not None and Path(error.filename) != temporary:
            raise
        raise _output_error(path, error) from error


def check_writable(path: Path) -> None:
    """Raise `OutputError` if `replacing(path)` could not work: ask before a long computation."""
    _check_takes_files(target_of(path).parent, path)


def check_folder_writable(folder: Path) -> None:
    """Raise `OutputError` if no file can be written into an existing folder."""
    _check_takes_files(folder, folder)


def _check_takes_files(folder: Path, path: Path) -> None:
    """Make a file in a folder for a moment: no list of permissions knows all refusals.

    Where the system can, it never has a name, and none is left when this process is killed.
    """
    try:
        with TemporaryFile(dir=folder, prefix="."):
            pass
    except OSError as error:
        raise _output_error(path, error) from error


def target_of(path: Path) -> Path:
    """Return the regular file that writing to `path` would create or overwrite.

    Raises:
        OutputError: the folder is missing, or `path` is a folder or a device.
    """
    try:
        target, mode = path, _mode_of(path)
        if stat.S_ISLNK(mode):
            target = path.resolve()
            mode = _mode_of(target)
        if stat.S_ISDIR(mode):
            raise OutputError(f"cannot write {path}: it is a folder; add a file name to it")
        if mode and not stat.S_ISREG(mode):
            raise OutputError(f"cannot write {path}: it is not a regular file; choose another name")
        if target.parent.is_dir():
            return target
        if target.parent.exists():
            raise OutputError(
                f"cannot write {path}: {target.parent} is a file; choose a folder for the output"
            )
    except OSError as error:
        raise _output_error(path, error) from error
    except RuntimeError as error:  # how Python before 3.13 reports links that form a loop
        raise OutputError(
            f"cannot write {path}: its symbolic links form a loop; choose another name"
        ) from error
    raise OutputError(
        f"cannot write {path}: the folder {target.parent} does not exist; create it first"
    )


def _mode_of(path: Path) -> int:
    """Return what kind of file it is, as `stat` tells; 0 if there is none."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _output_error(path: Path, error: OSError) -> OutputError:
    remedy = _REMEDIES.get(error.errno or 0, "check the folder and the disk, or write elsewhere")
    return OutputError(f"cannot write {path}: {reason_of(error)}; {remedy}")
