"""Whether the disk can take what runs leave, asked before the hours they take."""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path

from pwcflow.errors import OutputError
from pwcflow.training.optimizer import SLOTS
from pwcflow.training.settings import TrainSettings
from pwcflow.weights.layouts import expected_shapes


def check_room(folder: Path, runs: Sequence[TrainSettings]) -> None:
    """Refuse runs, one after the other, whose checkpoints and weights the disk cannot take.

    Args:
        folder: where they all go; made later if missing.
        runs: those that are not finished.

    Raises:
        OutputError: it has too little room.
    """
    values = sum(map(math.prod, expected_shapes().values()))
    checkpoints = [4 * values * (len(SLOTS) + bool(run.keep)) for run in runs]  # float32
    needed = max(checkpoints, default=0)  # each is written beside the one before it
    for run, checkpoint in zip(runs, checkpoints, strict=True):
        if not run.checkpoint_path.exists():
            needed += checkpoint + 2 * values  # the weights are float16
    disk = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(disk).free
    if needed > free:
        raise OutputError(
            f"checkpoints and weights need {needed / 1e6:.0f} MB, but {disk} has "
            f"{free / 1e6:.0f} MB free; free some space, or choose a folder on a larger disk"
        )
