"""Batches of real pairs, read and changed by threads while the device is at work on others."""

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np
import torch
from torch import Tensor

from pwcflow.aligned import IMAGE_GAP
from pwcflow.datasets import PairFiles
from pwcflow.ops import IMAGE_CHANNELS
from pwcflow.processors import usable_processors
from pwcflow.training.augment import AugmentSettings, augment
from pwcflow.training.render import Batch
from pwcflow.training.samples import read_sample

AHEAD = 4
"""Steps whose pairs are loaded at a time."""
_SPARE = 3
"""Buffers beyond those, so that none is filled again while its copy waits for the device."""
_MOST_THREADS = 16


class PairSource:
    """Gives the pairs of one training process, the same ones for the same seed, rank and step.

    Takes the place of the `Renderer`. Each data set is drawn from equally often, whatever its size,
    and each pair of one.
    """

    def __init__(
        self,
        datasets: Sequence[Sequence[PairFiles]],
        settings: AugmentSettings,
        *,
        batch: int,
        device: torch.device,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Set the buffers up; nothing is read before the first `load`."""
        self._datasets, self._settings, self._seed, self._rank = datasets, settings, seed, rank
        self._device = device
        shape = (batch, settings.height, settings.width)
        pinned = device.type == "cuda"
        self._free = deque(_Buffers(*shape, pinned=pinned) for _ in range(AHEAD + _SPARE))
        self._loading: dict[int, _Buffers] = {}
        share = max(1, (os.cpu_count() or 1) // world)  # unbound, each sees all of them
        threads = min(_MOST_THREADS, usable_processors(), share)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="pairs")
        self._pixels = torch.empty(self._free[0].images.shape, dtype=torch.uint8, device=device)
        channels = IMAGE_CHANNELS + IMAGE_GAP
        images = torch.zeros(
            (2 * batch, *shape[1:], channels),
            dtype=torch.float16 if pinned else torch.float32,
            device=device,
        ).permute(0, 3, 1, 2)
        flow = torch.zeros(self._free[0].flow.shape, device=device)
        valid = torch.zeros(self._free[0].valid.shape, device=device)
        self._batch = Batch(images, flow, valid, visible=valid)  # which is unknown

    def load(self, step: int) -> None:
        """Make the pairs of `step` those that `render` returns, and begin to read the next ones.

        Raises:
            ImageError: an image cannot be read.
            FlowFileError: a true flow cannot be read.
        """
        coming = range(step, step + AHEAD)
        for other in [other for other in self._loading if other not in coming]:
            self._free.append(self._loading.pop(other).emptied())
        for wanted in coming:
            if wanted not in self._loading:
                self._loading[wanted] = self._begin(wanted)
        buffers = self._loading.pop(step)
        for filled in buffers.filling:
            filled.result()
        self._copy(buffers)
        self._free.append(buffers)

    def render(self) -> Batch:
        """Return the pairs loaded: the same buffers each time, with nothing left to do."""
        return self._batch

    def _begin(self, step: int) -> "_Buffers":
        """Let the threads fill a buffer with the pairs of a step."""
        buffers = self._free.popleft()
        if buffers.copied is not None:
            buffers.copied.synchronize()
        buffers.filling = [
            self._threads.submit(self._fill, buffers, step, index)
            for index in range(len(buffers.flow))
        ]
        return buffers

    def _fill(self, buffers: "_Buffers", step: int, index: int) -> None:
        """Read one pair, change it at random, and leave it in its place."""
        rng = np.random.default_rng((self._seed, self._rank, step, index))
        dataset = self._datasets[int(rng.integers(len(self._datasets)))]
        pair = dataset[int(rng.integers(len(dataset)))]
        sample = augment(read_sample(pair), rng, self._settings, sparse=pair.sparse)
        images, flow, valid = (t.numpy() for t in (buffers.images, buffers.flow, buffers.valid))
        images[index] = sample.first[..., ::-1]
        images[len(flow) + index] = sample.second[..., ::-1]
        flow[index] = sample.flow.transpose(2, 0, 1)
        valid[index, 0] = sample.valid

    def _copy(self, buffers: "_Buffers") -> None:
        """Put pairs into the batch; on a GPU that is queued on the current stream."""
        self._pixels.copy_(buffers.images, non_blocking=True)
        self._batch.flow.copy_(buffers.flow, non_blocking=True)
        self._batch.valid.copy_(buffers.valid, non_blocking=True)
        if self._device.type == "cuda":
            buffers.copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            buffers.copied.record()
        bgr = self._batch.images[:, :IMAGE_CHANNELS]
        torch.div(self._pixels.permute(0, 3, 1, 2), 255.0, out=bgr)


class _Buffers:
    """The pairs of a step on the host, in pinned memory if a GPU copies them."""

    def __init__(self, count: int, height: int, width: int, *, pinned: bool) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, pin_memory=pinned)

        self.images = zeros(2 * count, height, width, IMAGE_CHANNELS, dtype=torch.uint8)
        """Blue, green, red, the first images first."""
        self.flow = zeros(count, 2, height, width)
        self.valid = zeros(count, 1, height, width)
        self.filling: list[Future[None]] = []
        self.copied: torch.cuda.Event | None = None
        """On a GPU: they have been copied, so may be filled again."""

    def emptied(self) -> "_Buffers":
        """Return them once no thread fills them any more."""
        for future in self.filling:
            future.cancel()
        wait(self.filling)
        return self
