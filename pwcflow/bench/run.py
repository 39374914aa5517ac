"""All that `pwcflow bench` measures, in one run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pwcflow.bench.busy import warn_if_busy
from pwcflow.bench.machine import Machine, described
from pwcflow.bench.network import PairCost, measure_pairs
from pwcflow.bench.timing import forget_memory
from pwcflow.bench.video import VideoCost, check_room, decode, measure_stages
from pwcflow.bench.volumes import VolumeCost, measure_volume
from pwcflow.device import find_device, find_precision
from pwcflow.estimator import PRECISIONS, FlowEstimator
from pwcflow.network import DECODER_LEVELS, network_size
from pwcflow.progress import progress_bar

REPEATS = {"cuda": 30, "cpu": 5}
"""Calls that are timed, unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What is to be measured."""

    sizes: Sequence[tuple[int, int]] = ((436, 1024),)
    """Heights and widths of the images."""
    batches: Sequence[int] = (1,)
    video: Path | None = None
    """A video or a folder of frames, to measure the stages on."""
    folder: Path | None = None
    """Where the flows of the video are written; the system's for temporary files when None."""
    weights: str = "default"
    device: str = "auto"
    precision: str = "fp32"
    network_scale: float = 1.0
    repeats: int | None = None
    """Calls that are timed; `REPEATS` when None."""


@dataclass(frozen=True)
class BenchResult:
    """What was measured, and on what."""

    machine: Machine
    precision: str
    network_scale: float
    weights: str
    repeats: int
    pairs: list[tuple[tuple[int, int], int, PairCost | None]]
    """By size and batch; None where the GPU had not enough memory."""
    volumes: list[tuple[tuple[int, int], list[VolumeCost]]]
    """By size, the levels from coarse to fine."""
    video: VideoCost | None


def run_bench(settings: BenchSettings, *, quiet: bool) -> BenchResult:
    """Measure pairs by size and batch, the cost volume by level, and the stages of a video.

    What can be wrong with the input is found before anything is measured. Unless `quiet`, a
    warning is logged where a CPU's figures are about to be spoilt; see `busy`.

    Raises:
        PwcFlowError: the device, the weights or the video cannot be used, or the flows of the
            video do not fit on the disk.
    """
    device = find_device(settings.device)
    precision = find_precision(settings.precision, device)
    repeats = settings.repeats or REPEATS[device.type]

    def load() -> FlowEstimator:
        return FlowEstimator(
            settings.weights,
            str(device),
            precision,
            network_scale=settings.network_scale,
            quiet=quiet,
        )

    decoded = None
    if settings.video:
        decoded = decode(settings.video)
        check_room(decoded, settings.folder)
    weights = load().weights.name
    if device.type == "cpu" and not quiet:
        warn_if_busy()
    steps = len(settings.sizes) * (len(settings.batches) + len(DECODER_LEVELS)) + bool(decoded)
    with progress_bar(steps, not quiet, unit="step") as bar:
        pairs = []
        for size in settings.sizes:
            for batch in settings.batches:
                pairs.append((size, batch, measure_pairs(load, *size, batch, repeats)))
                bar.update()
        volumes = []
        for size in settings.sizes:
            forget_memory(device)
            seen = network_size(*size, settings.network_scale)
            rows = []
            for level in DECODER_LEVELS:
                dtype = PRECISIONS[precision]
                rows.append(measure_volume(level, *seen, dtype, device, repeats))
                bar.update()
            volumes.append((size, rows))
        video = None
        if decoded:
            forget_memory(device)
            video = measure_stages(decoded, load(), settings.folder, repeats)
            bar.update()
    machine = described(device)
    scale = settings.network_scale
    return BenchResult(machine, precision, scale, weights, repeats, pairs, volumes, video)
