"""The command `view`."""

from pathlib import Path
from typing import Annotated

import typer

from pwcflow.cli.console import friendly_errors, tell
from pwcflow.cli.options import BoundOption, JsonOption, QuietOption, positive
from pwcflow.counted import counted
from pwcflow.errors import PwcFlowError

VIEW_EXAMPLES = """\b
Examples:
  pwcflow view flows -o flows.html --open
  pwcflow view flow.flo --frames one.png --frames two.png -o flow.html
  pwcflow view kitti/*.png --frames frames/ -o kitti.html --max-side 640
"""


def view(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT",
            readable=False,
            help="Flow files of any format, or folders of them as `pwcflow video` writes.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="PAGE",
            readable=False,
            help="The page, NAME.html. Its folder must be there.",
        ),
    ],
    frames: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="SOURCE",
            readable=False,
            help="The video or folder the flows are of; or, once for each, its images. Without it: "
            "what pwcflow.json beside the flows names.",
        ),
    ] = None,
    no_frames: Annotated[
        bool, typer.Option("--no-frames", help="Show the flow only, in a smaller page.")
    ] = False,
    max_flow: Annotated[
        float | None,
        typer.Option(
            metavar="PX",
            callback=positive,
            help="Motion in pixels shown fully saturated.  [default: the longest, at least 1]",
        ),
    ] = None,
    max_side: Annotated[
        int | None,
        typer.Option(
            metavar="PX",
            min=1,
            help="Show what has a longer side smaller, with so many pixels; vectors stay as they "
            "are.",
        ),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Flows a second when playing.  [default: the source's, or 25]",
            callback=positive,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="The heading.")] = None,
    bound: BoundOption = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Show the page in the browser then.")
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a page to look at flow with, for any browser.

    It is one HTML file, which needs neither a network nor a server. It shows the frames and the
    flow's colours with a slider between them, tells the vector at each pixel, plays sequences,
    zooms and pans. Press ? in it for its keys.
    """
    if frames and no_frames:
        raise typer.BadParameter("--frames and --no-frames exclude each other")
    with friendly_errors(quiet):
        from pwcflow.viewer import view as write_page

        summary = write_page(
            results,
            output,
            frames=frames or (),
            look_for_frames=not no_frames,
            max_flow=max_flow,
            max_side=max_side,
            fps=fps,
            title=title,
            bound=bound,
            progress=not quiet,
        )
        flows = counted(summary["flows"], "flow")
        told = f"{output}: {flows}{_pictures(summary)}, {summary['bytes'] / 1e6:.1f} MB"
        told += f", vectors to {summary['precision_px']:.2g} px"
        tell(
            f"{told}, fully saturated at {summary['max_flow_px']} px",
            summary,
            quiet=quiet,
            as_json=as_json,
        )
        if open_page:
            import webbrowser

            if not webbrowser.open(output.resolve().as_uri()):
                raise PwcFlowError(
                    f"{output} is written, but there is no browser to show it in; open it yourself"
                )


def _pictures(summary: dict[str, object]) -> str:
    if sources := summary["frames_from"]:
        assert isinstance(sources, list)
        return f" with {summary['frames']} frames of {', '.join(sources)}"
    why = summary["why_no_frames"]
    return f" without frames ({why}; --frames names them)" if why else " without frames"
