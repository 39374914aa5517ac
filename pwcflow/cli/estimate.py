"""The command `estimate`."""

from pathlib import Path
from typing import Annotated

import typer

from pwcflow.cli.console import friendly_errors, tell
from pwcflow.cli.loading import estimator_loader
from pwcflow.cli.look import (
    BackgroundOption,
    GammaOption,
    LegendOption,
    MaxFlowOption,
    NoiseFloorOption,
    OpacityOption,
    PaletteOption,
    SpacingOption,
    StyleOption,
    TruthOption,
    UnknownOption,
    chosen_look,
    error_told,
    scale_told,
)
from pwcflow.cli.options import (
    DeviceOption,
    JsonOption,
    NetworkScaleOption,
    PrecisionOption,
    QuietOption,
    WeightsOption,
)

ESTIMATE_EXAMPLES = """\b
Examples:
  pwcflow estimate one.png two.png -o flow.flo
  pwcflow estimate one.png two.png --viz flow.png --max-flow 20 --legend inside
  pwcflow estimate one.png two.png -o both.exr --backward both.exr
\b
  In other styles: pwcflow estimate one.png two.png --viz out.png with
  --style arrows --spacing 40            # arrows over the frame
  --style streamlines                    # for smooth fields
  --style heat --max-flow 20             # the speed alone
  --style overlay --opacity 0.5          # colours over the frame
  --style side --palette colorblind      # frame and flow
  --style warp                           # warped back, and differences
  --style occlusion                      # what disappears
  --style error --truth true.flo         # in KITTI's colours
"""
# readable=False: what cannot be read is told by whoever reads it, in one line.


def estimate(
    first: Annotated[
        Path, typer.Argument(metavar="FIRST", readable=False, help="The first image.")
    ],
    second: Annotated[
        Path,
        typer.Argument(
            metavar="SECOND", readable=False, help="The image after it, of the same size."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            readable=False,
            help="Flow file: .flo, .npz, KITTI .png or another. Its folder must be there.",
        ),
    ] = None,
    backward: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            readable=False,
            help="Flow file to write, for the flow from SECOND to FIRST. The FILE of -o takes both "
            "if it is an .exr.",
        ),
    ] = None,
    viz: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            readable=False,
            help="Colour image of the flow. Its folder must be there.",
        ),
    ] = None,
    style: StyleOption = None,
    max_flow: MaxFlowOption = None,
    palette: PaletteOption = None,
    background: BackgroundOption = None,
    gamma: GammaOption = None,
    noise_floor: NoiseFloorOption = None,
    unknown: UnknownOption = None,
    legend: LegendOption = None,
    spacing: SpacingOption = None,
    opacity: OpacityOption = None,
    truth: TruthOption = None,
    weights: WeightsOption = "default",
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    network_scale: NetworkScaleOption = 1.0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the flow that carries FIRST onto SECOND."""
    if not (output or backward or viz):
        raise typer.BadParameter("give -o FLOW, --backward FLOW, --viz IMAGE, or several")
    with friendly_errors(quiet):
        look = chosen_look(
            without=None if viz else "a colour image",
            max_flow=max_flow, parts=("frame", "second", "backward"), beside={"truth": truth},
            style=style, palette=palette, background=background, gamma=gamma,
            noise_floor=noise_floor, unknown=unknown, legend=legend, spacing=spacing,
            opacity=opacity,
        )  # fmt: skip
        from pwcflow.pipeline import estimate_pair

        summary = estimate_pair(
            estimator_loader(weights, device, precision, network_scale, quiet),
            first,
            second,
            output=output,
            viz=viz,
            backward=backward,
            max_flow=max_flow,
            look=look,
            truth=truth,
        )
        files = " and ".join(dict.fromkeys(str(path) for path in (output, backward, viz) if path))
        size = f"{summary['width']} x {summary['height']} pixels"
        motion = f"largest motion {summary['largest_motion_px']} px"
        told = f"{files}: {size}, {motion}{error_told(summary)}{scale_told(summary)}"
        tell(told, summary, quiet=quiet, as_json=as_json)
