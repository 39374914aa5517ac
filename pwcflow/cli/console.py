"""What the commands say, and how they end."""

import errno
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

import typer

from pwcflow.errors import PwcFlowError, memory_shortage, reason_of
from pwcflow.plain_json import to_json

INTERRUPTED = 130

_NOT_IN_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@contextmanager
def friendly_errors(quiet: bool) -> Iterator[None]:
    """Turn a user's mistake into one line and exit code 1; anything else is ours and shows."""
    logging.basicConfig(
        format="pwcflow: %(message)s", level=logging.ERROR if quiet else logging.WARNING
    )
    try:
        yield
    except PwcFlowError as error:
        _fail(str(error))
    except KeyboardInterrupt as error:
        _print("; ".join(filter(None, ("interrupted", str(error)))), err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        if error.errno == errno.EPIPE:  # who read our output has left: Typer ends without a word
            raise
        what = f"cannot use {error.filename}" if error.filename else "cannot read or write"
        _fail(f"{what}: {reason_of(error)}; check the path, its permissions and the disk")
    except (MemoryError, RuntimeError) as error:
        shortage = memory_shortage(error)
        if shortage is None:
            raise
        _fail(shortage)


def import_torch() -> None:
    """Import PyTorch, which is missing or broken on many a machine, or say so in one line."""
    try:
        import_module("torch")
    except (ImportError, OSError) as error:
        raise PwcFlowError(
            f"PyTorch cannot be imported ({error}); run: pip install torch"
        ) from error


def _fail(message: str) -> NoReturn:
    _print(f"error: {message}", err=True)
    raise typer.Exit(1) from None


def tell(sentence: str, summary: dict[str, Any], *, quiet: bool, as_json: bool) -> None:
    """Print what was done on stdout: the summary as JSON, a sentence, or nothing."""
    if as_json:
        _print(to_json(summary))
    elif not quiet:
        _print(sentence)


def tell_lines(
    lines: Iterable[str], summary: dict[str, Any], *, quiet: bool, as_json: bool
) -> None:
    """Print as `tell` does, with several lines in place of a sentence."""
    for line in [""] if as_json else lines:
        tell(line, summary, quiet=quiet, as_json=as_json)


def score_told(score: Mapping[str, Any]) -> str:
    """Return the two measures of a score in words."""
    outliers = f"{100 * score['outliers']:.1f} % outliers"
    return f"end-point error {score['end_point_error_px']:.4g} px, {outliers}"


def fail_for(reasons: Sequence[str]) -> None:
    """Tell on stderr why parts of the work failed, a line each, and end with 1; none is fine."""
    for reason in reasons:
        _print(f"error: {reason}", err=True)
    if reasons:
        raise typer.Exit(1)


def _print(text: str, *, err: bool = False) -> None:
    """Print one line, whatever is in it: names of files may hold line ends and escape codes."""
    line = _NOT_IN_A_LINE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        typer.echo(line.encode(encoding, "backslashreplace").decode(encoding), err=err)
    except OSError:
        give_up(stream)
        raise


def give_up(stream: IO[str]) -> None:
    """Let what could not be written to a stream go nowhere: Python tries it once more at exit."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
