"""Reading ahead and writing behind, so that the network waits for neither, in bounded memory."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Protocol, TypeVar

import numpy.typing as npt

from pwcflow.processors import usable_processors

_MOST_ITEMS = 16  # as many frames as the estimator takes at a time at most
_MOST_BYTES = 256 << 20

Step = tuple[Callable[[int, Any], object], int]
"""Does something with the flow of a number, or with what the step before made of it, in so many
threads; with one it gets them in order."""
Writer = Sequence[Step]
"""Brings a flow to one of the places where it goes."""


def items_at_once(size: int) -> int:
    """Return how many frames or flows of `size` bytes may wait between two stages, 2 to 16."""
    return min(max(_MOST_BYTES // size, 2), _MOST_ITEMS)


class _Loaded(Protocol):
    @property
    def nbytes(self) -> int: ...


Loaded = TypeVar("Loaded", bound=_Loaded)
"""A frame, or something else that knows its size."""


def prefetch(loads: Iterable[Callable[[], Loaded]]) -> Generator[Loaded, None, None]:
    """Yield frames in order while threads prepare the next ones, at most `items_at_once`.

    One thread iterates `loads`, which for a video is to decode it, and others load. An error of
    either comes up after the frames before it. Closing the generator waits until the threads are
    done with the frames they are at; after that nothing uses `loads` any more.
    """
    source = iter(loads)
    iterating = ThreadPoolExecutor(1, "read-ahead")
    loading = ThreadPoolExecutor(min(usable_processors(), _MOST_ITEMS), "load")

    def begun() -> Future[Loaded | None]:
        return loading.submit(_loaded, iterating.submit(next, source, None))

    waiting = deque([begun()])
    try:
        while (frame := waiting.popleft().result()) is not None:
            while len(waiting) < items_at_once(frame.nbytes):
                waiting.append(begun())
            yield frame
    finally:
        _join(iterating, cancel=True)
        _join(loading, cancel=True)


def _loaded(job: Future[Callable[[], Loaded] | None]) -> Loaded | None:
    load = job.result()
    return load() if load else None


class WriteBehind(AbstractContextManager["WriteBehind"]):
    """Lets threads write flows or pictures, and counts in order those in all their places.

    A context manager. Leaving it waits for the threads: for all they were handed, or, when a writer
    has failed or the user insists, for what they are at. Flows that are not counted then are
    undone, so that those on disk leave no gap.

    Attributes:
        written: how many, from the first on, are in all their places.
    """

    def __init__(self, writers: Sequence[Writer], undo: Callable[[int], object]) -> None:
        """Hold the writers; threads start with the first flow.

        Args:
            writers: what each flow goes through.
            undo: removes what may be there of a flow, given its number.
        """
        self.written = 0
        self._writers = [
            [(work, ThreadPoolExecutor(threads, "write-behind")) for work, threads in steps]
            for steps in writers
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
        for steps in self._writers:
            for _, threads in steps:  # the first ones first: the others wait for them
                _join(threads, cancel=cancel)
        while self._waiting and not any(map(_failed, self._waiting[0][1])):
            self._count_oldest()
        for number, _ in self._waiting:
            self._undo(number)

    def write(self, flow: npt.NDArray[Any]) -> None:
        """Hand in the next flow, waiting while `items_at_once` are not written.

        Raises:
            Exception: what a writer raised for an earlier flow; all flows before that one are
                written by now, and no more can be.
        """
        if self._has_failed():
            self.finish()
        number = self._waiting[-1][0] + 1 if self._waiting else self.written
        jobs = [_submit(steps, number, flow) for steps in self._writers]
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


def _submit(
    steps: Sequence[tuple[Callable[[int, Any], object], ThreadPoolExecutor]],
    number: int,
    flow: npt.NDArray[Any],
) -> Future[object]:
    """Queue all steps for a flow, and return the last one's job."""
    (first, threads), *others = steps
    job = threads.submit(first, number, flow)
    for work, threads in others:
        job = threads.submit(_go_on, work, number, job)
    return job


def _go_on(work: Callable[[int, Any], object], number: int, before: Future[object]) -> object:
    return work(number, before.result())


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
