"""What a recipe leaves in its folder, and whether it can be gone on with."""

import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from pwcflow.atomic_file import replacing
from pwcflow.errors import OutputError, WeightsError
from pwcflow.training.checkpoint import exported, peek
from pwcflow.training.result import RESULT, finished_result, weights_of_checkpoint
from pwcflow.training.settings import TrainSettings
from pwcflow.weights import load_weights

RECORD = "recipe.json"
"""What all stages of a run have in common, in its folder."""
_IN_CHECKPOINTS = ("steps", "minutes", "batch", "seed")
"""What a stage's own checkpoint tells of that, where the record is gone."""


def is_begun(run: TrainSettings) -> bool:
    """Return whether there is something of a stage."""
    return run.checkpoint_path.exists() or (run.output / RESULT).exists()


def check_folder(settings: TrainSettings, runs: Sequence[TrainSettings]) -> None:
    """Refuse a folder that holds another run, or stages that do not follow from one another.

    Args:
        settings: of all stages together.
        runs: the stages, in their order.

    Raises:
        OutputError: there is a run without a recipe, or one that is not to be resumed.
        WeightsError: the stages that are done were trained with other settings, one of them is
            gone, or was begun with other weights than those of the stage before it.
    """
    begun = [run.output for run in runs if is_begun(run)]
    of_another = [settings.checkpoint_path, *([] if begun else [settings.weights_path])]
    for path in filter(Path.exists, of_another):
        raise OutputError(f"{path} is of a run without a recipe; choose another folder")
    if begun and not settings.resume:
        raise OutputError(f"{begun[-1]} is of an earlier run; resume it, or choose another folder")
    if begun:
        _check_same(settings, runs)
        _check_follow(runs)


def write_record(settings: TrainSettings) -> None:
    """Write what all stages have in common.

    Raises:
        OutputError: it cannot be written.
    """
    with replacing(settings.output / RECORD) as temporary:
        temporary.write_text(json.dumps(_in_common(settings)), encoding="utf-8")


def _check_same(settings: TrainSettings, runs: Sequence[TrainSettings]) -> None:
    """Refuse what the stages that are done were not trained with, as far as that is known."""
    try:
        before = json.loads((settings.output / RECORD).read_bytes())
    except (OSError, ValueError):
        before = None
    if isinstance(before, dict):
        for name, value in _in_common(settings).items():
            if before.get(name) != value:
                raise WeightsError(
                    f"{settings.output} is of a recipe with the {name} {before.get(name)}; resume "
                    f"it so, not with {value}, or choose another folder"
                )
        return
    for run in runs:
        stored = peek(run.checkpoint_path, "settings") or {}
        for name in _IN_CHECKPOINTS:
            value = getattr(run, name)
            if stored.get(name, value) != value:
                raise WeightsError(
                    f"{run.output} was trained with the {name} {stored[name]}, where this recipe "
                    f"has {value} for it; resume it as it was begun, or choose another folder"
                )


def _in_common(settings: TrainSettings) -> dict[str, Any]:
    steps, minutes = settings.steps, settings.minutes
    length = f"{steps} steps" if minutes is None else f"{minutes:.12g} minutes"
    return {"length": length, "batch": settings.batch, "seed": settings.seed}


def _check_follow(runs: Sequence[TrainSettings]) -> None:
    """Refuse stages that were not begun with the weights that the one before them has."""
    for number, (before, run) in enumerate(pairwise(runs), 1):
        later = [it.output for it in runs[number:] if is_begun(it)]
        if not later:
            return
        if not before.checkpoint_path.exists() and finished_result(before.output) is None:
            raise WeightsError(
                f"{before.output} has neither a checkpoint nor a whole result, but {later[0]} was "
                f"trained after it; bring them back, or remove all from {before.output} to "
                f"{later[-1]}, and --resume trains these anew"
            )
        if not _follows(run, before):
            rest = str(later[0]) if len(later) == 1 else f"{later[0]} to {later[-1]}"
            raise WeightsError(
                f"{run.output} was begun with other weights than those of {before.output}, which "
                "was trained anew since, or replaced; bring the earlier one back, or remove "
                f"{rest}, and --resume goes on from {before.output}"
            )


def _follows(run: TrainSettings, before: TrainSettings) -> bool:
    """Return whether a stage was begun with the weights of another; true if nobody knows."""
    begun_with = peek(run.checkpoint_path, "begun_with")
    if begun_with is None:
        return True
    ended_with = set()
    for digest in _in_file, _in_checkpoint:  # the file is written once more if it is damaged
        with suppress(WeightsError):
            ended_with.add(digest(before))
        if begun_with.get("sha256") in ended_with:
            return True
    return not ended_with  # whoever needs them tells why they cannot be read


def _in_file(run: TrainSettings) -> str:
    return load_weights(run.weights_path, quiet=True).provenance.sha256


def _in_checkpoint(run: TrainSettings) -> str:
    return sha256(exported(weights_of_checkpoint(run))).hexdigest()
