"""Ctrl-C and SIGTERM as a wish that a loop can look up, so that it stops where it is safe."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether somebody wants this process to stop."""

    requested = False


@contextmanager
def catching_interruptions(then: Callable[[], None] | None = None) -> Iterator[Interruption]:
    """Turn the signals that end a process into a request, for as long as a block runs.

    A second Ctrl-C interrupts at once, as usual. Outside the main thread, which alone may handle
    signals, nothing is ever requested.

    Args:
        then: is called, too, whenever a signal comes.
    """
    interruption = Interruption()

    def request(number: int, frame: FrameType | None) -> None:
        interruption.requested = True
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if then:
            then()

    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.signal(number, request) for number in SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
