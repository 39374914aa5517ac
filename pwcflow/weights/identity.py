"""Which checkpoint a name or a file is: told without PyTorch, which takes seconds to load."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from pwcflow.errors import WeightsError, reason_of
from pwcflow.weights.cache import cache_folder, sha256_when_downloaded
from pwcflow.weights.catalogue import CHECKPOINTS, Checkpoint

_DIGITS = 8
"""Of a SHA-256 in an error: all that some publishers give."""


@dataclass(frozen=True)
class Provenance:
    """Where weights come from, so that a result can say what made it."""

    name: str
    """The checkpoint's name, or the path of its file where it has none."""
    sha256: str
    """Of the whole file."""
    licence: str | None = None
    """One sentence; None for a file not known here."""
    trained_on: str | None = None
    """The data sets; None for a file not known here."""


def named_checkpoint(name_or_path: str | Path) -> Checkpoint | None:
    """Return the checkpoint of that name; a `Path` is always a file."""
    return CHECKPOINTS.get(name_or_path) if isinstance(name_or_path, str) else None


def file_of(checkpoint: Checkpoint) -> Path:
    """Return where a checkpoint is, or is to be downloaded to."""
    if not checkpoint.url:
        return Path(__file__).with_name(checkpoint.file_name)
    return cache_folder() / checkpoint.file_name


def given_file(name_or_path: str | Path) -> Path:
    """Return the file of what is no checkpoint's name.

    Raises:
        WeightsError: there is none.
    """
    path = Path(os.path.expanduser(name_or_path))  # noqa: PTH111 - leaves an unknown ~user be
    try:
        path.stat()
    except PermissionError as error:
        raise WeightsError(
            f"{path} cannot be read: {reason_of(error)}; check the permissions of its folder"
        ) from error
    except (OSError, ValueError):  # what cannot be a path, too
        raise WeightsError(
            f"there are no weights '{name_or_path}': no checkpoint has this name and no file "
            f"this path; the names are {', '.join(CHECKPOINTS)}"
        ) from None
    return path


def provenance_of(name_or_path: str | Path) -> Provenance | None:
    """Return what `load_weights` would tell of its weights; None where the file cannot be read.

    Raises:
        WeightsError: there is no such name or file, or the file of a name is not the one meant.
    """
    checkpoint = named_checkpoint(name_or_path)
    try:
        if checkpoint:
            return provenance_of_named(checkpoint, file_of(checkpoint))
        return provenance_of_file(given_file(name_or_path), name_or_path)
    except OSError:  # `load_weights` tells why, or downloads it
        return None


def provenance_of_named(checkpoint: Checkpoint, path: Path) -> Provenance:
    """Return the provenance of a named checkpoint, whose file is compared with what is known of it.

    That is its published SHA-256; where there is none, the one it had when it was downloaded.

    Raises:
        OSError: the file cannot be read.
        WeightsError: its SHA-256 is not the checkpoint's: nothing else tells damaged weights, with
            which the network computes plausible nonsense.
    """
    sha256 = sha256_of(path)
    expected = checkpoint.sha256 or sha256_when_downloaded(path)
    if not sha256.startswith(expected):
        raise WeightsError(
            f"{path} is not the file of weights '{checkpoint.name}': its SHA-256 begins with "
            f"{sha256[:_DIGITS]}, not {expected[:_DIGITS]}, so it is damaged or another "
            f"file; {remedy(checkpoint)}"
        )
    return _provenance(checkpoint, sha256)


def provenance_of_file(path: Path, given: str | Path) -> Provenance:
    """Return the provenance of a file, which may be known by its SHA-256.

    Raises:
        OSError: the file cannot be read.
    """
    sha256 = sha256_of(path)
    known = next((known for known in CHECKPOINTS.values() if known.matches(sha256)), None)
    return _provenance(known, sha256) if known else Provenance(str(given), sha256)


def remedy(checkpoint: Checkpoint) -> str:
    """Return what to do about a named checkpoint whose file cannot be used."""
    return "remove it, and it is downloaded again" if checkpoint.url else "reinstall pwcflow"


def _provenance(checkpoint: Checkpoint, sha256: str) -> Provenance:
    return Provenance(checkpoint.name, sha256, checkpoint.licence, checkpoint.trained_on)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
