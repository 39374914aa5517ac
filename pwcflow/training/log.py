"""A run's log: one JSON object a line, so that programs and people can follow."""

import json
import math
import sys
from pathlib import Path
from typing import Any

from pwcflow.atomic_file import replacing
from pwcflow.errors import OutputError, reason_of
from pwcflow.plain_json import to_json


class RunLog:
    """Appends lines to a file, and to stderr if wanted; each is in the file once it is written."""

    def __init__(self, path: Path, *, echo: bool = False) -> None:
        """Make the file if there is none; what an earlier run wrote stays.

        Raises:
            OutputError: the file cannot be written.
        """
        self._path = path
        self._echo = echo
        self._append("")

    def write(self, values: dict[str, object]) -> None:
        """Append one line; a number that is not finite becomes null, which JSON knows.

        Raises:
            OutputError: the file cannot be written.
        """
        line = to_json({name: _rounded(value) for name, value in values.items()}) + "\n"
        self._append(line)
        self._tell(line)

    def cut(self, step: int) -> None:
        """Remove lines of later steps, which are made again, and what is not whole.

        Raises:
            OutputError: the file cannot be read or written.
        """
        text = self._text()
        kept = "".join(f"{line}\n" for line in text.splitlines() if _step_of(line) <= step)
        if kept != text:
            with replacing(self._path) as temporary:
                temporary.write_text(kept, encoding="utf-8")

    def last(self, name: str) -> object:
        """Return what the last line that has a value of this name has; None if there is none."""
        for line in reversed(self._text().splitlines()):
            values = _parsed(line)
            if name in values:
                return values[name]
        return None

    def tells(self, step: int, ending: str) -> bool:
        """Return whether a line of a step has a value whose name has this ending."""
        lines = map(_parsed, self._text().splitlines())
        of_step = (values for values in lines if values.get("step") == step)
        return any(name.endswith(ending) for values in of_step for name in values)

    def say(self, sentence: str) -> None:
        """Write a sentence to stderr if lines go there, and not to the file."""
        self._tell(f"{sentence}\n")

    def _tell(self, text: str) -> None:
        """Write to stderr while somebody reads there: a run goes on without a reader."""
        if not self._echo or sys.stderr is None:  # it was closed before Python began
            return
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # a pipe's reader has left, the terminal was closed
            self._echo = False

    def _text(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise OutputError(
                f"cannot read {self._path}: {reason_of(error)}; check its permissions"
            ) from error

    def _append(self, text: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise OutputError(
                f"cannot write {self._path}: {reason_of(error)}; check its folder and the disk"
            ) from error


def _step_of(line: str) -> float:
    """Return the step that a line tells of; one after all others if it does not say."""
    step = _parsed(line).get("step")
    return step if isinstance(step, int) else math.inf


def _parsed(line: str) -> dict[str, Any]:
    """Return the values of a line; none of one that is not whole, as a kill may leave."""
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _rounded(value: object) -> object:
    """Return floats with six digits that matter, and others as they are."""
    return float(f"{value:.6g}") if isinstance(value, float) else value
