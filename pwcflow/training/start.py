"""What a run begins with, and what a run that was stopped goes on with."""

from dataclasses import dataclass, field

from torch import Tensor

from pwcflow.aligned import align_state
from pwcflow.errors import WeightsError
from pwcflow.training.checkpoint import Checkpoint, load_checkpoint
from pwcflow.training.initial import initial_weights
from pwcflow.training.optimizer import FlatAdamW
from pwcflow.training.settings import TrainSettings
from pwcflow.weights import load_weights


@dataclass(frozen=True)
class Start:
    """Where a run stands before its next step; its weights are in the optimizer."""

    step: int = 0
    """Steps done."""
    pairs: int = 0
    """Pairs seen, by all devices."""
    seconds: float = 0.0
    """How long the run has lasted."""
    errors_before: dict[str, float] = field(default_factory=dict)
    """Mean end-point error in pixels before the first step, by validation set."""
    initial: dict[str, Tensor] | None = None
    """Weights of an `AlignedPwcNet` to keep a share of; None if the settings keep none."""


def start(settings: TrainSettings, optimizer: FlatAdamW, *, quiet: bool) -> Start:
    """Give the optimizer the weights that a run begins with, or the state it goes on with.

    Args:
        settings: the run.
        optimizer: of an `AlignedPwcNet`.
        quiet: show no progress of a download.

    Raises:
        WeightsError: the initial weights or the checkpoint cannot be used, or the checkpoint is of
            a run with other settings.
    """
    # A run that was killed before its first checkpoint has a log, and begins once more.
    if settings.resume and (settings.checkpoint_path.exists() or not settings.log_path.exists()):
        checkpoint = load_checkpoint(settings.checkpoint_path)
        _check_optimizer(settings, checkpoint)
        _check_keep(settings, checkpoint)
        optimizer.restore(checkpoint.optimizer)
        return Start(
            checkpoint.step,
            checkpoint.pairs,
            checkpoint.seconds,
            checkpoint.errors_before,
            checkpoint.initial,
        )
    if settings.init is None:
        weights = align_state(initial_weights(settings.seed))
    else:
        weights = align_state(load_weights(settings.init, quiet=quiet).state)
    optimizer.start(weights)
    return Start(initial=weights if settings.keep else None)


def _check_optimizer(settings: TrainSettings, checkpoint: Checkpoint) -> None:
    """Refuse moments that mean something else to the optimizer of the settings."""
    before = checkpoint.settings.get("optimizer", "adamw")  # the only one there was at first
    if before != settings.optimizer:
        raise WeightsError(
            f"{settings.checkpoint_path} is of a run with the optimizer {before}; resume it with "
            f"that, not {settings.optimizer}, or give it as initial weights of another run"
        )


def _check_keep(settings: TrainSettings, checkpoint: Checkpoint) -> None:
    """Refuse another share, which is more likely forgotten than meant."""
    before = checkpoint.settings.get("keep", 0.0)  # runs that could keep nothing do not tell
    if before != settings.keep:
        raise WeightsError(
            f"{settings.checkpoint_path} is of a run that keeps {before:g} of its initial weights; "
            f"resume it with that share, not {settings.keep:g}"
        )
