"""What a run begins with, and what a run that was stopped goes on with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pwcflow.aligned import align_state
from pwcflow.errors import WeightsError
from pwcflow.training.checkpoint import Checkpoint, load_checkpoint
from pwcflow.training.initial import initial_weights
from pwcflow.training.optimizer import FlatAdamW
from pwcflow.training.schedule import Pace
from pwcflow.training.settings import ImageCounts, TrainSettings
from pwcflow.weights import load_weights, provenance_of


@dataclass(frozen=True, kw_only=True)
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
    kept: dict[str, Tensor] | None = None
    """Weights of an `AlignedPwcNet` to keep a share of; None if the settings keep none."""
    images: ImageCounts = field(default_factory=dict)
    """Those that the pairs were made of so far; empty where none were, or where it is not known."""
    devices: int | None = None
    """Number of processes so far; None likewise."""
    begun_with: dict[str, str] | None = None
    """See `Checkpoint`."""


def start(settings: TrainSettings, optimizer: FlatAdamW, *, quiet: bool) -> Start:
    """Give the optimizer the weights that a run begins with, or the state it goes on with.

    Args:
        settings: the run.
        optimizer: of an `AlignedPwcNet`.
        quiet: show no progress of a download.

    Raises:
        WeightsError: the initial weights, those to keep a share of or the checkpoint cannot be
            used, or the checkpoint is of a run with other settings.
    """
    if settings.resume and settings.checkpoint_path.exists():
        checkpoint = load_checkpoint(settings.checkpoint_path)
        _check_same(settings, checkpoint, quiet=quiet)
        optimizer.restore(checkpoint.optimizer)
        # They were measured on other pairs, too, where a run goes from a CPU to a GPU.
        batches = checkpoint.settings.get("validation_batches")
        as_many = batches in (None, settings.validation_batches)
        return Start(
            step=checkpoint.step,
            pairs=checkpoint.pairs,
            seconds=checkpoint.seconds,
            errors_before=checkpoint.errors_before if as_many else {},
            kept=checkpoint.kept,
            images=checkpoint.images,
            devices=checkpoint.settings.get("devices"),
            begun_with=checkpoint.begun_with,
        )
    begun_with = {}
    if settings.init is None:
        if settings.keep:
            raise WeightsError(
                f"{settings.output} has no checkpoint yet, so the run begins: give the initial "
                "weights that it is to keep a share of"
            )
        weights = align_state(initial_weights(settings.seed))
    else:
        initial = load_weights(settings.init, quiet=quiet)
        begun_with = {"name": str(settings.init), "sha256": initial.provenance.sha256}
        weights = align_state(initial.state)
    optimizer.start(weights)
    if settings.keep_of is not None:
        weights = align_state(load_weights(settings.keep_of, quiet=quiet).state)
    return Start(kept=weights if settings.keep else None, begun_with=begun_with)


def is_over(settings: TrainSettings, step: int) -> bool:
    """Return whether the run to go on with, which was finished at `step`, is to be no longer.

    Raises:
        WeightsError: the checkpoint cannot be used, or is of a run with other settings.
    """
    if not settings.checkpoint_path.exists():
        return False
    checkpoint = load_checkpoint(settings.checkpoint_path)
    _check_same(settings, checkpoint, quiet=True)
    if checkpoint.step != step:  # it went on, and was killed before it told of that
        return False
    # By minutes, several processes may have agreed to stop a moment before those were over.
    if all(checkpoint.settings.get(it) == getattr(settings, it) for it in ("steps", "minutes")):
        return True
    pace = Pace(settings.steps, settings.length_seconds)
    pace.observe(checkpoint.step, checkpoint.seconds)
    return pace.progress(checkpoint.step) >= 1.0


def _check_same(settings: TrainSettings, checkpoint: Checkpoint, *, quiet: bool) -> None:
    """Refuse what makes another run of it: that is more likely forgotten than meant.

    Its length may be another, and its rate: lower, when it has diverged. So may its images, whose
    folders may have been moved or have grown, and the number of devices, on another machine: of
    those a run tells when it goes on.
    """
    now = settings.as_plain()
    # What an old checkpoint does not tell of is what runs had when there was no choice; of motion
    # there was one, which nobody knows now.
    before = now | {"optimizer": "adamw", "keep": 0.0} | checkpoint.settings
    for was, would_be in zip(_clauses(before), _clauses(now), strict=True):
        if was != would_be:
            raise _of_another_run(settings, f"with {was}", would_be)
    _check_keeps_same(settings, checkpoint, quiet=quiet)
    _check_begun_with_same(settings, checkpoint)


def _check_begun_with_same(settings: TrainSettings, checkpoint: Checkpoint) -> None:
    """Refuse other initial weights: of another name, and another content.

    They may be left out: a run that goes on needs them no more.
    """
    init, before = settings.init, checkpoint.begun_with
    if init is None or before is None or str(init) == before.get("name"):
        return
    now = provenance_of(init)
    if now is None or now.sha256 != before.get("sha256"):
        was = f"begun with the weights {before['name']}" if before else "begun from nothing"
        raise _of_another_run(settings, was, f"the weights {init}")


def _check_keeps_same(settings: TrainSettings, checkpoint: Checkpoint, *, quiet: bool) -> None:
    """Refuse other weights to keep a share of: of another name, and another content.

    A file by the name of before may have changed or gone since, or be called otherwise now: the
    checkpoint has what it held when the run began.
    """
    named = settings.init if settings.keep_of is None else settings.keep_of
    before = checkpoint.settings.get("keep_of") or checkpoint.settings.get("init")
    if checkpoint.kept is None or named is None or str(named) == before:
        return
    now = align_state(load_weights(named, quiet=quiet).state)
    if any(not torch.equal(now[name], weight) for name, weight in checkpoint.kept.items()):
        # A run that went on without naming them does not know it any more.
        was = f"that keeps a share of {before or 'other weights'}"
        raise _of_another_run(settings, was, str(named))


def _of_another_run(settings: TrainSettings, was: str, would_be: str) -> WeightsError:
    return WeightsError(
        f"{settings.checkpoint_path} is of a run {was}; resume it so, not with {would_be}, or give "
        "it as initial weights of another run"
    )


def _clauses(settings: Mapping[str, Any]) -> list[str]:
    """Return what a run is to keep until its end, each in a few words."""
    q, motion = settings["q"], settings["motion"]
    return [
        f"the optimizer {settings['optimizer']}",
        f"{settings['keep']:g} of other weights kept",
        f"pairs of {settings['height']}x{settings['width']}",
        f"a batch of {settings['batch']}",
        f"the seed {settings['seed']}",
        "no robust loss" if q is None else f"a robust loss of {q:g}",
        "real pairs" if motion is None else f"rendered pairs that typically move {motion:g} px",
    ]
