"""What a run came to, in its folder."""

import json
from pathlib import Path
from typing import Any

from pwcflow.atomic_file import replacing
from pwcflow.errors import WeightsError
from pwcflow.training.checkpoint import export_weights, load_checkpoint
from pwcflow.training.interpolation import interpolated
from pwcflow.training.settings import TrainSettings
from pwcflow.weights import load_weights

RESULT = "result.json"


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write what a run came to.

    Raises:
        OutputError: it cannot be written.
    """
    with replacing(folder / RESULT) as temporary:
        temporary.write_text(json.dumps(result, indent=2), encoding="utf-8")


def finished_result(folder: Path) -> dict[str, Any] | None:
    """Return what a finished run came to; None for one that is still to do, or to go on with."""
    try:
        result = json.loads((folder / RESULT).read_bytes())
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


def restore_weights(run: TrainSettings) -> None:
    """Write the weights of a finished run once more, if they are damaged or gone.

    Raises:
        WeightsError: its checkpoint is damaged or gone, too.
    """
    try:
        load_weights(run.weights_path, quiet=True)
    except WeightsError:
        checkpoint = load_checkpoint(run.checkpoint_path)
        average = checkpoint.optimizer["average"]
        export_weights(interpolated(average, checkpoint.kept, run.keep), run.weights_path)
