"""The network's weights, from a name or a file, under our names and checked against the network.

Which ones a name means is told without PyTorch; loading them takes it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pwcflow.errors import WeightsError, reason_of
from pwcflow.weights.catalogue import CHECKPOINTS, Checkpoint
from pwcflow.weights.identity import (
    Provenance,
    file_of,
    given_file,
    named_checkpoint,
    provenance_of,
    provenance_of_file,
    provenance_of_named,
    remedy,
)

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CHECKPOINTS", "Checkpoint", "Provenance", "Weights", "load_weights", "provenance_of"]


@dataclass(frozen=True)
class Weights:
    """Weights and where they come from."""

    state: "dict[str, Tensor]"
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
        WeightsError: there is no such name or file, the file is damaged or of another network, it
            is not the one that the name means, or the download failed.
    """
    from pwcflow.weights.download import fetch
    from pwcflow.weights.files import load_tensors
    from pwcflow.weights.layouts import rename

    checkpoint = named_checkpoint(name_or_path)
    if checkpoint is None:
        path = given_file(name_or_path)
        state = rename(load_tensors(path), path)
        return Weights(state, provenance_of_file(path, name_or_path))
    path = fetch(checkpoint, quiet=quiet) if checkpoint.url else file_of(checkpoint)
    try:
        provenance = provenance_of_named(checkpoint, path)
    except OSError as error:
        raise WeightsError(
            f"weights '{checkpoint.name}' cannot be read from {path}: {reason_of(error)}; "
            f"{remedy(checkpoint)}"
        ) from error
    return Weights(rename(load_tensors(path), path), provenance)
