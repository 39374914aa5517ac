"""How the learning rate changes over a run, and how far a run is."""

import math
from dataclasses import dataclass

FINAL_SHARE = 0.005
"""The last learning rate as a share of the highest."""


def one_cycle(progress: float, peak: float, warm_share: float = 0.05) -> float:
    """Return the learning rate at `progress` of a run, 0 to 1.

    It rises in a straight line from 0 to `peak` over the first `warm_share`, then falls along half
    a cosine to FINAL_SHARE of the peak, where it stays.

    Source: Smith, Topin, "Super-Convergence", 2018 (arXiv 1708.07120), in the shape of PyTorch's
    `OneCycleLR` but for its momentum.
    """
    progress = min(max(progress, 0.0), 1.0)
    if progress < warm_share:
        return peak * progress / warm_share
    cosine = 0.5 * (1.0 + math.cos(math.pi * (progress - warm_share) / (1.0 - warm_share)))
    return peak * (FINAL_SHARE + (1.0 - FINAL_SHARE) * cosine)


@dataclass
class Pace:
    """How far a run is, by its steps or by the clock.

    The clock is not read but told by `observe`, and extrapolated after that: several processes that
    were told the same agree on every learning rate, and on when to stop.
    """

    steps: int | None
    """The run's length; None if `seconds` says it."""
    seconds: float | None
    _step: int = 0
    _elapsed: float = 0.0
    _seconds_per_step: float = 0.0

    def observe(self, step: int, elapsed: float) -> None:
        """Take note that `step` steps were done when the run had lasted `elapsed` seconds."""
        if step > self._step:
            self._seconds_per_step = max(elapsed - self._elapsed, 0.0) / (step - self._step)
        self._step, self._elapsed = step, elapsed

    def progress(self, step: int) -> float:
        """Return the share of the run that is over once `step` steps are done."""
        if self.steps is not None:
            return step / self.steps
        assert self.seconds is not None, "the settings have one of the two"
        return (self._elapsed + (step - self._step) * self._seconds_per_step) / self.seconds
