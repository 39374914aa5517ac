"""What a run tells while it goes on: to its log, to TensorBoard, and to its summary."""

import time
from collections.abc import Mapping

from pwcflow.counted import counted
from pwcflow.training.log import RunLog
from pwcflow.training.ranks import Ranks
from pwcflow.training.settings import ImageCounts, TrainSettings
from pwcflow.training.step import Statistics
from pwcflow.training.tensorboard import EventFile
from pwcflow.training.validation import Measured

_ERROR_ENDING = "_epe_px"
"""Of what the log calls the error on a validation set, after the set's name."""


class Report:
    """Tells of each interval of steps and of each validation; only the first process writes."""

    def __init__(self, settings: TrainSettings, ranks: Ranks, step: int) -> None:
        """Open what is written to; `step` is the one that the run begins or goes on at.

        What is told of later ones, by a run that was killed after its last checkpoint, is removed
        from the log, and no longer shown by TensorBoard.

        Raises:
            OutputError: the log or an event file cannot be written.
        """
        last = step if step else -1  # before the first step is measured once more, too
        self._batch, self._ranks = settings.batch * ranks.world, ranks
        self._log: RunLog | None = None
        self._events: EventFile | None = None
        if ranks.rank == 0:
            self._log = RunLog(settings.log_path, echo=settings.echo)
            self._log.cut(last)
            if settings.tensorboard:
                self._events = EventFile(settings.events_path, resumed_at=last)
        self.loss = self._told_before("loss")
        """Mean over the last interval; None before there was one."""
        self.epe_px = self._told_before("epe_px")
        self.skipped = 0
        """Steps whose gradient was not finite, so far."""
        self.failures = 0.0
        """The most steps in a row, up to the last report, whose gradient was not finite."""
        self.begin(step)

    def _told_before(self, name: str) -> float | None:
        value = self._log.last(name) if self._log else None
        return value if isinstance(value, float) else None

    def begin(self, step: int) -> None:
        """Let the first interval begin now."""
        self.told = step
        """The step up to which all has been told."""
        self._told_at = time.monotonic()

    def steps(
        self,
        step: int,
        statistics: Statistics,
        *,
        pairs: int,
        seconds: float,
        rate: float,
        scale: float,
    ) -> None:
        """Read the statistics since the last report, which waits for the device, and tell them.

        Args:
            step: steps made.
            statistics: of the interval; begun anew.
            pairs: pairs seen, by all devices.
            seconds: how long the run has lasted.
            rate: the learning rate of the last step.
            scale: what the loss is multiplied by.
        """
        sums = statistics.sums.clone()
        self._ranks.add_up([sums])
        values = dict(zip(Statistics.NAMES, sums.tolist(), strict=True))
        self.failures = statistics.worst.item()
        statistics.clear()
        self.loss = _mean(values["loss"], values["measured"])
        self.epe_px = _mean(values["epe"], values["measured"])
        skipped = round(values["skipped"] / self._ranks.world)
        self.skipped += skipped
        now = time.monotonic()
        line = {
            "step": step,
            "pairs": pairs,
            "seconds": seconds,
            "pairs_per_second": (step - self.told) * self._batch / (now - self._told_at),
            "loss": self.loss,
            "epe_px": self.epe_px,
            "lr": rate,
            "grad_norm": _mean(values["norm"], values["used"]),
            "loss_scale": scale,
            "skipped": skipped,
        }
        self.told, self._told_at = step, now
        self._tell("training", line)

    def say(self, sentence: str) -> None:
        """Say what is done now, and may take a while, to whoever watches."""
        if self._log:
            self._log.say(sentence)

    def paused(self, seconds: float) -> None:
        """Let the last seconds, in which no steps were made, count for no interval."""
        self._told_at += seconds

    def validation(self, step: int, measured: Mapping[str, Measured]) -> None:
        """Tell how the weights do."""
        line: dict[str, object] = {"step": step}
        for name, result in measured.items():
            line[f"{name}{_ERROR_ENDING}"] = result.epe_px
            line[f"{name}_motion_px"] = result.motion_px
        self._tell("validation", line)
        if self._events:
            for name, result in measured.items():
                self._events.add_picture("validation", name, result.sheet, step)

    def has_validation(self, step: int) -> bool:
        """Return whether the log, which the first process has, tells how weights did at a step."""
        return self._log is not None and self._log.tells(step, _ERROR_ENDING)

    def close(self) -> None:
        """Write what is left."""
        if self._events:
            self._events.close()

    def _tell(self, group: str, line: dict[str, object]) -> None:
        if self._log:
            self._log.write(line)
        if self._events:
            numbers = {name: value for name, value in line.items() if name != "step"}
            step = line["step"]
            assert isinstance(step, int), "each line begins with it"
            self._events.add_numbers(group, numbers, step)


def training_told(first: int, log_every: int, agrees_always: bool) -> str:
    """Return what there is to see of a training; several GPUs stop where they agree to."""
    steps = "step" if log_every == 1 else f"{log_every} steps"
    end = "after the step it is at" if agrees_always else "at the next"
    begun = f"training goes on from step {first}" if first else "training"
    return f"{begun}; a line follows every {steps}, and Ctrl-C ends it {end} ..."


def images_told(counts: ImageCounts, before: ImageCounts) -> str:
    """Return such as "rendering from 3 photographs instead of 5 photographs".

    Args:
        counts: what pairs are made of, by validation set; images trained on are measured on, too.
        before: the same until the run was resumed; empty if it was not, or where it is not known.
    """
    verb = "training on" if "pairs" in counts["training"] else "rendering from"
    sentence = f"{verb} {_change(counts, before, 'training', 'computed patterns')}"
    if "holdout" in counts or "holdout" in before:
        sentence += f", measuring on {_change(counts, before, 'holdout', 'no others')}"
    return sentence


def of_same_images(
    errors: Mapping[str, float], counts: ImageCounts, before: ImageCounts
) -> dict[str, float]:
    """Return the errors of the sets made of as many images as before: others are of other pairs.

    Args:
        errors: of before, by validation set.
        counts: as in `images_told`.
        before: likewise; where it is not known, none have changed.
    """
    same = before or counts
    return {name: error for name, error in errors.items() if counts.get(name) == same.get(name)}


def _change(counts: ImageCounts, before: ImageCounts, name: str, nothing: str) -> str:
    """Return what a set is made of, and what it was made of if that was something else."""
    now = _named(counts.get(name, {})) or nothing
    was = (_named(before.get(name, {})) or nothing) if before else now
    return now if now == was else f"{now} instead of {was}"


def _named(counts: Mapping[str, int]) -> str:
    nouns = {"photographs": "photograph", "cut_outs": "cut-out", "pairs": "real pair"}
    return " and ".join(counted(count, nouns[name]) for name, count in counts.items() if count)


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None
