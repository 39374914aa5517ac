"""A process for each device of this machine, working together."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import torch
import torch.multiprocessing as mp
from torch.multiprocessing.spawn import (
    ProcessException,
    ProcessExitedException,
    start_processes,
)

from pwcflow.errors import PwcFlowError, memory_shortage
from pwcflow.training.interruption import catching_interruptions
from pwcflow.training.ranks import Ranks, joined_by_port, open_store

Result = TypeVar("Result")


def run_processes(device: str, count: int, work: Callable[[Ranks], Result]) -> Result:
    """Run processes, pass signals on to them, and return the first one's result.

    What goes wrong for a reason of the user's is raised as in one process.

    Args:
        device: what `--device` says; see `ranks.device_of`.
        count: number of processes.
        work: what each does; must be picklable, and so must its result.

    Raises:
        PwcFlowError: one of them was killed, or memory ran out in one.
        KeyboardInterrupt: a signal came before `work` could catch it.
    """
    store = open_store()
    results = mp.get_context("spawn").SimpleQueue()
    arguments = (device, count, work, store.port, results)
    processes = start_processes(  # type: ignore[no-untyped-call]
        _work_as_one_of_several, arguments, count, join=False
    )

    def pass_on() -> None:
        for process in processes.processes:
            if process.is_alive():
                process.terminate()

    failure: ProcessException | None = None
    try:
        with catching_interruptions(pass_on) as interruption, _quiet_spawn():
            while not processes.join():
                pass
    except ProcessException as error:
        failure = error
    told: list[Result | PwcFlowError] = []
    while not results.empty():
        told.append(results.get())
    for result in told:
        if isinstance(result, PwcFlowError):
            raise result
    if failure and not interruption.requested:
        raise _killed(failure, count) or failure
    if not told:
        raise KeyboardInterrupt
    return cast("Result", told[0])


def _killed(failure: ProcessException, count: int) -> PwcFlowError | None:
    """Return what to tell of a process that was killed; None if it ended by itself."""
    if not (isinstance(failure, ProcessExitedException) and failure.signal_name == "SIGKILL"):
        return None
    return PwcFlowError(
        f"process {failure.error_index + 1} of {count} was killed, by somebody or by the system "
        "for want of memory; resume the run, or begin it anew with a smaller batch"
    )


@contextmanager
def _quiet_spawn() -> Iterator[None]:
    """Leave it to the error that one process raised to say why PyTorch ends the others."""
    logger = logging.getLogger("torch.multiprocessing.spawn")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _work_as_one_of_several(
    rank: int,
    device: str,
    count: int,
    work: Callable[[Ranks], Result],
    port: int,
    results: "mp.SimpleQueue[Result | PwcFlowError]",
) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // count))
    # An error of the work is told before the group is left, at which the others fail.
    with _telling(results), joined_by_port(device, rank, count, port) as ranks, _telling(results):
        result = work(ranks)
    if rank == 0:
        results.put(result)


@contextmanager
def _telling(results: "mp.SimpleQueue[Result | PwcFlowError]") -> Iterator[None]:
    """Hand an error on and end the process: the others, which may wait for it, are ended then."""
    try:
        yield
    except PwcFlowError as error:
        results.put(error)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        shortage = memory_shortage(error)
        if shortage is None:
            raise
        results.put(PwcFlowError(shortage))
        sys.exit(1)
