"""Whether the processors are free for what is to be measured."""

import hashlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from pwcflow.counted import counted
from pwcflow.processors import usable_processors

_ENOUGH = 0.9  # of the time of the processors that are needed: times are a tenth too long then
_TRIALS = 3
_SECONDS = 0.15  # of a trial: many turns of the scheduler, which last some milliseconds each
_BYTES = bytes(1 << 22)  # hashed in some milliseconds, so that the threads seldom wait for the GIL


def warn_if_busy() -> None:
    """Log a warning where PyTorch's threads cannot have the processors that they are to use."""
    threads = min(torch.get_num_threads(), usable_processors())
    if warning := busy_warning(processors_got(threads), threads):
        logging.getLogger(__name__).warning(warning)


def busy_warning(got: float, threads: int) -> str | None:
    """Return what to tell when threads get the time of `got` processors; None where it suffices."""
    if got >= _ENOUGH * threads:
        return None
    return (
        f"before measuring, {counted(threads, 'thread')} got the time of only {got:.1f} "
        "processors, so all times will be too long: other programs use the rest, or this one is "
        "not allowed to; end what else runs, or set OMP_NUM_THREADS to the number of processors "
        "that it may use"
    )


def processors_got(threads: int) -> float:
    """Return how many processors' time that many threads of this process get.

    It is tried out, as no counter tells it: a load average looks a minute back, counts this process
    too, and knows neither priorities nor which processors this process may use. The best trial
    counts, so that a moment's work of others, or PyTorch's threads still spinning, warn of nothing.
    """
    with ThreadPoolExecutor(threads) as pool:
        return max(sum(pool.map(_share, range(threads))) for _ in range(_TRIALS))


def _share(_: int) -> float:
    """Return the part of a processor's time that this thread gets."""
    began, used = time.perf_counter(), time.thread_time()
    while (lasted := time.perf_counter() - began) < _SECONDS:
        hashlib.sha256(_BYTES)  # does not hold the GIL
    return (time.thread_time() - used) / lasted
