"""File descriptor 2, held back while libraries written in C use it for what we say in a line.

It belongs to the process: whatever comes from it while several threads are at work may be of any.
"""

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

_BEGINS = (
    rb"(?:libpng (?:warning|error):|Corrupt JPEG data|Premature end of JPEG|Unknown Adobe color"
    rb"|Inconsistent progression|Warning: unknown JFIF|Invalid SOS parameters)"
)
_LINE = re.compile(_BEGINS + rb"[^\n]*\n")
_UNFINISHED = re.compile(_BEGINS + rb"[^\n]*\Z")  # libpng writes the end of a line apart

Result = TypeVar("Result")


def with_complaints(work: Callable[[], Result]) -> tuple[Result, bytes]:
    """Return what `work` returns, and the lines that libjpeg and libpng wrote to stderr meanwhile.

    libjpeg tells in no other way that it made up pixels. What others wrote is passed on. Several
    threads may be at work; if there are complaints meanwhile, `work` is called once more with
    nobody beside it, so that it is known whose they are.
    """
    with _stderr.shared() as heard:
        result = work()
    if heard.complaints and not heard.alone:
        with _stderr.alone() as heard:
            result = work()
    return result, heard.complaints


@contextmanager
def dropped_stderr() -> Iterator[None]:
    """Drop whatever is written to file descriptor 2 inside the block: keep it short.

    One thread at a time is inside.
    """
    with _stderr.alone(passes_on=False):
        yield


@dataclass
class _Heard:
    """What came from file descriptor 2 while a thread was inside; complete when it has left."""

    start: int
    """Bytes held back before."""
    entered: int
    """How many have come in so far."""
    alone: bool
    """Whether nobody else was inside."""
    complaints: bytes = b""


class _Stderr:
    """Holds file descriptor 2 back while anyone is inside."""

    def __init__(self) -> None:
        self._turnstile = threading.Lock()
        self._somebody_left = threading.Condition()
        self._inside = self._entered = 0
        self._held: _HeldBack | None = None

    @contextmanager
    def shared(self) -> Iterator[_Heard]:
        """Let others come in, too."""
        with self._turnstile:  # behind whoever waits to be alone
            heard = self._enter()
        try:
            yield heard
        finally:
            self._leave(heard)

    @contextmanager
    def alone(self, *, passes_on: bool = True) -> Iterator[_Heard]:
        """Wait until nobody is inside, and keep others out."""
        with self._turnstile:
            with self._somebody_left:
                self._somebody_left.wait_for(lambda: not self._inside)
            heard = self._enter()
            try:
                yield heard
            finally:
                self._leave(heard, passes_on=passes_on)

    def _enter(self) -> _Heard:
        with self._somebody_left:
            self._held = self._held or _HeldBack()
            self._inside += 1
            self._entered += 1
            return _Heard(self._held.size(), self._entered, alone=self._inside == 1)

    def _leave(self, heard: _Heard, *, passes_on: bool = True) -> None:
        with self._somebody_left:
            assert self._held, "somebody is inside"
            heard.complaints = b"".join(_LINE.findall(self._held.read(heard.start)))
            heard.alone = heard.alone and heard.entered == self._entered
            self._inside -= 1
            if passes_on:
                self._held.pass_on(all_of_it=not self._inside)
            if not self._inside:
                self._held.close()
                self._held = None
            self._somebody_left.notify_all()


class _HeldBack:
    """A file in place of file descriptor 2."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - see `close`
        try:
            self._kept = os.dup(2)
        except OSError:  # no stderr, so put back one that leads nowhere
            self._kept = os.open(os.devnull, os.O_WRONLY)
        os.dup2(self._file.fileno(), 2)
        self._passed_on = 0

    def size(self) -> int:
        """Return how many bytes were written."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, start: int) -> bytes:
        """Return what was written from a byte on."""
        self._file.seek(start)  # whoever writes appends nevertheless
        return self._file.read() or b""

    def pass_on(self, *, all_of_it: bool) -> None:
        """Write to the real one what libjpeg and libpng did not write.

        Args:
            all_of_it: whether a line that is not complete has to be taken as it is.
        """
        text = self.read(self._passed_on)
        if not all_of_it and (unfinished := _UNFINISHED.search(text)):
            text = text[: unfinished.start()]
        self._passed_on += len(text)
        if others := _LINE.sub(b"", text):
            with suppress(OSError):
                os.write(self._kept, others)

    def close(self) -> None:
        """Put the real one back."""
        os.dup2(self._kept, 2)
        os.close(self._kept)
        self._file.close()


_stderr = _Stderr()
