"""Which checkpoint a name or a file is: told without PyTorch, which takes seconds to load."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from pwcflow.errors import WeightsError
from pwcflow.weights.cache import cache_folder
from pwcflow.weights.catalogue import CHECKPOINTS, Checkpoint


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
    if not os.path.exists(path):  # noqa: PTH110 - False, not an error, for what cannot be a path
        raise WeightsError(
            f"there are no weights '{name_or_path}': no checkpoint has this name and no file "
            f"this path; the names are {', '.join(CHECKPOINTS)}"
        )
    return path


def provenance_of(name_or_path: str | Path) -> Provenance | None:
    """Return what `load_weights` would tell of its weights; None where the file cannot be read.

    Raises:
        WeightsError: there is no such name or file.
    """
    checkpoint = named_checkpoint(name_or_path)
    path = file_of(checkpoint) if checkpoint else given_file(name_or_path)
    try:
        return described(name_or_path, checkpoint, path)
    except OSError:  # `load_weights` tells why
        return None


def described(name_or_path: str | Path, checkpoint: Checkpoint | None, path: Path) -> Provenance:
    """Return the provenance of a file, which may be known by its SHA-256."""
    sha256 = sha256_of(path)
    if checkpoint is None:
        checkpoint = next((known for known in CHECKPOINTS.values() if known.matches(sha256)), None)
    if checkpoint is None:
        return Provenance(str(name_or_path), sha256)
    return Provenance(checkpoint.name, sha256, checkpoint.licence, checkpoint.trained_on)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
