"""Ways to compute a graph of operations: as cuDNN finds them, and how long one takes."""

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from pwcflow.cudnn.descriptors import CudnnError, Descriptor, check, context_of, library
from pwcflow.cudnn.enums import (
    Attribute,
    AttributeType,
    DescriptorType,
    HeuristicMode,
    NumericalNote,
)
from pwcflow.cudnn.operations import Layout

MOST_ANSWERS = 8
"""Of each of cuDNN's heuristics."""
MOST_NOTES = 16
REPEATS = 8
"""Launches that each candidate is timed by."""
HOPELESS = 3.0
"""A way that takes so many times as long as another is not timed any further."""
LAUNCH_MS = 0.1
"""What Python may take to launch it."""
WORKSPACE_AT_LEAST = 256 << 20
WORKSPACE_PER_BYTE = 2
"""Of the tensors: cuDNN copies those whose pixels do not lie side by side, and what it refuses for
lack of room it computes a thousand times as slowly."""
_HEURISTICS = (HeuristicMode.A, HeuristicMode.FALLBACK)


class Plan:
    """A way to compute one graph on tensors of given layouts."""

    def __init__(self, device: torch.device, config: Descriptor, names: Sequence[int]) -> None:
        """Prepare it; raises `CudnnError` where cuDNN cannot."""
        self._context = context_of(device)
        self._names = tuple(names)
        plan = Descriptor(DescriptorType.EXECUTION_PLAN, config)
        plan.set_context(Attribute.EXECUTION_PLAN_HANDLE, self._context)
        plan.set_descriptors(Attribute.EXECUTION_PLAN_ENGINE_CONFIG, config)
        self._plan = plan.finalize()
        self.workspace = plan.get_int64(Attribute.EXECUTION_PLAN_WORKSPACE_SIZE)
        """Bytes of memory that it needs while it runs."""

    def run(self, tensors: Sequence[Tensor], workspace: Tensor | None = None) -> None:
        """Queue it on PyTorch's current stream; the tensors in the order of the plan's names.

        Args:
            tensors: what it is computed on.
            workspace: uint8, of as many bytes as the attribute says; None to allocate them.
        """
        device = tensors[0].device
        if workspace is None:
            workspace = torch.empty(self.workspace, dtype=torch.uint8, device=device)
        pack = Descriptor(DescriptorType.VARIANT_PACK)
        pack.set_pointers(
            Attribute.VARIANT_PACK_DATA_POINTERS, *(tensor.data_ptr() for tensor in tensors)
        )
        pack.set_int64(Attribute.VARIANT_PACK_UNIQUE_IDS, *self._names)
        pack.set_pointers(Attribute.VARIANT_PACK_WORKSPACE, workspace.data_ptr())
        pack.finalize()
        stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
        handle = self._context.handle
        with self._context.lock, torch.cuda.device(device):
            check(library().cudnnSetStream(handle, stream))
            check(library().cudnnBackendExecute(handle, self._plan.pointer, pack.pointer))


def plans(
    device: torch.device,
    operations: Callable[[], list[Descriptor]],
    names: Sequence[int],
    layouts: Sequence[Layout],
) -> Iterator[Plan]:
    """Yield ways to compute a graph the same every time, what cuDNN holds fastest first.

    Each is built when it is asked for: those of one convolution are ready-made, and others are
    compiled, for a quarter of a second and more.

    Args:
        device: what they are for.
        operations: makes the graph.
        names: of the tensors in the graph.
        layouts: of these tensors.

    Raises:
        CudnnError: cuDNN cannot make the graph.
    """
    limit = workspace_limit(layouts)
    for config in _configurations(device, operations()):
        try:
            if not _is_repeatable(config):
                continue
            plan = Plan(device, config, names)
        except CudnnError:
            continue
        if plan.workspace <= limit:
            yield plan


def workspace_limit(layouts: Iterable[Layout]) -> int:
    """Return how many bytes a plan for tensors of these layouts may need beside them."""
    together = sum(math.prod(layout.shape) * layout.dtype.itemsize for layout in layouts)
    return WORKSPACE_AT_LEAST + WORKSPACE_PER_BYTE * together


def _configurations(device: torch.device, operations: list[Descriptor]) -> list[Descriptor]:
    """Return the ways to compute operations, what cuDNN holds fastest first."""
    graph = Descriptor(DescriptorType.OPERATIONGRAPH, *operations)
    graph.set_context(Attribute.OPERATIONGRAPH_HANDLE, context_of(device))
    graph.set_descriptors(Attribute.OPERATIONGRAPH_OPS, *operations)
    graph.finalize()
    found: list[Descriptor] = []
    for mode in _HEURISTICS:
        with suppress(CudnnError):  # one may have no answer where the other has
            found += _answers(graph, mode)
    return found


def _answers(graph: Descriptor, mode: HeuristicMode) -> list[Descriptor]:
    heuristic = Descriptor(DescriptorType.ENGINEHEUR, graph)
    heuristic.set_descriptors(Attribute.ENGINEHEUR_OPERATION_GRAPH, graph)
    heuristic.set_enum(Attribute.ENGINEHEUR_MODE, AttributeType.HEUR_MODE, mode)
    heuristic.finalize()
    results = [Descriptor(DescriptorType.ENGINECFG, heuristic) for _ in range(MOST_ANSWERS)]
    count = heuristic.get_descriptors(Attribute.ENGINEHEUR_RESULTS, *results)
    return results[:count]


def _is_repeatable(config: Descriptor) -> bool:
    """Return whether a way to compute gives the same every time."""
    engine = Descriptor(DescriptorType.ENGINE)
    config.get_descriptors(Attribute.ENGINECFG_ENGINE, engine)
    notes = engine.get_enums(
        Attribute.ENGINE_NUMERICAL_NOTE, AttributeType.NUMERICAL_NOTE, MOST_NOTES
    )
    return NumericalNote.NONDETERMINISTIC not in notes


def time_plan(plan: Plan, tensors: Sequence[Tensor], best: float) -> float:
    """Return the milliseconds of a plan, or infinity if it is much slower than `best`.

    They are replayed by a graph: Python takes longer to launch most than they run. Raises
    `CudnnError` where it cannot run on the tensors.
    """
    device = tensors[0].device
    before = torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    # Allocated out here: PyTorch keeps what is freed for the same stream, or for the same graph,
    # and what it kept for those of all the candidates came to gigabytes.
    workspace = torch.empty(plan.workspace, dtype=torch.uint8, device=device)
    stream.wait_stream(before)

    def run() -> None:
        plan.run(tensors, workspace)

    with torch.cuda.stream(stream):
        run()  # loads it
        if _elapsed(run) > HOPELESS * best + LAUNCH_MS:
            return math.inf
        graph = torch.cuda.CUDAGraph()
        try:
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(REPEATS):
                    run()
            finally:
                graph.capture_end()
        except RuntimeError as error:
            raise CudnnError(f"it cannot be captured: {error}") from error
        graph.replay()
        milliseconds = _elapsed(graph.replay) / REPEATS
    before.wait_stream(stream)
    return milliseconds


def _elapsed(work: Callable[[], object]) -> float:
    """Return the milliseconds that the GPU takes for what is queued; waits for it."""
    events: list[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
    events[0].record()
    work()
    events[1].record()
    events[1].synchronize()
    milliseconds: float = events[0].elapsed_time(events[1])
    return milliseconds
