"""The command `video`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pwcflow.cli.console import fail_for, friendly_errors, tell
from pwcflow.cli.loading import estimator_loader, maker_finder
from pwcflow.cli.look import (
    BackgroundOption,
    GammaOption,
    MaxFlowOption,
    NoiseFloorOption,
    PaletteOption,
    SpacingOption,
    UnknownOption,
    VideoLegendOption,
    VideoOpacityOption,
    VideoStyleOption,
    chosen_look,
    scale_told,
)
from pwcflow.cli.options import (
    DeviceOption,
    JsonOption,
    NetworkScaleOption,
    PrecisionOption,
    QuietOption,
    WeightsOption,
    positive,
)
from pwcflow.cli.selection import (
    EndOption,
    MaxSideOption,
    RawOption,
    ReaderOption,
    ResizeOption,
    ScaleOption,
    StartOption,
    StepOption,
    frame_selection,
)
from pwcflow.counted import counted
from pwcflow.errors import OutputError

VIDEO_EXAMPLES = """\b
Examples:
  pwcflow video clip.mp4 -o flows
  pwcflow video clip.mp4 -o flow.mp4 --precision fp16
  pwcflow video frames/ --flo flows --viz flow.mp4 --fps 30
  pwcflow video clip.mp4 -o flows --start 12.5s --end 20s --step 2 --max-side 1024
  pwcflow video frames/%04d.png -o flows
  pwcflow video clip.mp4 -o kitti --to png
  pwcflow video clip.mp4 -o flow.gif --max-side 480 --end 100
  pwcflow video camera:0 -o flow.mp4 --end 300
  pwcflow video clips/ "more/**/*.avi" @list.txt -o flows
\b
  In other styles: pwcflow video clip.mp4 --viz out.mp4 with
  --style wheel --max-flow 20 --legend beside
  --style arrows --spacing 40            # arrows over the frame
  --style streamlines                    # for smooth fields
  --style heat --max-flow 20             # the speed alone
  --style overlay --opacity 0.5          # colours over the frame
  --style side --palette colorblind      # frame and flow
  --style warp                           # warped back, and differences
  For the styles error and occlusion see pwcflow visualize.
"""
# readable=False: what cannot be read is told by whoever reads it, in one line.


def video(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="INPUT",
            readable=False,
            help="A video file or a folder of frames; or many: files, folders, patterns in quotes, "
            "and lists as @FILE.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            readable=False,
            help="A folder, as --flo, or by its suffix a video, as --viz; of many videos a folder "
            "with one for each.",
        ),
    ] = None,
    flo: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", readable=False, help="Folder for flow files, made where missing."
        ),
    ] = None,
    viz: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            readable=False,
            help="Colour video, or GIF or WebP. Its folder must be there. Of many videos: a folder "
            "with one flow.mp4 for each.",
        ),
    ] = None,
    lists: Annotated[
        list[Path] | None,
        typer.Option(
            "--list",
            metavar="FILE",
            readable=False,
            help="Inputs, one a line; # begins a comment. Repeatable.",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="That of the flow files: flo, png (KITTI), npy, npz (compressed), pfm, flo5, exr.",
        ),
    ] = "flo",
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Remove flow files of an earlier run that the folder holds, and begin anew.",
        ),
    ] = False,
    style: VideoStyleOption = None,
    max_flow: MaxFlowOption = None,
    palette: PaletteOption = None,
    background: BackgroundOption = None,
    gamma: GammaOption = None,
    noise_floor: NoiseFloorOption = None,
    unknown: UnknownOption = None,
    legend: VideoLegendOption = None,
    spacing: SpacingOption = None,
    opacity: VideoOpacityOption = None,
    fps: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Frames per second of the colour video.  [default: the source's; 25 for images]",
            callback=positive,
        ),
    ] = None,
    start: StartOption = None,
    end: EndOption = None,
    step: StepOption = 1,
    resize: ResizeOption = None,
    scale: ScaleOption = None,
    max_side: MaxSideOption = None,
    raw: RawOption = None,
    reader: ReaderOption = "auto",
    weights: WeightsOption = "default",
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    network_scale: NetworkScaleOption = 1.0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the flow from frame to frame of a video, or of many.

    N frames give N - 1 flows, numbered from 0 wherever --start begins: 000000.flo and so on.

    A folder that holds images is one video, of frames. In any other, videos and folders of frames
    are looked for, at any depth. Each of many videos has its own folder in OUT: what is found as
    clips/a/1.mp4 in clips goes into OUT/a/1.mp4/.

    The same command once more does what is not done: pwcflow.json beside the flows knows what made
    them, and those of another input, other weights, precision or network scale are refused.
    """
    if not (inputs or lists):
        raise typer.BadParameter("give INPUT, or --list FILE")
    if not (output or flo or viz):
        raise typer.BadParameter("give -o OUT, --flo DIR or --viz FILE")
    selection = frame_selection(
        start=start, end=end, step=step, size=resize, scale=scale, max_side=max_side,
        raw=raw, reader=reader,
    )  # fmt: skip
    with friendly_errors(quiet):
        from pwcflow.flow_file import FLOW_SUFFIXES
        from pwcflow.runs.video_outputs import VideoOutputs
        from pwcflow.video.find import find_videos, single_video

        names = [str(path) for path in inputs or []]
        source = single_video(names, lists or [])
        folder, movie = (_video_outputs if source else _folders)(output, flo, viz)
        if (max_flow or fps) and not movie:
            raise typer.BadParameter("--max-flow and --fps are for a colour video; give --viz FILE")
        if overwrite and source and not folder:
            raise typer.BadParameter("--overwrite is for a folder of flows; give --flo DIR")
        suffix = f".{to.lower().removeprefix('.')}"
        if suffix not in FLOW_SUFFIXES:
            known = " ".join(known[1:] for known in FLOW_SUFFIXES)
            raise typer.BadParameter(f"--to is one of {known}, not {to}")
        if suffix != ".flo" and not folder:
            raise typer.BadParameter("--to is for a folder of flows; give --flo DIR")
        look = chosen_look(
            without=None if movie else "a colour video",
            max_flow=max_flow, parts=("frame", "second"),
            style=style, palette=palette, background=background, gamma=gamma,
            noise_floor=noise_floor, unknown=unknown, legend=legend, spacing=spacing,
            opacity=opacity,
        )  # fmt: skip
        outputs = VideoOutputs(
            folder=folder,
            suffix=suffix,
            overwrite=overwrite,
            viz=movie,
            max_flow=max_flow,
            look=look,
            fps=fps,
        )
        load = estimator_loader(weights, device, precision, network_scale, quiet)
        find = maker_finder(weights, precision, network_scale)
        if source:
            from pwcflow.pipeline import estimate_video

            summary = estimate_video(
                load, source, outputs, selection=selection, find_maker=find, progress=not quiet
            )
            tell(_video_told(summary, outputs), summary, quiet=quiet, as_json=as_json)
            return
        from pwcflow.pipeline.many_videos import estimate_videos

        videos = find_videos(names, lists or [], filter(None, (folder, movie)))
        summary = estimate_videos(
            load, videos, outputs, selection=selection, find_maker=find, progress=not quiet
        )
        counts = ", ".join(f"{summary[name]} {name}" for name in ("done", "skipped", "failed"))
        told = f"{outputs}: {counted(summary['videos'], 'video')}, {counts}"
        tell(told, summary, quiet=quiet, as_json=as_json)
        fail_for([one["reason"] for one in summary["results"] if one["outcome"] == "failed"])


def _video_outputs(
    output: Path | None, flo: Path | None, viz: Path | None
) -> tuple[Path | None, Path | None]:
    """Return the folder of flows and the colour video that the three options ask for."""
    from pwcflow.video_writer import VIDEO_SUFFIXES

    if output is None:
        return flo, viz
    if output.suffix.lower() in VIDEO_SUFFIXES and not output.is_dir():
        if viz:
            raise typer.BadParameter(f"-o {output} and --viz {viz} are both a colour video")
        return flo, output
    if flo:
        raise typer.BadParameter(f"-o {output} and --flo {flo} are both a folder of flows")
    if output.suffix and not output.is_dir():
        known = ", ".join(sorted(VIDEO_SUFFIXES))
        raise OutputError(
            f"{output} is neither a video that can be written ({known}) nor a folder that exists; "
            "for a new folder with a dot in its name use --flo"
        )
    return output, viz


def _folders(
    output: Path | None, flo: Path | None, viz: Path | None
) -> tuple[Path | None, Path | None]:
    """Return the folders for the flows and the colour videos of many videos."""
    from pwcflow.video_writer import VIDEO_SUFFIXES

    for option, path in (("-o", output), ("--flo", flo), ("--viz", viz)):
        if path and path.suffix.lower() in VIDEO_SUFFIXES and not path.is_dir():
            raise typer.BadParameter(
                f"{option} {path} is one video, but there are many: give a folder"
            )
    return _video_outputs(output, flo, viz)


def _video_told(summary: dict[str, Any], outputs: object) -> str:
    size = f"{summary['width']} x {summary['height']} pixels"
    flows = counted(summary["flows"], "flow")
    before = ", complete before" if summary["outcome"] == "skipped" else ""
    return f"{outputs}: {flows} of {size}{scale_told(summary)}{before}"
