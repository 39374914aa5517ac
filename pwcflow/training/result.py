"""What a run came to, in its folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from pwcflow.atomic_file import replacing
from pwcflow.errors import WeightsError
from pwcflow.plain_json import to_json
from pwcflow.training.checkpoint import export_weights, load_checkpoint
from pwcflow.training.interpolation import interpolated
from pwcflow.training.settings import TrainSettings
from pwcflow.weights import load_weights

RESULT = "result.json"


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write what a run came to; a number that is not finite becomes null.

    Raises:
        OutputError: it cannot be written.
    """
    with replacing(folder / RESULT) as temporary:
        temporary.write_text(to_json(result, indent=2), encoding="utf-8")


def finished_result(folder: Path) -> dict[str, Any] | None:
    """Return what a finished run came to; None for one that is still to do, or to go on with."""
    try:
        result = json.loads((folder / RESULT).read_bytes(), parse_constant=_refuse)
    except (OSError, ValueError):
        return None
    is_whole = (
        isinstance(result, dict)
        and isinstance(result.get("step"), int)
        and isinstance(result.get("pairs"), int)
        and isinstance(result.get("seconds"), float)
        and isinstance(result.get("errors"), dict)
        and result.get("outcome") == "finished"
    )
    return result if is_whole else None


def _refuse(constant: str) -> NoReturn:
    """Take no NaN or infinity, which once was written of weights that are of no use."""
    raise ValueError(constant)


def restore_weights(run: TrainSettings) -> None:
    """Write the weights of a finished run once more, if they are damaged or gone.

    Raises:
        WeightsError: its checkpoint is damaged or gone, too.
    """
    try:
        load_weights(run.weights_path, quiet=True)
    except WeightsError:
        export_weights(weights_of_checkpoint(run), run.weights_path)


def weights_of_checkpoint(run: TrainSettings) -> Mapping[str, Tensor]:
    """Return what `export_weights` writes of the run as its checkpoint has it.

    Raises:
        WeightsError: the checkpoint is damaged or gone.
    """
    checkpoint = load_checkpoint(run.checkpoint_path)
    return interpolated(checkpoint.optimizer["average"], checkpoint.kept, run.keep)
