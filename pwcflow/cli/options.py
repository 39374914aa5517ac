"""Options that several commands share."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

LARGEST_BATCH = 65536
"""Pairs: more than fits any machine; of 99999 x 99999 pixels 64 bits still count their bytes."""


def positive(value: float | None) -> float | None:
    """Let an option be a finite number above 0, or not given."""
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter("must be a number above 0")
    return value


def network_scale(value: float) -> float:
    """Let it be what `FlowEstimator` takes."""
    if not 0.5 <= value <= 4.0:
        raise typer.BadParameter(f"must be from 0.5 to 4: {value:.12g}")
    return value


def one_of(*names: str) -> Callable[[str], str]:
    """Return what lets an option be one of several names."""
    told = f"{', '.join(names[:-1])} or {names[-1]}"

    def check(value: str) -> str:
        if value not in names:
            raise typer.BadParameter(f"must be {told}: {value}")
        return value

    return check


def height_by_width(text: str, example: str) -> tuple[int, int]:
    """Return (height, width) of the option --size, which is written like `example`."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", text)
    if not match:
        raise typer.BadParameter(f"must be such as {example}: {text}", param_hint="'--size'")
    return int(match[1]), int(match[2])


def kind_and_folder(text: str, kinds: tuple[str, ...]) -> tuple[str, Path] | None:
    """Return both of KIND:FOLDER, KIND being one of `kinds`; None of anything else."""
    kind, _, folder = text.partition(":")
    return (kind, Path(folder)) if kind in kinds and folder else None


_PRECISIONS = ("fp32", "fp16", "bf16", "auto")
WeightsOption = Annotated[
    str, typer.Option(help="A checkpoint's name or file.", metavar="NAME|FILE")
]
# Named, as Typer 0.27 takes a metavar for the option's name where the two are the same.
DeviceOption = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX.")
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        help="Arithmetic of the network; auto is the fastest here.",
        metavar="|".join(_PRECISIONS),
        callback=one_of(*_PRECISIONS),
    ),
]
NetworkScaleOption = Annotated[
    float,
    typer.Option(
        metavar="FACTOR",
        help="Resize images by this for the network; 1.5 finds finer flow in about 2.25 times "
        "the time. Flow stays in pixels of the images.",
        callback=network_scale,
    ),
]
BoundOption = Annotated[
    float | None,
    typer.Option(
        metavar="PX",
        help="The motion in pixels that is white in a pair of 8-bit pictures, where none records "
        "it.",
        callback=positive,
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON summary on stdout.")]
