"""The command line: each command parses its arguments, hands them on, and tells what was done.

Exit codes: 0 ok, 1 an input or the environment (one line on stderr), 2 usage, 130 interrupted.
"""

import os
import re
import signal
import sys
import time
from functools import partial
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pwcflow import __version__
from pwcflow.cli.bench import BENCH_EXAMPLES, bench
from pwcflow.cli.console import INTERRUPTED, give_up
from pwcflow.cli.convert import CONVERT_EXAMPLES, convert
from pwcflow.cli.estimate import ESTIMATE_EXAMPLES, estimate
from pwcflow.cli.evaluate import EVALUATE_EXAMPLES, evaluate
from pwcflow.cli.info import INFO_EXAMPLES, info
from pwcflow.cli.train import TRAIN_EXAMPLES, train
from pwcflow.cli.video import VIDEO_EXAMPLES, video
from pwcflow.cli.view import VIEW_EXAMPLES, view
from pwcflow.cli.visualize import VISUALIZE_EXAMPLES, visualize
from pwcflow.errors import reason_of

_LARGE_MODULES = ("numpy", "torch", "cv2", "pydantic")
"""Those that a command imports, and the one that Typer does while it parses."""
_PATIENCE = 3.0
"""Seconds that an interruption may wait for imports to be done."""

app = typer.Typer(
    help="Dense optical flow from files: PWC-Net on a GPU or a CPU.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Command(TyperCommand):
    """Takes no empty value, and shows arguments as FIRST or FILE...

    Some Typers say {FIRST}, and FIRST <path> below.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # as for completion
            self._refuse_empty(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_empty(self, ctx: Any, args: list[str]) -> None:
        """As paths these would be the current folder: a variable of a script was not set."""
        parser: Any = self.make_parser(ctx)
        values, _, given = parser.parse_args(args=list(args))
        for parameter in given:
            value = values.get(parameter.name)
            if "" in (value if isinstance(value, list | tuple) else [value]):
                raise typer.BadParameter("it is empty; give a value", ctx=ctx, param=parameter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [piece.translate({ord("{"): None, ord("}"): None}) for piece in pieces]

    def get_help(self, ctx: Any) -> str:
        def blank(match: re.Match[str]) -> str:
            return match[1] + " " * len(match[2])

        return re.sub(r"^(  [A-Z]+)( <\S+>)", blank, super().get_help(ctx), flags=re.MULTILINE)


app.command(cls=_Command, epilog=ESTIMATE_EXAMPLES)(estimate)
app.command(cls=_Command, epilog=VIDEO_EXAMPLES)(video)
app.command(cls=_Command, epilog=VISUALIZE_EXAMPLES)(visualize)
app.command(cls=_Command, epilog=CONVERT_EXAMPLES)(convert)
app.command(cls=_Command, epilog=INFO_EXAMPLES)(info)
app.command(cls=_Command, epilog=VIEW_EXAMPLES)(view)
app.command(cls=_Command, epilog=EVALUATE_EXAMPLES)(evaluate)
app.command(cls=_Command, epilog=TRAIN_EXAMPLES)(train)
app.command(cls=_Command, epilog=BENCH_EXAMPLES)(bench)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"pwcflow {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def _interrupt(number: int, frame: FrameType | None, until: float | None = None) -> None:
    """Raise KeyboardInterrupt, but not where that could be lost.

    While large modules are set up, what calls Python may drop the exception, or raise another in
    its place. So it comes when that is done. Where that takes too long the process ends at once: of
    a command there may be locks by then, whose files stay, but no results.
    """
    if any(map(_being_imported, _LARGE_MODULES)):
        until = until or time.monotonic() + _PATIENCE
        if hasattr(signal, "setitimer") and time.monotonic() < until:
            signal.signal(signal.SIGALRM, partial(_interrupt, until=until))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return
        print("interrupted", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)
    signal.default_int_handler(number, frame)


def _being_imported(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return getattr(spec, "_initializing", False)


def main() -> None:
    """Run the command line. SIGTERM and a closed terminal are interruptions, as Ctrl-C is."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    # Read when PyTorch is imported: its threads then sleep while they wait for each other. Where
    # other programs want the cores as well, turning round in place makes all several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except SystemExit as ended:
        # Before there is a command to tell of it, Typer ends an interruption without a word.
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
            print("interrupted", file=sys.stderr)
        raise
    except OSError as error:  # of help and version: a command tells its own itself
        give_up(sys.stdout)
        print(f"error: cannot write: {reason_of(error)}; check the disk", file=sys.stderr)
        sys.exit(1)
