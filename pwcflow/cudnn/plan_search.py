"""Which plan each graph is computed by: the fastest one, found when it is first asked for.

Or before: those of a whole network are built by many threads, which takes a fraction of the time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import compress, islice
from typing import TypeVar

import torch
from torch import Tensor

from pwcflow.cudnn.descriptors import CudnnError, Descriptor, context_of
from pwcflow.cudnn.operations import Layout
from pwcflow.cudnn.plans import Plan, plans, time_plan
from pwcflow.processors import usable_processors

_T = TypeVar("_T")
_R = TypeVar("_R")

Key = tuple[object, ...]
_found: dict[Key, Plan | None] = {}
"""Kept for the life of the process: captured CUDA graphs run the kernels of plans."""


@dataclass(frozen=True)
class Request:
    """What a plan is wanted for. It knows of no tensor, so that it keeps no memory."""

    key: Key
    """Tells plans apart."""
    device: torch.device
    operations: Callable[[], list[Descriptor]]
    """Makes the graph."""
    names: tuple[int, ...]
    """Of the tensors in the graph."""
    layouts: tuple[Layout, ...]
    """Of these tensors."""
    written: int
    """Number of the one that it writes."""
    most: int
    """Plans that are tried out."""


_asked: ContextVar[dict[Key, Request] | None] = ContextVar("asked", default=None)
"""What is to be planned at the end of this thread's block of `planning`, if it is in one."""


@contextmanager
def planning() -> Iterator[None]:
    """Only note in here which convolutions are computed; at the end find the plans of all.

    What they would write stays as it was, so that whatever is computed from it is of no use. The
    plans are built by as many threads as there are processors, and then timed one after the other,
    while nothing else should run on the GPU. What other threads compute meanwhile is computed.

    Graphs that cuDNN refuses are left for `compute`, which says so. After an error in the block
    nothing is planned.
    """
    asked: dict[Key, Request] = {}
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)
    _find(list(asked.values()))


def compute(request: Request, tensors: Sequence[Tensor]) -> None:
    """Queue a graph on PyTorch's current stream, or only note it for `planning`.

    Args:
        request: what is computed.
        tensors: on what, in the order of its names.

    Raises:
        CudnnError: cuDNN cannot compute it, or has not been asked before a capture.
    """
    asked = _asked.get()
    if asked is not None and request.key not in _found:
        asked[request.key] = request
        return
    plan = _plan_for(request, tensors)
    if asked is None:
        plan.run(tensors)


def in_threads(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Return what a function makes of each item, by a thread for each processor.

    After an error of the function, or when the user interrupts, what has begun is waited for, and
    nothing more is begun.
    """
    threads = ThreadPoolExecutor(max(min(usable_processors(), len(items)), 1), "plan")
    try:
        return list(threads.map(function, items))
    finally:
        threads.shutdown(cancel_futures=True)


class _Search:
    """The way to the fastest plan for a request: any thread builds, and one at a time tries out."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._plans = plans(request.device, request.operations, request.names, request.layouts)
        self._built: list[Plan] = []

    def build(self) -> None:
        """Build as many plans as are tried out; raises `CudnnError` if cuDNN refuses the graph."""
        self._build(self.request.most)

    def could_build(self) -> bool:
        """Build them, and return whether cuDNN takes the graph."""
        try:
            self.build()
        except CudnnError:
            return False
        return True

    def finish(self, tensors: Sequence[Tensor]) -> None:
        """Time what was built on tensors, others in place of those that fail; keep the fastest."""
        best: tuple[float, Plan] | None = None
        tried = 0
        while self._built:
            for plan in self._built:
                try:
                    milliseconds = time_plan(plan, tensors, best[0] if best else math.inf)
                except CudnnError:
                    continue
                tried += 1
                if best is None or milliseconds < best[0]:
                    best = milliseconds, plan
            with context_of(self.request.device).lock:
                self._build(self.request.most - tried)
        # Another thread's may be there by now, and in a captured graph.
        _found.setdefault(self.request.key, best and best[1])

    def _build(self, count: int) -> None:
        with torch.cuda.device(self.request.device):
            self._built = list(islice(self._plans, count))


def _plan_for(request: Request, tensors: Sequence[Tensor]) -> Plan:
    """Return the fastest plan there is; one that is not known yet is found on these tensors."""
    if request.key not in _found:
        with torch.cuda.device(request.device):
            if torch.cuda.is_current_stream_capturing():
                raise CudnnError("a plan must be found before a CUDA graph is captured")
        search = _Search(request)
        with context_of(request.device).lock:
            search.build()
        timed = list(tensors)
        timed[request.written] = request.layouts[request.written].empty(request.device)
        search.finish(timed)
    plan = _found[request.key]
    if plan is None:
        raise CudnnError(f"no way to compute {request.key}")
    return plan


def _find(requests: Sequence[Request]) -> None:
    """Find the plans for several requests, on tensors that are like those they were made for."""
    searches = [_Search(request) for request in requests]
    with ExitStack() as held:
        # NVIDIA's documentation wants no handle to be used by two threads at a time. Those that
        # only build plans share one all the same, as OpenXLA's compiler does; but nobody sets its
        # stream or runs a plan meanwhile.
        for device in sorted({request.device for request in requests}, key=str):
            held.enter_context(context_of(device).lock)
        could_build = in_threads(_Search.could_build, searches)
    for search in compress(searches, could_build):
        device = search.request.device
        search.finish([_noise(layout, device) for layout in search.request.layouts])


def _noise(layout: Layout, device: torch.device) -> Tensor:
    """Return a new tensor; not of zeros, on which a GPU is faster."""
    return layout.empty(device).normal_(generator=torch.Generator(device).manual_seed(0))
