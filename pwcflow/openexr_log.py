"""Keeps the package OpenEXR from writing what our own messages say in a line."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from pwcflow.held_stderr import dropped_stderr

_LIBRARY_LINE = re.compile(r"Warning: [^\n]*\n")


@contextmanager
def quiet_openexr() -> Iterator[None]:
    """Keep the library from writing to stderr, and to Python's stdout, inside the block.

    What other threads print to stdout meanwhile is then passed on. One thread at a time is inside,
    so keep the block short.
    """
    printed = io.StringIO()
    with dropped_stderr():
        try:
            with redirect_stdout(printed):
                yield
        finally:
            if others := _LIBRARY_LINE.sub("", printed.getvalue()):
                print(others, end="")
