"""The command `evaluate`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pwcflow.cli.console import friendly_errors, score_told, tell_lines
from pwcflow.cli.loading import estimator_loader
from pwcflow.cli.options import (
    DeviceOption,
    JsonOption,
    NetworkScaleOption,
    PrecisionOption,
    QuietOption,
    WeightsOption,
    kind_and_folder,
)
from pwcflow.counted import counted

EVALUATE_EXAMPLES = """\b
Examples:
  pwcflow evaluate pairs.csv
  pwcflow evaluate sintel:MPI-Sintel --weights run/weights.safetensors
  pwcflow evaluate kitti:KITTI --network-scale 1.5 --precision fp16
  pwcflow evaluate pairs.csv --mirrored
"""


def evaluate(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A CSV file of pairs, or KIND:FOLDER: chairs, things, sintel, kitti, hd1k or "
            "spring as unpacked. Repeatable.",
        ),
    ],
    weights: WeightsOption = "default",
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    network_scale: NetworkScaleOption = 1.0,
    mirrored: Annotated[
        bool,
        typer.Option(
            "--mirrored",
            help="Take each pair four times, as it is and with left and right, top and bottom, or "
            "both exchanged: in four times the time the mean depends less on the luck of a few.",
        ),
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how far estimated flow is from the true one.

    One line for each data set: means over its pairs, of whichever SOURCE, of the end-point error in
    pixels, and of the share of outliers, which are wrong by more than 3 px and more than 5 %. A CSV
    file has the columns dataset, sequence, frame1, frame2 and gt, paths from its own folder.
    """
    with friendly_errors(quiet):
        from pwcflow.datasets import KINDS
        from pwcflow.pipeline.evaluate import evaluate_pairs

        summary = evaluate_pairs(
            estimator_loader(weights, device, precision, network_scale, quiet),
            [_source(text, KINDS) for text in sources],
            mirror=mirrored,
            progress=not quiet,
        )
        tell_lines(_lines(summary), summary, quiet=quiet, as_json=as_json)


def _source(text: str, kinds: tuple[str, ...]) -> tuple[str, Path]:
    """Return the kind and the place of a SOURCE."""
    if named := kind_and_folder(text, kinds):
        return named
    if text.lower().endswith(".csv"):
        return "manifest", Path(text)
    raise typer.BadParameter(
        f"must be a CSV file or KIND:FOLDER, KIND one of {', '.join(kinds)}: {text}"
    )


def _lines(summary: dict[str, Any]) -> Iterator[str]:
    how = " in all mirrorings" if summary["mirrored"] else ""
    for dataset, score in summary["scores"].items():
        yield f"{dataset}: {counted(score['pairs'], 'pair')}{how}, {score_told(score)}"
