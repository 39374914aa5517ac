"""Times of calls, on a GPU by events and on a CPU by the clock, and the memory they needed."""

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

Call = Callable[[], object]

WARM_UP = {"cuda": 5, "cpu": 1}
"""Calls before the first one that counts: they load and compile kernels, and fill caches."""
LAUNCHES = 20
"""Calls in one CUDA graph of `time_launches`."""
MEGABYTE = 1e6


@dataclass(frozen=True)
class Times:
    """What half, and all but 5 %, of the repeated calls took at most."""

    p50: float
    p95: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Times":
        """Return the percentiles of samples, interpolated between the two nearest."""
        p50, p95 = np.percentile(samples, (50, 95))
        return cls(float(p50), float(p95))

    def __mul__(self, factor: float) -> "Times":
        """Return the same times in another unit."""
        return Times(self.p50 * factor, self.p95 * factor)


@dataclass(frozen=True)
class Memory:
    """The most that was in use at once, in megabytes of 10^6 bytes; None where unknown."""

    gpu_allocated: float | None
    """In tensors."""
    gpu_reserved: float | None
    """Taken from the driver by PyTorch's allocator."""
    process: float | None
    """Resident, since the process began: it never falls."""


def time_calls(call: Call, device: torch.device, repeats: int) -> Times:
    """Return how long a call takes, in milliseconds, after some that do not count.

    On a GPU the calls queue up one behind the other, as those of a program do that never waits.
    """
    for _ in range(WARM_UP[device.type]):
        call()
    if device.type == "cuda":
        return Times.of(_events(call, device, repeats))
    return Times.of([seconds(call) * 1e3 for _ in range(repeats)])


def time_launches(call: Call, device: torch.device, repeats: int) -> Times:
    """Return how long the kernels of a call take, in microseconds.

    On a GPU `LAUNCHES` calls are captured in one CUDA graph, the replays of which are timed and
    divided, so that launches from Python do not dominate. The calls read the same tensors, which
    the L2 cache may hold: these are warm times, as in a network whose previous layer has just
    written them.
    """
    if device.type != "cuda":
        return time_calls(call, device, repeats) * 1e3
    with torch.cuda.device(device):
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP["cuda"]):
                call()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(LAUNCHES):
                call()
        return time_calls(graph.replay, device, repeats) * (1e3 / LAUNCHES)


def seconds(call: Call) -> float:
    """Return how long one call takes by the clock."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def forget_memory(device: torch.device) -> None:
    """Give back what is unused, and let `peak_memory` of a GPU begin anew."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> Memory:
    """Return the most memory in use at once, on a GPU since `forget_memory`."""
    allocated = reserved = None
    if device.type == "cuda":
        allocated = torch.cuda.max_memory_allocated(device) / MEGABYTE
        reserved = torch.cuda.max_memory_reserved(device) / MEGABYTE
    return Memory(allocated, reserved, _resident())


def out_of_gpu_memory(error: RuntimeError) -> bool:
    """Return whether an error says so: the allocator's, or that of a library or the driver."""
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or (
        "cuda" in text and ("out of memory" in text or "alloc_failed" in text)
    )


def _events(call: Call, device: torch.device, repeats: int) -> list[float]:
    with torch.cuda.device(device):
        starts, ends = (
            [torch.cuda.Event(enable_timing=True) for _ in range(repeats)]  # type: ignore[no-untyped-call]
            for _ in range(2)
        )
        torch.cuda.synchronize()
        for start, end in zip(starts, ends, strict=True):
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in zip(starts, ends, strict=True)]


def _resident() -> float | None:
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE
