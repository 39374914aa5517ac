"""The command `evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from pwcflow.cli.console import friendly_errors, import_torch, tell
from pwcflow.cli.loading import estimator_loader
from pwcflow.cli.options import (
    DeviceOption,
    JsonOption,
    NetworkScaleOption,
    PrecisionOption,
    QuietOption,
    WeightsOption,
)
from pwcflow.counted import counted

EVALUATE_EXAMPLES = """\b
Examples:
  pwcflow evaluate pairs.csv
  pwcflow evaluate sintel:MPI-Sintel --weights run/weights.safetensors
  pwcflow evaluate kitti:KITTI --network-scale 1.5 --precision fp16
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
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how far estimated flow is from the true one.

    A line a data set: the mean over its pairs of the end-point error in pixels, and of the share of
    outliers, which are wrong by more than 3 px and more than 5 %. A CSV file has the columns
    dataset, sequence, frame1, frame2 and gt, paths from its own folder.
    """
    with friendly_errors(quiet):
        import_torch()
        from pwcflow.pipeline.evaluate import evaluate_pairs
        from pwcflow.training.datasets import KINDS

        summary = evaluate_pairs(
            estimator_loader(weights, device, precision, network_scale, quiet),
            [_source(text, KINDS) for text in sources],
            progress=not quiet,
        )
        if as_json:
            tell("", summary, quiet=quiet, as_json=True)
            return
        for name, score in summary["data_sets"].items():
            error = f"end-point error {score['end_point_error_px']:.4g} px"
            outliers = f"{100 * score['outliers']:.1f} % outliers"
            told = f"{name}: {counted(score['pairs'], 'pair')}, {error}, {outliers}"
            tell(told, {}, quiet=quiet, as_json=False)


def _source(text: str, kinds: tuple[str, ...]) -> tuple[str, Path]:
    """Return the kind and the place of a SOURCE."""
    if text.lower().endswith(".csv") and not text.startswith("manifest:"):
        return "manifest", Path(text)
    kind, colon, place = text.partition(":")
    if kind not in kinds or not colon or not place:
        raise typer.BadParameter(
            f"must be a CSV file or KIND:FOLDER, KIND one of {', '.join(kinds)}: {text}"
        )
    return kind, Path(place)
