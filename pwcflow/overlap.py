"""Reading ahead and writing behind, so that the network waits for neither, in bounded memory."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from types import TracebackType

from pwcflow.flow_file import Flow
from pwcflow.image_file import Image

_MOST_ITEMS = 16  # as many frames as the estimator takes at a time at most
_MOST_BYTES = 256 << 20

Writer = Callable[[int, Flow], object]
"""Writes a flow, given its number, to one of the places where it goes."""


def items_at_once(size: int) -> int:
    """Return how many frames or flows of `size` bytes may wait between two stages, 2 to 16."""
    return min(max(_MOST_BYTES // size, 2), _MOST_ITEMS)


def prefetch(frames: Iterable[Image]) -> Generator[Image, None, None]:
    """Yield frames in order while a thread prepares the next ones, at most `items_at_once`.

    An error of `frames` comes up after the frames before it. Closing the generator waits until the
    thread is done with the frame it is at; after that nothing uses `frames` any more.
    """
    source = iter(frames)
    thread = ThreadPoolExecutor(1, "read-ahead")
    waiting = deque([thread.submit(next, source, None)])
    try:
        while (frame := waiting.popleft().result()) is not None:
            while len(waiting) < items_at_once(frame.nbytes):
                waiting.append(thread.submit(next, source, None))
            yield frame
    finally:
        _join(thread, cancel=True)


class WriteBehind(AbstractContextManager["WriteBehind"]):
    """Lets threads write flows, and counts in order those that are in all their places.

    A context manager. Leaving it waits for the threads: for all they were handed, or, when a writer
    has failed or the user insists, for what they are at. Flows that are not counted then are
    undone, so that those on disk leave no gap.

    Attributes:
        written: how many flows, from the first on, are in all their places.
    """

    def __init__(
        self, writers: Sequence[tuple[Writer, int]], undo: Callable[[int], object]
    ) -> None:
        """Hold the writers; threads start with the first flow.

        Args:
            writers: each with the number of its threads; with one it gets the flows in order.
            undo: removes what may be there of a flow, given its number.
        """
        self.written = 0
        self._writers = [
            (writer, ThreadPoolExecutor(threads, "write-behind")) for writer, threads in writers
        ]
        self._undo = undo
        # Those not counted yet, oldest first. Each has its number here and no counter runs along:
        # an interrupt may come between any two lines, and the two would no longer agree.
        self._waiting: deque[tuple[int, list[Future[object]]]] = deque()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for the threads, and undo what follows a gap."""
        # After the first interrupt a caller finishes; whoever interrupts that will not wait.
        cancel = self._has_failed() or isinstance(error, KeyboardInterrupt)
        for _, threads in self._writers:
            _join(threads, cancel=cancel)
        while self._waiting and not any(map(_failed, self._waiting[0][1])):
            self._count_oldest()
        for number, _ in self._waiting:
            self._undo(number)

    def write(self, flow: Flow) -> None:
        """Hand in the next flow, waiting while `items_at_once` are not written.

        Raises:
            Exception: what a writer raised for an earlier flow; all flows before that one are
                written by now, and no more can be.
        """
        if self._has_failed():
            self.finish()
        number = self._waiting[-1][0] + 1 if self._waiting else self.written
        jobs = [threads.submit(writer, number, flow) for writer, threads in self._writers]
        self._waiting.append((number, jobs))
        most = items_at_once(flow.nbytes)
        while len(self._waiting) >= most or (self._waiting and _done(self._waiting[0][1])):
            self._count_oldest()

    def finish(self) -> None:
        """Wait until every flow handed in is written; raises what `write` does."""
        while self._waiting:
            self._count_oldest()

    def _has_failed(self) -> bool:
        return any(_failed(job) for _, jobs in self._waiting for job in jobs)

    def _count_oldest(self) -> None:
        number, jobs = self._waiting[0]
        for job in jobs:
            job.result()
        self.written = number + 1
        self._waiting.popleft()


def _done(jobs: Iterable[Future[object]]) -> bool:
    return all(job.done() for job in jobs)


def _failed(job: Future[object]) -> bool:
    """Return whether a job was cancelled or has raised; not so while it is still to be done."""
    return job.cancelled() or (job.done() and job.exception() is not None)


def _join(threads: ThreadPoolExecutor, *, cancel: bool) -> None:
    """Wait for threads, however often the user interrupts: what they use is closed next."""
    while True:
        with suppress(KeyboardInterrupt):
            return threads.shutdown(cancel_futures=cancel)
