"""A long video end to end: how far from its slowest stage, and whether memory stays flat.

Run on a quiet machine, from the top of a checkout: python -m tests.benchmarks.long_video OUTPUT
Each frame's flow needs 3.6 MB in the folder for temporary files (TMPDIR) until it is done.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch

from pwcflow import FlowEstimator
from pwcflow.bench.video import check_room, decode, measure_stages
from pwcflow.pipeline import estimate_video
from pwcflow.runs.flow_files import flow_file
from pwcflow.runs.video_outputs import VideoOutputs
from tests.benchmarks.machine import described
from tests.moving_textures import video

HEIGHT, WIDTH = 436, 1024
FPS = 25
DIFFERENT_FRAMES = 48
REPEATS = 10
INTERVAL = 0.1
FLOWS_AT_ONCE = 16
"""Flow files are counted by so many: a look at the folder keeps those waiting who write there."""
BEGUN, SETTLED = 0.2, 0.5
"""Shares of the flows from which on speed, and memory, are those of a run that goes on for ever."""


@dataclass(frozen=True)
class Sample:
    """How far a run is, and what it holds."""

    seconds: float
    flows: int
    process_mb: float
    gpu_reserved_mb: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--viz", action="store_true", help="a colour video in place of flow files")
    chosen = parser.parse_args()
    with TemporaryDirectory() as scratch:
        result = measure(Path(scratch), chosen)
    chosen.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def measure(scratch: Path, chosen: argparse.Namespace) -> dict[str, object]:
    """Return the stages alone, in ms a frame, then the whole with its memory over time."""
    source = scratch / "source.mp4"
    write_video(source, chosen.frames)
    estimator = FlowEstimator(device=chosen.device, precision=chosen.precision)
    decoded = decode(source)
    check_room(decoded, scratch)
    cost = measure_stages(decoded, estimator, scratch, REPEATS)
    outputs = VideoOutputs(folder=scratch / "flows")
    if chosen.viz:
        outputs = VideoOutputs(folder=None, viz=scratch / "colours.mp4")
    with sampled(outputs) as samples:
        estimate_video(lambda: estimator, source, outputs)
    stage, slowest = cost.slowest()
    return {
        "machine": described(),
        "video": f"{chosen.frames} frames of {WIDTH} x {HEIGHT}",
        "precision": estimator.precision,
        "output": "colour video" if chosen.viz else "flow files",
        "ms_per_frame": {
            "decode": cost.decode.mean,
            "network": cost.network.mean,
            "write": cost.write.mean,
            "together, with what comes before the first": cost.together,
            "together, going on": None if chosen.viz else steady(samples, chosen.frames - 1),
        },
        "slowest": [stage, slowest],
        "memory_mb": flatness(samples),
        "samples": [asdict(sample) for sample in samples[:: max(len(samples) // 20, 1)]],
    }


def write_video(path: Path, frames: int) -> None:
    """Write frames of one texture that moves by its own number of pixels each time."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), FPS, (WIDTH, HEIGHT))
    images = video(DIFFERENT_FRAMES, HEIGHT, WIDTH)
    for index in range(frames):
        writer.write(cv2.cvtColor(images[index % len(images)], cv2.COLOR_RGB2BGR))
    writer.release()


def flows_on_disk(outputs: VideoOutputs, at_least: int) -> int:
    """Return how many flow files there are, rounded down; of a colour video nobody can tell."""
    if outputs.folder is None:
        return 0
    count = at_least
    while flow_file(outputs.folder, count + FLOWS_AT_ONCE - 1).exists():
        count += FLOWS_AT_ONCE
    return count


@contextmanager
def sampled(outputs: VideoOutputs) -> Iterator[list[Sample]]:
    """Take samples all the while, in a thread; they are complete behind the block."""
    samples: list[Sample] = []
    done = threading.Event()
    started = time.perf_counter()

    def sample() -> None:
        flows = 0
        while not done.wait(INTERVAL):
            flows = flows_on_disk(outputs, flows)
            reserved = torch.cuda.memory_reserved() / 1e6 if torch.cuda.is_initialized() else None
            now = time.perf_counter() - started
            samples.append(Sample(now, flows, resident_mb(), reserved))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()


def resident_mb() -> float:
    """Return the memory that this process has now; on Linux."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def steady(samples: list[Sample], flows: int) -> float | None:
    """Return the ms a flow takes by a line through the samples from BEGUN on.

    Without the last flows: nobody can tell when they were complete.
    """
    last = flows - FLOWS_AT_ONCE
    later = [sample for sample in samples if BEGUN * flows <= sample.flows <= last]
    if len(later) < 2:
        return None
    slope, _ = np.polyfit([s.flows for s in later], [s.seconds for s in later], 1)
    return float(slope * 1e3)


def flatness(samples: list[Sample]) -> dict[str, list[float]]:
    """Return the most memory up to SETTLED of the time, and after it."""
    middle = SETTLED * samples[-1].seconds
    halves = (
        [sample for sample in samples if sample.seconds <= middle],
        [sample for sample in samples if sample.seconds > middle],
    )
    found = {"process": [max(sample.process_mb for sample in half) for half in halves]}
    if samples[-1].gpu_reserved_mb is not None:
        found["gpu reserved"] = [max(s.gpu_reserved_mb or 0 for s in half) for half in halves]
    return found


if __name__ == "__main__":
    main()
