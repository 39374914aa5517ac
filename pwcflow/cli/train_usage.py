"""What the options of `train` may be, and what it says of a run."""

from pathlib import Path
from typing import Any

import typer

from pwcflow.cli.options import kind_and_folder
from pwcflow.counted import counted

STAGES_DECIDE = {
    *("data", "size", "motion", "steps", "lr", "warm_up", "optimizer", "robust"),
    *("init", "keep", "keep_of"),
}
"""Parameters of `train` that a recipe has values for."""
PREVIEW_TAKES = {
    *("preview", "photos", "sprites", "data", "size", "motion", "seed", "device"),
    *("quiet", "as_json"),
}
"""Parameters of `train` that have a meaning without a training."""

LARGEST_MOTION_PX = 10_000
"""Beyond any image; what is drawn from it stays finite."""


def check_recipe(context: typer.Context) -> None:
    """Refuse options beside --recipe that its stages decide, and a recipe without a length."""
    given = _given(context)
    if "recipe" not in given:
        return
    decided = [option for name, option in given.items() if name in STAGES_DECIDE]
    if decided:
        raise typer.BadParameter(
            f"the stages of --recipe decide {', '.join(decided)}: leave out one or the other"
        )
    if "minutes" not in given:
        raise typer.BadParameter("give the length of all stages of --recipe together: --minutes")


def check_preview(context: typer.Context) -> None:
    """Refuse options beside --preview that are of a training."""
    given = _given(context)
    idle = [option for name, option in given.items() if name not in PREVIEW_TAKES]
    if "preview" in given and idle:
        raise typer.BadParameter(f"--preview does not train: leave out {', '.join(idle)}")


def _given(context: typer.Context) -> dict[str, str]:
    """Return the options that are given, by their parameters' names."""
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name and _is_given(context, parameter.name)
    }


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and not source.name.startswith("DEFAULT")


def dataset(text: str, kinds: tuple[str, ...]) -> tuple[str, Path]:
    """Return the kind and the folder of --data."""
    named = kind_and_folder(text, kinds)
    if named is None:
        raise typer.BadParameter(
            f"must be KIND:FOLDER, KIND one of {', '.join(kinds)}: {text}", param_hint="'--data'"
        )
    return named


def recipe_name(name: str | None) -> str | None:
    """Let an option be a recipe, or not given."""
    if name not in (None, "default"):
        raise typer.BadParameter(f"must be default: {name}")
    return name


def typical_motion(value: float | None) -> float | None:
    """Let an option be a motion in pixels that scenes can have, or not given."""
    if value is not None and not 0 < value <= LARGEST_MOTION_PX:
        raise typer.BadParameter(f"must be above 0, at most {LARGEST_MOTION_PX}: {value:.12g}")
    return value


def share(value: float) -> float:
    """Let an option be a share that is not all."""
    if not 0 <= value < 1:
        raise typer.BadParameter(f"must be a number from 0 up, below 1: {value:g}")
    return value


def told(result: dict[str, Any]) -> str:
    """Return a run in one sentence, such as "..., error on training pairs 5.16 -> 4.07 px ...".

    Beside it is the error of finding no motion at all: weights of any use are below it.
    """
    sentence = f"{result['weights']}: {counted(result['pairs'], 'pair')}, {result['outcome']}"
    for name, after in result["errors"].items():
        before = result.get("errors_before", {}).get(name)
        change = f"{after:.2f}" if before is None else f"{before:.2f} -> {after:.2f}"
        sentence += f", error on {name} pairs {change} px"
        no_motion = result.get("errors_of_no_motion", {}).get(name)
        if no_motion is not None:  # runs before did not tell of it
            sentence += f" (no motion: {no_motion:.2f} px)"
    for name, score in result.get("scores", {}).items():
        sentence += f", on {name} {score['end_point_error_px']:.4g} px"
    return sentence
