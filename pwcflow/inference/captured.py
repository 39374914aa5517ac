"""The whole way from images to flow on a GPU as one CUDA graph for each size.

A pair of 1024 x 436 pixels takes some eighty kernels of a few microseconds each: launched one by
one from Python they take several times as long as they run.
"""

from dataclasses import dataclass

import torch

from pwcflow.cudnn import planning
from pwcflow.inference.interface import InferenceNetwork
from pwcflow.network import DECODER_LEVELS, Pyramid, network_size
from pwcflow.ops import finish_flow, prepare_images

WARM_UP_RUNS = 2
"""Before a capture: they compile kernels, and let cuDNN choose how to compute."""


@dataclass(frozen=True)
class Batch:
    """What a graph is for."""

    images: int
    height: int
    width: int
    channels: int
    dtype: torch.dtype
    """Of the pixels."""
    consecutive: bool
    """Whether each image is paired with the one before it; else the first half with the second."""
    network_scale: float = 1.0
    """Factor by which images are resized for the network."""
    fused: bool = False
    """Whether it is used long enough for what `InferenceNetwork.fused` costs."""


class CapturedFlow:
    """The flow between images of one number, size and type, in memory that stays the same.

    Fill `pixels` and call `run`; then `flow` and `finite` hold what was found, until the next run.
    """

    def __init__(self, network: InferenceNetwork, batch: Batch, device: torch.device) -> None:
        """Record the graph; all that it needs is allocated and compiled here."""
        self._network = network.fused() if batch.fused else network
        self._batch = batch
        shape = (batch.images, batch.height, batch.width, batch.channels)
        self.pixels = torch.zeros(shape, dtype=batch.dtype, device=device)
        """(N, H, W, C), as `prepare_images` takes them."""
        pairs = batch.images if batch.consecutive else batch.images // 2
        self.flow = torch.empty((pairs, batch.height, batch.width, 2), device=device)
        """(pairs, H, W, 2) float32, in pixels. Of consecutive images, the first flow leads from the
        last image of the run before; there is nothing in it after the first run."""
        self.finite = torch.ones((pairs,), dtype=torch.bool, device=device)
        """(pairs,): whether a flow's numbers are."""
        height, width = network_size(batch.height, batch.width, batch.network_scale)
        self._size = height, width
        # One more for the image before.
        self._pyramid = network.empty_pyramid(batch.images + batch.consecutive, height, width)
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            if batch.fused:
                with planning():  # on what lies in memory by chance; the runs after it are right
                    self._compute()
            for _ in range(WARM_UP_RUNS):
                self._compute()
        torch.cuda.current_stream(device).wait_stream(stream)
        torch.cuda.synchronize(device)
        self._ran = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._graph = torch.cuda.CUDAGraph()
        # Other threads may allocate and wait meanwhile, as those do that read and write files.
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._compute()

    def run(self) -> None:
        """Queue the graph on the current stream."""
        self._graph.replay()
        self._ran.record()

    def wait(self) -> None:
        """Wait until it has run as often as it was queued."""
        self._ran.synchronize()

    def _compute(self) -> None:
        images = prepare_images(self.pixels, *self._size, self._network.dtype)
        if self._batch.consecutive:
            for level in DECODER_LEVELS:
                feature = self._pyramid[level]
                feature[0].copy_(feature[-1])
            self._network.encode(images, _part(self._pyramid, slice(1, None)))
            first, second = slice(0, -1), slice(1, None)
        else:
            self._network.encode(images, self._pyramid)
            half = self._batch.images // 2
            first, second = slice(0, half), slice(half, None)
        flow = self._network.decode(_part(self._pyramid, first), _part(self._pyramid, second))
        finish_flow(flow, self._batch.height, self._batch.width, self.flow, self.finite)


def _part(pyramid: Pyramid, images: slice) -> Pyramid:
    """Return the features of some of the images."""
    return {level: feature[images] for level, feature in pyramid.items()}
