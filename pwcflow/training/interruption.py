"""Signals to end as a wish that a loop can look up, so that it stops where it is safe."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")

HANGUP = getattr(signal, "SIGHUP", None)
SIGNALS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, HANGUP)))


class Interruption:
    """Whether somebody wants this process to stop."""

    def __init__(self, then: Callable[[], None] | None = None) -> None:
        """Nobody wants it yet; `then` is called whenever somebody does."""
        self.requested = False
        self._raising = False
        self._then = then
        self._outer: Interruption | None = None

    def catch(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.request()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._raising:
            self._raising = False  # a second signal, such as another process's, may come at once
            raise KeyboardInterrupt

    def request(self) -> None:
        """Want it, here and in the blocks around this one."""
        self.requested = True
        if self._then:
            self._then()
        if self._outer:
            self._outer.request()

    def unless_requested(self, work: Callable[[], Result]) -> Result | None:
        """Return what `work` makes, which nobody needs who wants to stop: None is returned then.

        It is not begun after a request, and left at once when one comes.
        """
        # No context manager: a signal on its way into the block or out of it would pass it by.
        try:
            self._raising = True
            try:
                return None if self.requested else work()
            finally:
                self._raising = False
        except KeyboardInterrupt:
            self.request()
            return None

    def inside(self, handler: object) -> None:
        """Be inside of the block whose handler was in place before, if it is such a block's."""
        outer = _block_of(handler)
        if outer:
            if outer.requested:
                self.request()
            self._outer = outer


def _block_of(handler: object) -> Interruption | None:
    """Return the block whose handler this is, if it is one's."""
    block = getattr(handler, "__self__", None)
    return block if isinstance(block, Interruption) else None


@contextmanager
def catching_interruptions(then: Callable[[], None] | None = None) -> Iterator[Interruption]:
    """Turn the signals that end a process into a request, for as long as a block runs.

    They are Ctrl-C, SIGTERM, and a closed terminal, but not under nohup. A second Ctrl-C interrupts
    at once, as usual. Of blocks inside each other, all learn of a request, those that begin after
    it too. Outside the main thread, which alone may handle signals, nothing is ever requested.

    Args:
        then: is called, too, whenever there is a request.
    """
    interruption = Interruption(then)
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {
        number: signal.signal(number, interruption.catch)
        for number in SIGNALS
        if number != HANGUP or signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        interruption.inside(before[signal.SIGTERM])  # a first Ctrl-C changes that of SIGINT
        if interruption.requested:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield interruption
    finally:
        for number, handler in before.items():
            again = number == signal.SIGINT and interruption.requested and _block_of(handler)
            signal.signal(number, signal.default_int_handler if again else handler)
