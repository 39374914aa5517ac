"""The commands `estimate`, `video` and `visualize`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pwcflow.cli.console import friendly_errors, tell
from pwcflow.cli.options import (
    DeviceOption,
    JsonOption,
    MaxFlowOption,
    Precision,
    PrecisionOption,
    QuietOption,
    WeightsOption,
    positive,
)
from pwcflow.errors import OutputError

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator

ESTIMATE_EXAMPLES = """\b
Examples:
  pwcflow estimate one.png two.png -o flow.flo
  pwcflow estimate one.png two.png --viz flow.png --max-flow 20
"""
VIDEO_EXAMPLES = """\b
Examples:
  pwcflow video clip.mp4 -o flows
  pwcflow video clip.mp4 -o flow.mp4 --precision fp16
  pwcflow video frames/ --flo flows --viz flow.mp4 --fps 30
"""
VISUALIZE_EXAMPLES = """\b
Examples:
  pwcflow visualize flow.flo -o flow.png
  pwcflow visualize flows/ -o colours --max-flow 30
"""


def estimate(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="The first image.")],
    second: Annotated[
        Path, typer.Argument(metavar="SECOND", help="The image after it, of the same size.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Flow file: .flo, .npy or KITTI .png."),
    ] = None,
    viz: Annotated[Path | None, typer.Option(help="Colour image of the flow.")] = None,
    max_flow: MaxFlowOption = None,
    weights: WeightsOption = "default",
    device: DeviceOption = "auto",
    precision: PrecisionOption = Precision.fp32,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the flow that carries FIRST onto SECOND."""
    if not (output or viz):
        raise typer.BadParameter("give -o FLOW, --viz IMAGE, or both")
    with friendly_errors(quiet):
        from pwcflow.pipeline import estimate_pair

        summary = estimate_pair(
            _loader(weights, device, precision, quiet),
            first,
            second,
            output=output,
            viz=viz,
            max_flow=max_flow,
        )
        size = f"{summary['width']} x {summary['height']} pixels"
        motion = f"largest motion {summary['largest_motion_px']} px"
        tell(f"{_both(output, viz)}: {size}, {motion}", summary, quiet=quiet, as_json=as_json)


def video(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A video file or a folder of frames.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A folder for .flo files, or a colour video's file."),
    ] = None,
    flo: Annotated[Path | None, typer.Option(help="Folder for .flo files.", metavar="DIR")] = None,
    viz: Annotated[Path | None, typer.Option(help="Colour video.", metavar="FILE")] = None,
    max_flow: MaxFlowOption = None,
    fps: Annotated[
        float | None,
        typer.Option(help="Frames per second of the colour video.", callback=positive),
    ] = None,
    weights: WeightsOption = "default",
    device: DeviceOption = "auto",
    precision: PrecisionOption = Precision.fp32,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the flow between each two consecutive frames of SOURCE.

    N frames give N - 1 flows, each named by the number of its first frame: 000000.flo and so on.
    """
    if not (output or flo or viz):
        raise typer.BadParameter("give -o OUT, --flo DIR or --viz FILE")
    with friendly_errors(quiet):
        from pwcflow.pipeline import estimate_video

        folder, movie = _video_outputs(output, flo, viz)
        summary = estimate_video(
            _loader(weights, device, precision, quiet),
            source,
            folder=folder,
            viz=movie,
            max_flow=max_flow,
            fps=fps,
            progress=not quiet,
        )
        size = f"{summary['width']} x {summary['height']} pixels"
        flows = f"{summary['flows']} flows"
        tell(f"{_both(folder, movie)}: {flows} of {size}", summary, quiet=quiet, as_json=as_json)


def visualize(
    source: Annotated[
        Path, typer.Argument(metavar="FLOW", help="A flow file or a folder of them.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="An image, or for a folder a folder.")
    ],
    max_flow: MaxFlowOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write Middlebury colour images of flow files; unknown pixels are black.

    A folder has one scale for all its files, so that a vector has one colour throughout.
    """
    with friendly_errors(quiet):
        from pwcflow.pipeline import visualize_file, visualize_folder

        if source.is_dir():
            summary = visualize_folder(source, output, max_flow=max_flow, progress=not quiet)
        else:
            summary = visualize_file(source, output, max_flow=max_flow)
        images = "1 image" if summary["images"] == 1 else f"{summary['images']} images"
        scale = f"fully saturated at {summary['max_flow_px']:.4g} px"
        tell(f"{output}: {images}, {scale}", summary, quiet=quiet, as_json=as_json)


def _loader(
    weights: str, device: str, precision: Precision, quiet: bool
) -> Callable[[], "FlowEstimator"]:
    def load() -> "FlowEstimator":
        from pwcflow.estimator import FlowEstimator  # torch loads here

        return FlowEstimator(weights, device, precision.value, quiet=quiet)

    return load


def _video_outputs(
    output: Path | None, flo: Path | None, viz: Path | None
) -> tuple[Path | None, Path | None]:
    """Return the folder of flows and the colour video that the three options ask for."""
    from pwcflow.video_writer import VIDEO_SUFFIXES

    if output is None:
        return flo, viz
    if output.suffix.lower() in VIDEO_SUFFIXES and not output.is_dir():
        if viz:
            raise OutputError(f"-o {output} and --viz {viz} are both a colour video; drop one")
        return flo, output
    if flo:
        raise OutputError(f"-o {output} and --flo {flo} are both a folder of flows; drop one")
    if output.suffix and not output.is_dir():
        known = ", ".join(sorted(VIDEO_SUFFIXES))
        raise OutputError(
            f"{output} is neither a video that can be written ({known}) nor a folder that exists; "
            "for a new folder with a dot in its name use --flo"
        )
    return output, viz


def _both(*paths: Path | None) -> str:
    return " and ".join(str(path) for path in paths if path)
