"""One step of training: render, estimate, compare, update; on a GPU as two CUDA graphs."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

from pwcflow.training.loss import multiscale_loss
from pwcflow.training.optimizer import FlatAdamW

WARM_UP_STEPS = 3
"""Before a capture: they compile kernels, load modules and let cuDNN choose its algorithms."""
RUN_AHEAD = 2
"""Steps that may wait on the GPU: enough to keep it busy, and the host near what it measures."""


class Batch(Protocol):
    """Pairs with their true flow; the same memory each time."""

    @property
    def images(self) -> Tensor:
        """(2N, 8, H, W), channels-last, BGR 0..1, then five channels of 0; first images first."""

    @property
    def flow(self) -> Tensor:
        """(N, 2, H, W) float32, in pixels."""

    @property
    def valid(self) -> Tensor:
        """(N, 1, H, W) float32: 1 where the flow counts, else 0."""


class Renderer(Protocol):
    """Where the pairs come from."""

    def load(self, step: int) -> None:
        """Put the scenes of a step where `render` finds them, on the current stream."""

    def render(self) -> Batch:
        """Draw the scenes loaded. On a GPU it only launches kernels, and can be captured."""


class Statistics:
    """Sums over steps, kept on the device until somebody asks."""

    NAMES = ("loss", "epe", "measured", "norm", "used", "skipped")

    def __init__(self, device: torch.device) -> None:
        """Start from nothing."""
        self.sums = torch.zeros(len(self.NAMES), dtype=torch.float64, device=device)
        """By NAMES; `measured` counts the finite losses summed, `used` the gradients used."""
        self.failures = torch.zeros((), dtype=torch.float64, device=device)
        """Steps in a row, up to now, whose gradient was not finite."""
        self.worst = torch.zeros((), dtype=torch.float64, device=device)
        """The most such steps in a row."""

    def add_loss(self, loss: Tensor, epe: Tensor) -> None:
        """Count a loss, if it is finite."""
        row = torch.stack((loss.detach(), epe, torch.ones_like(epe))).double()
        self.sums[:3].add_(torch.where(row.isfinite().all(), row, 0.0))

    def add_gradient(self, norm: Tensor, finite: Tensor) -> None:
        """Count a gradient, as used or as skipped."""
        used = finite.double()
        skipped = 1.0 - used
        norm = torch.where(finite, norm, 0.0).double()
        self.sums[3:].add_(torch.stack((norm, used, skipped)))
        self.failures.add_(1.0).mul_(skipped)
        self.worst.copy_(torch.maximum(self.worst, self.failures))

    def clear(self) -> None:
        """Forget all but the failures in a row, which may go on."""
        self.sums.zero_()
        self.worst.copy_(self.failures)


class TrainingStep:
    """The work of a step in two halves, between which several GPUs add up their gradients.

    Both halves are plain functions of what lies in fixed memory, so a GPU can replay them.
    """

    def __init__(
        self,
        network: nn.Module,
        renderer: Renderer,
        optimizer: FlatAdamW,
        *,
        q: float | None = None,
        world: int = 1,
    ) -> None:
        """Take the parts; `optimizer` updates `network`, one of `world` equal ones."""
        self.network = network
        self.renderer = renderer
        self.optimizer = optimizer
        self.statistics = Statistics(optimizer.scale.device)
        self._q = q
        self._world = world
        self._find_gradient: Callable[[], None] = self.find_gradient
        self._update: Callable[[], None] = self.update
        self._queued: deque[torch.cuda.Event] = deque()

    def find_gradient(self) -> None:
        """Leave the gradient of the scaled loss of the scenes loaded in the flat gradients.

        With several processes it is the share of this one: their sum is the mean's gradient.
        """
        batch = self.renderer.render()
        flows = self.network(batch.images)
        loss, epe = multiscale_loss(flows, batch.flow, batch.valid, self._q)
        self.statistics.add_loss(loss, epe)
        parts = self.optimizer.parts
        parameters = [parameter for part in parts for parameter in part.parameters]
        gradients = torch.autograd.grad(loss * (self.optimizer.scale / self._world), parameters)
        for part in parts:
            count = len(part.parameters)
            part.store_gradients(gradients[:count])
            gradients = gradients[count:]

    def update(self) -> None:
        """Let the flat gradients change the weights."""
        self.optimizer.step()
        self.statistics.add_gradient(self.optimizer.norm, self.optimizer.finite)

    def capture(self) -> None:
        """Record both halves as CUDA graphs; scenes must be loaded. Changes no state.

        The rules of a capture: everything has run before, on the same stream, so that no module is
        loaded, no algorithm is timed and nothing waits for the device inside of it; all that lives
        on afterwards lies in memory allocated before it.
        """
        state = self.optimizer.state()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_STEPS):
                self.find_gradient()
                self.update()
        torch.cuda.synchronize()
        self._find_gradient = _captured(self.find_gradient, stream)
        self._update = _captured(self.update, stream)
        self.optimizer.restore(state)
        self.statistics.failures.zero_()
        self.statistics.clear()

    def run(self, rate: float, add_up: Callable[[], None], load_next: Callable[[], None]) -> None:
        """Make one step with the scenes loaded; on a GPU it is queued when this returns.

        Args:
            rate: the learning rate.
            add_up: adds the gradients of all processes, in place.
            load_next: loads the next scenes; the GPU is at work on these meanwhile.
        """
        self.optimizer.rate.fill_(rate)
        self._find_gradient()
        load_next()
        add_up()
        self._update()
        if self.statistics.sums.is_cuda:
            self._wait_for_earlier_steps()

    def _wait_for_earlier_steps(self) -> None:
        done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        done.record()
        self._queued.append(done)
        if len(self._queued) > RUN_AHEAD:
            self._queued.popleft().synchronize()


def _captured(function: Callable[[], None], stream: torch.cuda.Stream) -> Callable[[], None]:
    """Return what replays the kernels of a function on the current stream."""
    graph = torch.cuda.CUDAGraph()
    # By default no thread of the process may allocate or wait meanwhile, which others here may do:
    # those that prefetch scenes, or NCCL's.
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        function()
    return graph.replay


@contextmanager
def benchmarking() -> Iterator[None]:
    """Let cuDNN time its algorithms and take the fastest, inside of the block."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
