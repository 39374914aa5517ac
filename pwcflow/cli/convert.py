"""The command `convert`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pwcflow.cli.console import friendly_errors, tell
from pwcflow.cli.options import BoundOption, JsonOption, QuietOption
from pwcflow.counted import counted

if TYPE_CHECKING:
    from pwcflow.flow_file import Direction

CONVERT_EXAMPLES = """\b
Examples:
  pwcflow convert flow.flo -o flow.npz
  pwcflow convert flows -o kitti --to png
  pwcflow convert flows -o jpegs --to jpg --bound 20
  pwcflow convert both.exr -o back.flo --direction backward
  pwcflow convert jpegs/flow_x_00001.jpg -o flow.flo
"""


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT", readable=False, help="A flow file or a folder of them, at any depth."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUTPUT",
            readable=False,
            help="A flow file, in a folder that must be there; or for a folder a folder, made "
            "where missing.",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="What a folder is converted to: flo, png (KITTI), npy, npz, pfm, flo5, exr, or "
            "as pairs of 8-bit pictures jpg or png8.",
        ),
    ] = None,
    bound: BoundOption = None,
    direction: Annotated[
        str, typer.Option(metavar="forward|backward", help="Which flow of an .exr with both.")
    ] = "forward",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that are there already.")
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write flow files in another format.

    The suffix of OUTPUT decides the format of a file, --to that of a folder's files, whose names
    stay. A pair of 8-bit pictures is named by its first one, flow_x_00001.jpg or NAME_x.png; the
    second has y for x.
    """
    if direction not in ("forward", "backward"):
        raise typer.BadParameter("--direction is forward or backward")
    chosen: Direction = "forward" if direction == "forward" else "backward"
    with friendly_errors(quiet):
        from pwcflow.pipeline.convert import FORMATS, convert_file, convert_folder

        if source.is_dir():
            wanted = (to or "").lower().removeprefix(".")
            if wanted not in FORMATS:
                raise typer.BadParameter(
                    f"{source} is a folder; give --to and one of {' '.join(FORMATS)}"
                )
            summary = convert_folder(
                source,
                output,
                wanted,
                bound=bound,
                direction=chosen,
                overwrite=overwrite,
                progress=not quiet,
            )
        else:
            if to:
                raise typer.BadParameter("--to is for a folder; a file has its suffix")
            summary = convert_file(
                source, output, bound=bound, direction=chosen, overwrite=overwrite
            )
        flows = counted(summary["flows"], "flow")
        lost = summary["lost_pixels"]
        beyond = f", {counted(lost, 'pixel')} beyond what it holds" if lost else ""
        told = f"{output}: {flows}{beyond}"
        tell(told, summary, quiet=quiet, as_json=as_json)
