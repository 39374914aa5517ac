"""Flow on a GPU from numpy images to numpy flow: transfers, and a few captured graphs."""

import threading
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, cycle
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pwcflow.cudnn import exact_convolutions
from pwcflow.flow_file import Flow
from pwcflow.inference.captured import Batch, CapturedFlow
from pwcflow.inference.interface import InferenceNetwork

GRAPHS_KEPT = 4
"""Of sizes used last; each holds the memory of its batch."""
BATCH_PIXELS = 4_000_000
"""Of the frames of a video, as the network sees them, at a time: enough to keep a GPU busy."""
MOST_FRAMES = 16
"""However small they are."""
_LAUNCHING = threading.Lock()
"""Held while a graph is recorded, and while anything is queued beside that: PyTorch hands out its
streams in turn, so one that is being recorded may be somebody else's too."""

Pixels = npt.NDArray[Any]


class GpuFlow:
    """Estimates flow on one GPU. Several threads may use it at a time."""

    def __init__(
        self, network: InferenceNetwork, device: torch.device, network_scale: float = 1.0
    ) -> None:
        """Take the network, on its device, and the factor by which images are resized for it."""
        self._device = device
        self._network_scale = network_scale
        self.network = network
        self._idle: OrderedDict[Batch, CapturedFlow] = OrderedDict()
        self._lock = threading.RLock()  # a generator may be finalised while it is held

    def between(self, first: Pixels, second: Pixels) -> tuple[Flow, bool]:
        """Return the flow of pairs, and whether all of it is finite.

        Args:
            first: (N, H, W, C) contiguous, as `prepare_images` takes them.
            second: the same shape and dtype.

        Returns:
            (N, H, W, 2) float32, in pixels, from the first images to the second.
        """
        n, height, width, channels = first.shape
        tensors = torch.from_numpy(first), torch.from_numpy(second)
        batch = Batch(
            2 * n,
            height,
            width,
            channels,
            tensors[0].dtype,
            consecutive=False,
            network_scale=self._network_scale,
        )
        with self._lent(batch) as graph, at_work(self._device):
            graph.pixels[:n].copy_(tensors[0])
            graph.pixels[n:].copy_(tensors[1])
            graph.run()
            return fetched(graph.flow), bool(graph.finite.all())

    def along(
        self, frames: Iterable[Pixels], *, many: bool = False
    ) -> Generator[tuple[Flow, bool], None, None]:
        """Yield the flow between each two consecutive frames, and whether it is finite.

        Frames go through the network in batches: while it computes one, the next is read and
        uploaded and the flows of the one before are downloaded. An error of `frames` comes up
        after the flows of what came before it.

        Args:
            frames: (H, W, C) contiguous, of one shape and dtype.
            many: whether they are so many that the fastest way pays, which takes longer to
                prepare.

        Yields:
            (H, W, 2) float32, in pixels, and whether all of it is finite.
        """
        frames = iter(frames)
        first = next(frames, None)
        if first is None:
            return
        height, width, channels = first.shape
        seen = height * width * self._network_scale**2
        count = min(max(int(BATCH_PIXELS / seen), 1), MOST_FRAMES)
        batch = Batch(
            count,
            height,
            width,
            channels,
            torch.from_numpy(first).dtype,
            consecutive=True,
            network_scale=self._network_scale,
            fused=many,
        )
        with self._lent(batch) as graph:
            with _LAUNCHING:
                stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
                turns = cycle([_Transfer(graph, self._device, stream) for _ in range(2)])
            before: _Transfer | None = None
            for some, failure in _batches(chain([first], frames), count):
                transfer = next(turns)
                transfer.queue(graph, some, skipped=int(before is None))
                if before:
                    yield from before.results()
                before = transfer
                if failure:
                    yield from before.results()
                    try:
                        raise failure
                    finally:
                        del failure  # it knows this frame, which would keep the transfers
            if before:
                yield from before.results()

    @contextmanager
    def _lent(self, batch: Batch) -> Iterator[CapturedFlow]:
        """Lend a graph, which nobody else uses meanwhile."""
        with self._lock:
            graph = self._idle.pop(batch, None)
        if graph is None:
            with at_work(self._device):
                graph = CapturedFlow(self.network, batch, self._device)
        try:
            yield graph
        finally:
            # Who gave up half-way may have left work behind on a stream of its own.
            graph.wait()
            with self._lock:
                self._idle[batch] = graph
                self._idle.move_to_end(batch)
                while len(self._idle) > GRAPHS_KEPT:
                    self._idle.popitem(last=False)


@contextmanager
def at_work(device: torch.device) -> Iterator[None]:
    """Let one thread at a time queue work on a GPU, the network's or other."""
    with _LAUNCHING, torch.cuda.device(device), torch.inference_mode(), exact_convolutions():
        yield


class _Transfer:
    """Takes a batch of frames to the GPU and its flows back; two of them take turns."""

    def __init__(
        self, graph: CapturedFlow, device: torch.device, stream: torch.cuda.Stream
    ) -> None:
        """Take the stream that the graph is to run on."""
        self._device, self._main = device, stream
        self._frames = torch.empty_like(graph.pixels, device="cpu", pin_memory=True)
        self._pixels = torch.empty_like(graph.pixels)
        self._flow = torch.empty_like(graph.flow)
        self._finite = torch.empty_like(graph.finite)
        self._upload = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._download = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        for used in (self._upload, self._main, self._download):
            # The memory may have been somebody else's on this stream until now.
            used.wait_stream(torch.cuda.current_stream(device))
            # Who gives up half-way frees it while work on this stream may still need it.
            for tensor in (self._pixels, self._flow, self._finite):
                tensor.record_stream(used)
        self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._results: tuple[Tensor, Tensor] | None = None

    def queue(self, graph: CapturedFlow, frames: Sequence[Pixels], skipped: int) -> None:
        """Start on a batch; the results of the one before have been taken.

        Args:
            graph: what computes it.
            frames: as many as the graph takes, or fewer.
            skipped: flows at the beginning that are of no use.
        """
        for i, frame in enumerate(frames):
            self._frames[i].copy_(torch.from_numpy(frame))
        with at_work(self._device):
            with torch.cuda.stream(self._upload):
                self._pixels.copy_(self._frames, non_blocking=True)
            self._main.wait_stream(self._upload)
            with torch.cuda.stream(self._main):
                graph.pixels.copy_(self._pixels)
                graph.run()
                self._flow.copy_(graph.flow)
                self._finite.copy_(graph.finite)
            self._download.wait_stream(self._main)
            with torch.cuda.stream(self._download):
                wanted = slice(skipped, len(frames))
                self._results = downloaded(self._flow[wanted]), downloaded(self._finite[wanted])
                self._done.record()

    def results(self) -> Iterator[tuple[Flow, bool]]:
        """Yield the flows of the batch, once they are there, and whether each is finite."""
        assert self._results, "a batch is queued first"
        flows, finite = self._results
        self._results = None
        self._done.synchronize()
        yield from zip(flows.numpy(), finite.tolist(), strict=True)


def fetched(flow: Tensor) -> Flow:
    """Return float32 on the host, once it is there; `downloaded` does not wait."""
    if flow.device.type == "cpu":
        on_host: Flow = flow.numpy()
        return on_host
    # Numpy asks for large pages where it needs much; `cpu()` takes 2 to 9 times as long.
    host = np.empty(tuple(flow.shape), np.float32)
    torch.from_numpy(host).copy_(flow)
    return host


def downloaded(tensor: Tensor) -> Tensor:
    """Return a pinned copy on the host, which is there once the current stream is done."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def _batches(
    frames: Iterator[Pixels], count: int
) -> Iterator[tuple[list[Pixels], Exception | None]]:
    """Yield `count` frames at a time, fewer at the end, there with the error that ended them."""
    some: list[Pixels] = []
    try:
        for frame in frames:
            some.append(frame)
            if len(some) == count:
                yield some, None
                some = []
    except Exception as error:
        yield some, error
    else:
        if some:
            yield some, None
