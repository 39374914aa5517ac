"""The command `info`."""

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from pwcflow.cli.console import friendly_errors, tell
from pwcflow.cli.options import BoundOption, JsonOption, QuietOption

INFO_EXAMPLES = """\b
Examples:
  pwcflow info flow.flo
  pwcflow info flows/
  pwcflow info flows/*.npz --json
"""


def info(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            readable=False,
            help="Flow files, of any format, or folders of them, at any depth.",
        ),
    ],
    bound: BoundOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tell what flow files hold.

    A line a file: kind, size, share of valid pixels, range in pixels, and what it tells of itself,
    if anything. The first file that cannot be read ends it.
    """
    with friendly_errors(quiet):
        from pwcflow.pipeline.flow_tree import flow_files_below
        from pwcflow.pipeline.info import describe, sentence_of
        from pwcflow.runs.provenance import remembering_record

        read = remembering_record()
        below = ([name] if not name.is_dir() else flow_files_below(name) for name in files)
        described = []
        for file in chain.from_iterable(below):
            described.append(describe(file, bound=bound, read=read))
            if not as_json:
                tell(sentence_of(described[-1]), {}, quiet=quiet, as_json=False)
        if as_json:
            tell("", {"files": described}, quiet=quiet, as_json=True)
