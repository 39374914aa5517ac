"""AdamW on flat parameters, with everything it decides decided on the device.

No step waits for the host, so a step can be captured in a CUDA graph: the learning rate, the loss
scale, the step count and whether a gradient is used are tensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcflow.training.flat import FlatParameters

BETAS = (0.9, 0.999)
EPSILON = 1e-8
INITIAL_SCALE = 2.0**14
MAX_SCALE = 2.0**16
MIN_SCALE = 1.0
STEPS_BEFORE_GROWTH = 2000
"""Good steps in a row after which the loss scale doubles."""

SLOTS = ("weights", "average", "first_moment", "second_moment")
COUNTERS = ("updates", "scale", "good_steps")

State = dict[str, dict[str, Tensor]]
"""By slot, and "counters", the tensors by name."""


@dataclass(frozen=True)
class AdamSettings:
    """Constants of the update; see `TrainSettings`."""

    weight_decay: float
    clip: float
    ema: float


class FlatAdamW:
    """Float32 weights beside the network's own, their moments, and their moving average.

    A step takes the gradient of the loss times `scale`. If it is not finite, nothing changes but
    the scale, which is halved; after STEPS_BEFORE_GROWTH good ones it is doubled.

    Source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019 (arXiv
    1711.05101), as in `torch.optim.AdamW`; clipping as in `torch.nn.utils.clip_grad_norm_`;
    scaling as in `torch.amp.GradScaler`, Micikevicius et al., "Mixed Precision Training", ICLR 2018
    (arXiv 1710.03740).
    """

    def __init__(self, parts: Sequence[FlatParameters], settings: AdamSettings) -> None:
        """Start from the values the parts have."""
        self.parts = list(parts)
        self._settings = settings
        device = parts[0].device
        self._flats = {slot: [part.new_flat() for part in parts] for slot in SLOTS}
        self._gradients = [part.new_flat() for part in parts]
        for part, weights, average in zip(
            parts, self._flats["weights"], self._flats["average"], strict=True
        ):
            weights.copy_(part.values)
            average.copy_(part.values)
        self.rate = torch.zeros((), dtype=torch.float64, device=device)
        """The learning rate; fill it before a step."""
        self.scale = torch.full((), INITIAL_SCALE, device=device)
        """What the loss is to be multiplied by before its gradient is taken."""
        self.updates = torch.zeros((), dtype=torch.float64, device=device)
        """Steps that changed the weights."""
        self.good_steps = torch.zeros((), device=device)
        self.norm = torch.zeros((), device=device)
        """Of the last gradient, unscaled, before clipping."""
        self.finite = torch.ones((), dtype=torch.bool, device=device)
        """Whether the last gradient was used."""

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights, the network's copy of them, and their average."""
        norms = [
            torch.linalg.vector_norm(part.gradient, dtype=torch.float32) for part in self.parts
        ]
        self.norm.copy_(torch.linalg.vector_norm(torch.stack(norms)) / self.scale)
        self.finite.copy_(self.norm.isfinite())
        used = self.finite.to(torch.float64)
        # One-dimensional: beside a flat float16 tensor, a scalar tensor would be rounded to it.
        clipping = (self._settings.clip / (self.norm + 1e-6)).clamp(max=1.0)
        factor = torch.where(self.finite, clipping / self.scale, 0.0).view(1)
        averaging = (1.0 - self._decay()) * used
        self.updates += used
        for index in range(len(self.parts)):
            self._update(index, factor, used, averaging.float())
        self._adapt_scale()

    def _update(self, index: int, factor: Tensor, used: Tensor, averaging: Tensor) -> None:
        part, gradient = self.parts[index], self._gradients[index]
        weights, average = self._flats["weights"][index], self._flats["average"][index]
        # If the gradient is not finite it is replaced by 0, and `used` and `averaging` are 0: each
        # line below leaves its target as it is.
        zero = part.gradient.new_zeros(())
        torch.where(self.finite, part.gradient, zero, out=part.gradient)
        torch.mul(part.gradient, factor, out=gradient)
        self._change(index, gradient, used)
        part.values.copy_(weights)
        average.lerp_(weights, averaging)

    def _change(self, index: int, gradient: Tensor, used: Tensor) -> None:
        """Update the weights of a part; `gradient`, which is clipped, may be overwritten.

        With `used` 0 the gradient is 0, and nothing may change.
        """
        weights, _, first, second = (self._flats[slot][index] for slot in SLOTS)
        first.lerp_(gradient, ((1.0 - BETAS[0]) * used).float())
        second.lerp_(gradient.square_(), ((1.0 - BETAS[1]) * used).float())
        count = self.updates.clamp(min=1.0)
        root = (1.0 - BETAS[1] ** count).sqrt()
        size = self.rate * root / (1.0 - BETAS[0] ** count) * used
        weights.mul_((1.0 - self.rate * self._settings.weight_decay * used).float())
        direction = first / second.sqrt().add_((EPSILON * root).float())
        weights.addcmul_(direction, -size.float())

    def _decay(self) -> Tensor:
        """Return the average's decay, which grows with the updates: it forgets where it began."""
        grown = (1.0 + self.updates) / (10.0 + self.updates)
        return grown.clamp(max=self._settings.ema)

    def _adapt_scale(self) -> None:
        good = torch.where(self.finite, self.good_steps + 1.0, 0.0)
        grow = good >= STEPS_BEFORE_GROWTH
        larger = (self.scale * 2.0).clamp(max=MAX_SCALE)
        smaller = (self.scale * 0.5).clamp(min=MIN_SCALE)
        kept = torch.where(grow, larger, self.scale)
        self.scale.copy_(torch.where(self.finite, kept, smaller))
        self.good_steps.copy_(torch.where(grow, 0.0, good))

    @torch.no_grad()
    def start(self, weights: Mapping[str, Tensor]) -> None:
        """Begin with float32 weights by name, which a network in float16 cannot hold."""
        for slot in ("weights", "average"):
            self._fill(slot, weights)
        self.publish()

    def flats(self) -> list[Tensor]:
        """Return all flat tensors of the state, for a broadcast."""
        return [flat for flats in self._flats.values() for flat in flats]

    def average(self) -> dict[str, Tensor]:
        """Return the averaged weights by name, float32 copies on the CPU."""
        return self._named("average")

    def state(self) -> State:
        """Return copies of all that the next step depends on, on the CPU."""
        counters = {name: getattr(self, name).to("cpu", copy=True) for name in COUNTERS}
        return {slot: self._named(slot) for slot in SLOTS} | {"counters": counters}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take over what `state` returned, in place: captured graphs go on with it."""
        for slot in SLOTS:
            self._fill(slot, state[slot])
        for name in COUNTERS:
            getattr(self, name).copy_(state["counters"][name])
        self.publish()

    @torch.no_grad()
    def publish(self) -> None:
        """Give the network the weights, rounded to its dtype."""
        for part, weights in zip(self.parts, self._flats["weights"], strict=True):
            part.values.copy_(weights)

    def _fill(self, slot: str, tensors: Mapping[str, Tensor]) -> None:
        for part, flat in zip(self.parts, self._flats[slot], strict=True):
            for name, piece in part.named(flat).items():
                piece.copy_(tensors[name])

    def _named(self, slot: str) -> dict[str, Tensor]:
        return {
            name: piece.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            for part, flat in zip(self.parts, self._flats[slot], strict=True)
            for name, piece in part.named(flat).items()
        }
