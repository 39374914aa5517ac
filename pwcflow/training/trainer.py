"""Trains PWC-Net on pairs rendered on the fly, on one device or several."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from pwcflow.aligned import IMAGE_GAP, AlignedPwcNet
from pwcflow.counted import counted
from pwcflow.device import find_device
from pwcflow.network import uninitialized
from pwcflow.ops import IMAGE_CHANNELS
from pwcflow.outputs import make_folder
from pwcflow.training.checkpoint import (
    Checkpoint,
    are_finite,
    export_weights,
    save_checkpoint,
)
from pwcflow.training.divergence import FAILURES_TOLERATED, DivergedError, diverged
from pwcflow.training.flat import flatten
from pwcflow.training.interpolation import interpolated
from pwcflow.training.interruption import Interruption, catching_interruptions
from pwcflow.training.muon import FlatMuon
from pwcflow.training.optimizer import AdamSettings, FlatAdamW
from pwcflow.training.processes import run_processes
from pwcflow.training.ranks import (
    Ranks,
    joined_by_environment,
    started_by_torchrun,
)
from pwcflow.training.report import Report, images_told, of_same_images, training_told
from pwcflow.training.run_folder import check_output
from pwcflow.training.schedule import Pace, one_cycle
from pwcflow.training.settings import ImageCounts, Outcome, Summary, TrainSettings
from pwcflow.training.start import start
from pwcflow.training.step import Renderer, TrainingStep, benchmarking
from pwcflow.training.validation import MakeRenderers, validate

AGREE_ALWAYS = 10
"""First steps of a run after which its GPUs tell each other the time, to learn the pace."""

MakeRenderer = Callable[[torch.device, int, int], Renderer]
"""From the device, the rank and the number of processes; each rank must render other scenes."""

CountImages = Callable[[torch.device], ImageCounts]
"""From the device, which images the pairs are made of; it reads them."""


def train(
    settings: TrainSettings,
    make_renderer: MakeRenderer,
    make_validation: MakeRenderers | None = None,
    count_images: CountImages | None = None,
) -> Summary:
    """Train until the end of the settings, or until SIGINT or SIGTERM, and write the weights.

    Under torchrun this process is one of its group. Else, with several `devices`, a process is
    started for each, and what makes renderers must be picklable: a function of a module, or a
    `partial` of one.

    Args:
        settings: the run.
        make_renderer: makes what the pairs come from.
        make_validation: makes the pairs that the weights to write are measured on before the first
            step, every `validate_every` steps, and when the run is finished; None for no such.
        count_images: counts the images that pairs are made of, which is told before the first step;
            None where they are made of none.

    Returns:
        what the run came to; its checkpoint, which can be resumed, and its weights are written.

    Raises:
        DivergedError: FAILURES_TOLERATED steps in a row had no finite gradient, or the weights
            that came out, or their errors as measured last, are not finite. No weights are
            written then, and the checkpoint stays the last one that was, if any: of a step before
            gradients were skipped, or, where only the measurement told, of the last one. The error
            says whether there is any use in resuming it.
        WeightsError: the initial weights, those to keep a share of or the checkpoint cannot be
            used.
        OutputError: the output cannot be written, its disk has too little room, or it holds a run
            that is not to be resumed.
        DeviceError: there are fewer devices.
    """
    check_output(settings)
    work = partial(_run, settings, make_renderer, make_validation, count_images)
    if started_by_torchrun():
        with joined_by_environment(settings.device) as ranks:
            summary = work(ranks)
    elif settings.devices > 1:
        summary = run_processes(settings.device, settings.devices, work)
    else:
        device = find_device(settings.device)
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            summary = work(Ranks(device))
    return summary


def _run(
    settings: TrainSettings,
    make_renderer: MakeRenderer,
    make_validation: MakeRenderers | None,
    count_images: CountImages | None,
    ranks: Ranks,
) -> Summary:
    return _Run(settings, make_renderer, make_validation, count_images, ranks).run()


class _Run:
    """A run in one process, which may be one of several."""

    def __init__(
        self,
        settings: TrainSettings,
        make_renderer: MakeRenderer,
        make_validation: MakeRenderers | None,
        count_images: CountImages | None,
        ranks: Ranks,
    ) -> None:
        # Under torchrun the settings do not know how many there are.
        settings = replace(settings, devices=ranks.world)
        self._settings = settings
        self._ranks = ranks
        network = _network(ranks.device)
        self._optimizer = _optimizer(settings, network)
        begun = start(settings, self._optimizer, quiet=ranks.rank > 0)
        make_folder(settings.output)  # not before it is known that there are weights
        self._step, self._pairs, self._seconds_before = begun.step, begun.pairs, begun.seconds
        self._errors_before, self._kept = begun.errors_before, begun.kept
        self._images_before, self._devices_before = begun.images, begun.devices
        self._begun_with = begun.begun_with
        ranks.copy_first(self._optimizer.flats())
        self._optimizer.publish()
        self._told = Report(settings, ranks, self._step)
        if settings.resume and not settings.checkpoint_path.exists():
            source = "from nothing" if settings.init is None else f"with {settings.init}"
            self._told.say(
                f"there is no checkpoint in {settings.output} yet: the run begins {source}"
            )
        self._images: ImageCounts = {}
        if count_images and ranks.rank == 0:
            self._told.say("reading what pairs are made of ...")
            self._images = count_images(ranks.device)
            self._errors_before = of_same_images(
                self._errors_before, self._images, self._images_before
            )
        self._renderer = make_renderer(ranks.device, ranks.rank, ranks.world)
        self._work = TrainingStep(
            network, self._renderer, self._optimizer, q=settings.q, world=ranks.world
        )
        self._pace = Pace(settings.steps, settings.length_seconds)
        # GPUs would wait for each other and for the host, which a CPU does in each step as it is.
        self._agrees_always = ranks.world == 1 or ranks.device.type == "cpu"
        self._saved_step: int | None = None
        self._make_validation = make_validation
        self._errors: dict[str, float] = {}
        self._errors_of_no_motion: dict[str, float] = {}
        self._validated_step: int | None = None

    def run(self) -> Summary:
        """Make all steps, and write what a run leaves.

        Raises:
            DivergedError: see `train`.
        """
        settings = self._settings
        with closing(self._told), catching_interruptions() as interruption, benchmarking():
            if self._images:
                self._told.say(images_told(self._images, self._images_before))
            if self._devices_before not in (None, settings.devices):
                devices = counted(settings.devices, "device")
                self._told.say(f"going on with {devices} instead of {self._devices_before}")
            self._prepare(interruption)
            if self._step == 0:
                self._validate(interruption)
                self._errors_before = self._errors
            elif self._is_to_be_measured() and not self._told.has_validation(self._step):
                self._validate(interruption)  # what an interruption had cut short
            outcome = self._make_steps(interruption)
            seconds = self._elapsed()
            if outcome == "diverged":
                raise self._diverged(
                    f"the gradients of {FAILURES_TOLERATED} steps in a row were not finite, up to "
                    f"step {self._step}"
                )
            weights = self._weights()
            if not are_finite(weights):
                raise self._diverged(f"the weights of step {self._step} are not finite in float16")
            if not self._skipped_in_a_row():  # else the last checkpoint may be better
                self._save_once()
            outcome = self._measure_at_last(outcome, interruption)
            self._save_once()
            if self._ranks.rank == 0:
                export_weights(weights, settings.weights_path)
        return Summary(
            outcome=outcome,
            step=self._step,
            pairs=self._pairs,
            seconds=seconds,
            loss=self._told.loss,
            epe_px=self._told.epe_px,
            skipped=self._told.skipped,
            errors_before=self._errors_before,
            errors=self._errors if self._validated_step else {},
            errors_of_no_motion=self._errors_of_no_motion if self._validated_step else {},
            images=self._images,
            checkpoint=settings.checkpoint_path,
            weights=settings.weights_path,
            log=settings.log_path,
        )

    def _prepare(self, interruption: Interruption) -> None:
        """Load the first scenes, check what they render to, and capture the step on a GPU."""
        settings = self._settings
        self._told.say(f"preparing {counted(settings.batch, 'pair')} for the first step ...")
        interruption.unless_requested(self._render_first)
        # Scenes that were not loaded to their end must not be rendered.
        if self._ranks.device.type == "cuda" and settings.graphs and not interruption.requested:
            self._work.capture()
        self._started = self._last_save = time.monotonic()
        self._pace.observe(self._step, self._elapsed())

    def _render_first(self) -> None:
        self._renderer.load(self._step)
        batch = self._renderer.render()
        n, h, w = self._settings.batch, self._settings.height, self._settings.width
        shapes = [tuple(tensor.shape) for tensor in (batch.images, batch.flow, batch.valid)]
        expected = [(2 * n, IMAGE_CHANNELS + IMAGE_GAP, h, w), (n, 2, h, w), (n, 1, h, w)]
        if shapes != expected:
            raise ValueError(f"the renderer must give tensors {expected}, but they are {shapes}")

    def _make_steps(self, interruption: Interruption) -> Outcome:
        """Step until there is a reason to stop, and return it; the same in all processes."""
        first = self._step
        self._told.begin(self._step)
        outcome = self._reason_to_stop(interruption, first)
        if outcome is None:
            log_every = self._settings.log_every
            self._told.say(training_told(first, log_every, self._agrees_always))
        elif outcome == "finished":
            self._told.say(
                "the run has already lasted as long as it is to: nothing is left to train"
            )
        while outcome is None:
            peak, warm_share = self._settings.peak_lr, self._settings.warm_share
            self._rate = one_cycle(self._pace.progress(self._step + 1), peak, warm_share)
            self._work.run(self._rate, self._add_up_gradients, self._load_next)
            self._step += 1
            self._pairs += self._settings.batch * self._ranks.world
            if self._step % self._settings.log_every == 0:
                self._report()
            if self._is_to_be_measured():
                self._validate(interruption)
            pause = self._settings.checkpoint_seconds
            due = self._ranks.rank == 0 and time.monotonic() - self._last_save >= pause
            if due and not self._skipped_in_a_row() and are_finite(self._weights()):
                self._save()
            outcome = self._reason_to_stop(interruption, first)
        if self._step > self._told.told:
            self._report()
        return outcome

    def _reason_to_stop(self, interruption: Interruption, first: int) -> Outcome | None:
        often = self._agrees_always or self._step - first < AGREE_ALWAYS
        if often or self._step % self._settings.log_every == 0:
            stop, elapsed = self._ranks.agree(interruption.requested, self._elapsed())
            self._pace.observe(self._step, elapsed)
            if stop:
                return "interrupted"
        if self._told.failures >= FAILURES_TOLERATED:
            return "diverged"
        return "finished" if self._pace.progress(self._step) >= 1.0 else None

    def _add_up_gradients(self) -> None:
        self._ranks.add_up(part.gradient for part in self._optimizer.parts)

    def _load_next(self) -> None:
        self._renderer.load(self._step + 1)

    def _report(self) -> None:
        self._told.steps(
            self._step,
            self._work.statistics,
            pairs=self._pairs,
            seconds=self._elapsed(),
            rate=self._rate,
            scale=self._optimizer.scale.item(),
        )

    def _is_to_be_measured(self) -> bool:
        every = self._settings.validate_every
        return every is not None and self._step % every == 0

    def _validate(self, interruption: Interruption) -> None:
        """Measure `_weights()` on pairs that stay the same; the clock stands meanwhile."""
        if self._make_validation is None or self._ranks.rank > 0 or interruption.requested:
            return
        began = time.monotonic()
        batches = self._settings.validation_batches
        pairs = counted(batches * self._settings.batch, "pair")
        self._told.say(f"measuring the weights on {pairs} of each set ...")
        weights, device = self._weights(), self._ranks.device
        measured = interruption.unless_requested(
            partial(validate, weights, self._make_validation, batches, device)
        )
        seconds = time.monotonic() - began
        self._started += seconds
        self._last_save += seconds
        self._told.paused(seconds)
        if measured is None:
            return
        self._validated_step = self._step
        self._errors = {name: result.epe_px for name, result in measured.items()}
        self._errors_of_no_motion = {name: result.motion_px for name, result in measured.items()}
        self._told.validation(self._step, measured)

    def _measure_at_last(self, outcome: Outcome, interruption: Interruption) -> Outcome:
        """Measure the weights of a finished run, and return the outcome; the same in all processes.

        Raises:
            DivergedError: the errors measured last are not finite, unless they are of the initial
                weights.
        """
        cut = False
        if outcome == "finished" and self._validated_step != self._step:
            self._validate(interruption)
            cut = interruption.requested  # what is left is to measure, once it is resumed
        finite = all(map(math.isfinite, self._errors.values()))
        # Only the first process knows what came out.
        found = torch.tensor([cut, self._validated_step or 0, finite], device=self._ranks.device)
        self._ranks.copy_first([found])
        cut, measured, finite = found.tolist()
        if measured and not finite:
            raise self._diverged(f"the errors of the weights of step {measured} are not finite")
        return "interrupted" if cut else outcome

    def _weights(self) -> Mapping[str, Tensor]:
        """Return the weights that come out of the run if it ends here."""
        return interpolated(self._optimizer.average(), self._kept, self._settings.keep)

    def _elapsed(self) -> float:
        """Return how long the run has lasted, before it was resumed included."""
        return self._seconds_before + time.monotonic() - self._started

    def _skipped_in_a_row(self) -> int:
        """Return how many steps up to now had no finite gradient; it waits for the device."""
        return round(self._work.statistics.failures.item())

    def _diverged(self, why: str) -> DivergedError:
        changed = self._step - self._skipped_in_a_row()
        return diverged(why, self._settings.checkpoint_path, changed)

    def _save_once(self) -> None:
        """Save, unless this step is saved."""
        if self._ranks.rank == 0 and self._saved_step != self._step:
            self._save()

    def _save(self) -> None:
        checkpoint = Checkpoint(
            optimizer=self._optimizer.state(),
            step=self._step,
            pairs=self._pairs,
            seconds=self._elapsed(),
            settings=self._settings.as_plain(),
            kept=self._kept,
            errors_before=self._errors_before,
            images=self._images,
            begun_with=self._begun_with,
        )
        save_checkpoint(self._settings.checkpoint_path, checkpoint)
        self._last_save, self._saved_step = time.monotonic(), self._step


def _network(device: torch.device) -> AlignedPwcNet:
    """Return the network in the precision it is trained in, its weights still arbitrary."""
    network = uninitialized(AlignedPwcNet)
    network.set_precision(torch.float16 if device.type == "cuda" else torch.float32)
    return network.to(device)


def _optimizer(settings: TrainSettings, network: AlignedPwcNet) -> FlatAdamW:
    constants = AdamSettings(settings.weight_decay, settings.clip, settings.ema)
    if settings.optimizer == "muon":
        return FlatMuon.of(network, constants)
    return FlatAdamW(flatten(network), constants)
