"""The command `visualize`."""

from pathlib import Path
from typing import Annotated

import typer

from pwcflow.cli.console import friendly_errors, tell
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
from pwcflow.cli.options import JsonOption, QuietOption, positive
from pwcflow.counted import counted

VISUALIZE_EXAMPLES = """\b
Examples:
  pwcflow visualize flow.flo -o flow.png
  pwcflow visualize flows/ -o colours --max-flow percentile
  pwcflow visualize flows/ -o flow.mp4 --fps 30
  pwcflow visualize flow.flo -o flow.png --background black --legend inside
  pwcflow visualize flows/ -o overlay.mp4 --style overlay
  pwcflow visualize flows/ -o overlays --style overlay --frame frames/
\b
  In other styles: pwcflow visualize flow.flo -o out.png with
  --style arrows --spacing 40                          # plain, or over --frame
  --style streamlines --frame one.png                  # for smooth fields
  --style heat --max-flow 20                           # the speed alone
  --style overlay --frame one.png --opacity 0.5        # colours over the frame
  --style side --frame one.png --palette colorblind    # frame and flow
  --style warp --frame one.png --second two.png        # warped back, and differences
  --style occlusion --frame one.png --backward b.flo   # what disappears
  --style error --truth true.flo                       # in KITTI's colours
"""


def visualize(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FLOW",
            readable=False,
            help="A flow file, or a folder of them and of such folders.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            readable=False,
            help="An image, in a folder that must be there; or for a folder a folder, made where "
            "missing, or by its suffix a video, GIF or WebP.",
        ),
    ],
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
    frame: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            readable=False,
            help="The first frame; of a folder of flows the folder of all frames, or the video: "
            "just theirs, or the whole of which pwcflow.json tells what was taken.  [default: "
            "what pwcflow.json beside the flows names, for styles that need it]",
        ),
    ] = None,
    second: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            readable=False,
            help="The second frame.  [default: as for --frame, where neither is given]",
        ),
    ] = None,
    backward: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            readable=False,
            help="Flow file to read, from the second frame to the first, for --style occlusion. "
            "Not needed where FLOW is an .exr that holds both.",
        ),
    ] = None,
    truth: TruthOption = None,
    fps: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Frames per second of a video.  [default: the source's, as pwcflow.json beside "
            "the flows knows it; else 25]",
            callback=positive,
        ),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write pictures of flow files, or a video of them.

    Unknown pixels are black. A folder has one scale for all its files, so that a vector has one
    colour throughout; folders in it are gone into, and are the same in OUT, but a video is of one
    folder alone. There, --frame names a folder or video of as many frames and one more, or that
    from which `pwcflow video` took them; --truth and --backward folders of flows of the same names.
    """
    with friendly_errors(quiet):
        from pwcflow.pipeline.visualize import (
            visualize_as_video,
            visualize_file,
            visualize_folder,
        )
        from pwcflow.runs.recorded_frames import has_record
        from pwcflow.video_writer import VIDEO_SUFFIXES
        from pwcflow.visualization.scene_files import SceneFiles, own_parts

        is_folder = source.is_dir()
        as_video = is_folder and output.suffix.lower() in VIDEO_SUFFIXES and not output.is_dir()
        if fps and not as_video:
            raise typer.BadParameter(
                "--fps is for a video of a folder of flows; give such a folder, and -o NAME.mp4"
            )
        files = {"frame": frame, "second": second, "backward": backward, "truth": truth}
        if is_folder and second:
            raise typer.BadParameter(
                "--second is for one flow; of a folder, --frame names the folder of all frames"
            )
        there = (*own_parts(source), *(["second"] if is_folder and frame else []))
        look = chosen_look(
            max_flow=max_flow, parts=there, beside=files,
            has_record=lambda: not frame and not second and has_record(source),
            style=style, palette=palette, background=background, gamma=gamma,
            noise_floor=noise_floor, unknown=unknown, legend=legend, spacing=spacing,
            opacity=opacity,
        )  # fmt: skip
        beside = SceneFiles(**files)
        if as_video:
            summary = visualize_as_video(
                source, output, max_flow=max_flow, look=look, beside=beside, fps=fps,
                progress=not quiet,
            )  # fmt: skip
        elif is_folder:
            summary = visualize_folder(
                source, output, max_flow=max_flow, look=look, beside=beside, progress=not quiet
            )
        else:
            summary = visualize_file(source, output, max_flow=max_flow, look=look, beside=beside)
        images = counted(summary["images"], "image")
        rate = f" at {summary['fps']:g} frames per second" if as_video else ""
        told = f"{output}: {images}{rate}{error_told(summary)}{scale_told(summary)}"
        tell(told, summary, quiet=quiet, as_json=as_json)
