"""The network's weights, from a name or a file, under our names and checked against the network."""

import os
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from pwcflow.errors import WeightsError
from pwcflow.weights.catalogue import CHECKPOINTS, Checkpoint
from pwcflow.weights.download import fetch
from pwcflow.weights.files import load_tensors, sha256_of
from pwcflow.weights.layouts import rename

__all__ = ["CHECKPOINTS", "Checkpoint", "Provenance", "Weights", "load_weights"]


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


@dataclass(frozen=True)
class Weights:
    """Weights and where they come from."""

    state: dict[str, Tensor]
    """`PwcNet`'s state dict, float32, on the CPU."""
    provenance: Provenance


def load_weights(name_or_path: str | Path, *, quiet: bool = False) -> Weights:
    """Return the weights of a named checkpoint or a file, ready for `PwcNet.load_state_dict`.

    Args:
        name_or_path: a name in `CHECKPOINTS`, which may download it, or the path of a checkpoint.
            A `Path` is always a file; a `str` is a name if there is one. A file that is known by
            its SHA-256 has its name and licence even if it was given by its path.
        quiet: show no progress of a download.

    Raises:
        WeightsError: there is no such name or file, the file is damaged or of another network, or
            the download failed.
    """
    checkpoint = CHECKPOINTS.get(name_or_path) if isinstance(name_or_path, str) else None
    if checkpoint:
        path = _file_of(checkpoint, quiet=quiet)
    else:
        path = Path(os.path.expanduser(name_or_path))  # noqa: PTH111 - leaves an unknown ~user be
        if not os.path.exists(path):  # noqa: PTH110 - False, not an error, for what cannot be a path
            raise WeightsError(
                f"there are no weights '{name_or_path}': no checkpoint has this name and no file "
                f"this path; the names are {', '.join(CHECKPOINTS)}"
            )
    state = rename(load_tensors(path), path)
    sha256 = sha256_of(path)
    if checkpoint is None:
        checkpoint = next((known for known in CHECKPOINTS.values() if known.matches(sha256)), None)
    if checkpoint is None:
        return Weights(state, Provenance(str(name_or_path), sha256))
    provenance = Provenance(checkpoint.name, sha256, checkpoint.licence, checkpoint.trained_on)
    return Weights(state, provenance)


def _file_of(checkpoint: Checkpoint, *, quiet: bool) -> Path:
    if not checkpoint.url:
        return Path(__file__).with_name(checkpoint.file_name)
    return fetch(checkpoint, quiet=quiet)
