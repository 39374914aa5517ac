"""How fast flow files are written, beside the disk's own speed; prints one JSON object.

Run from the top of a checkout, on a quiet machine: python -m tests.benchmarks.writing FOLDER
FOLDER, on the disk in question, needs 1 GB for a while.
"""

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np

from pwcflow.flow_file import Flow, write_flow
from pwcflow.overlap import WriteBehind
from pwcflow.runs.video_sink import FLOW_FILE_THREADS
from tests.benchmarks.machine import described

HEIGHT, WIDTH = 1080, 1920
FLO_FILES, PACKED_FILES = 32, 4  # what is packed takes the processor's time, not the disk's
THREADS = (1, 2, 4, 8)
REPEATS = 9


def main() -> None:
    """Print megabytes of float32 (u, v) a second, of some turns."""
    flow = smooth_flow()
    ways: dict[str, tuple[int, Callable[[Path], object]]] = {
        "plain files": (FLO_FILES, lambda folder: plain(folder, flow)),
        "plain files, fsync each": (FLO_FILES, lambda folder: plain(folder, flow, each=True)),
    }
    for suffix, files in ((".flo", FLO_FILES), (".png", PACKED_FILES), (".npz", PACKED_FILES)):
        for threads in THREADS if suffix == ".flo" else THREADS[:2]:
            ways[f"{suffix}, {threads} threads"] = (
                files,
                lambda folder, files=files, suffix=suffix, threads=threads: behind(
                    folder, flow, suffix, files, threads
                ),
            )
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    rate(Path(sys.argv[1]), ways["plain files"][1], 1)  # warms up
    order = random.Random(0)
    for _ in range(REPEATS):
        for name in order.sample(sorted(ways), len(ways)):  # whatever comes first is slow
            files, write = ways[name]
            rates[name].append(rate(Path(sys.argv[1]), write, files * flow.nbytes))
    print(
        json.dumps(
            {**facts(), "mb_per_second": {n: summary(r) for n, r in rates.items()}}, indent=2
        )
    )


def facts() -> dict[str, Any]:
    """Return what was measured, and on what."""
    machine = described()
    cores = len(os.sched_getaffinity(0))
    return {
        "machine": f"a {cores}-core cloud machine, its disk virtual",
        "date": machine["date"],
        "commit": machine["commit"],
        "flow": f"{WIDTH} x {HEIGHT}, {8 * WIDTH * HEIGHT / 1e6:.1f} MB as .flo",
        "files": {"flo": FLO_FILES, "packed": PACKED_FILES},
        "threads_of_a_run": FLOW_FILE_THREADS,
        "repeats": REPEATS,
        "load_average": round(os.getloadavg()[0], 1),
    }


def smooth_flow() -> Flow:
    """Return a flow that packs about as well as a network's does."""
    rng = np.random.default_rng(0)
    coarse = rng.normal(0, 10, (HEIGHT // 60, WIDTH // 60, 2)).astype(np.float32)
    fine = cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    return fine + rng.normal(0, 0.01, fine.shape).astype(np.float32)


def plain(folder: Path, flow: Flow, *, each: bool = False) -> None:
    """Write the bytes as they lie in memory, one file after the other."""
    for number in range(FLO_FILES):
        with (folder / f"{number}.raw").open("wb") as file:
            file.write(flow.data)
            if each:
                os.fsync(file.fileno())


def behind(folder: Path, flow: Flow, suffix: str, files: int, threads: int) -> None:
    """Write flow files as a run does, each in its place by a rename."""

    def write(number: int, flow: Flow) -> None:
        write_flow(folder / f"{number:06d}{suffix}", flow)

    with WriteBehind([[(write, threads)]], lambda _: None) as writer:
        for _ in range(files):
            writer.write(flow)
        writer.finish()


def rate(folder: Path, write: Callable[[Path], object], size: int) -> tuple[float, float]:
    """Return MB/s until the system has it all, and until the disk has it all."""
    with TemporaryDirectory(dir=folder) as scratch:
        started = time.perf_counter()
        write(Path(scratch))
        handed_over = time.perf_counter() - started
        for path in Path(scratch).iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        on_disk = time.perf_counter() - started
    return size / handed_over / 1e6, size / on_disk / 1e6


def summary(pairs: list[tuple[float, float]]) -> dict[str, int]:
    """Return of both rates the median, and the fastest: other work on a machine only slows down."""
    handed_over, on_disk = zip(*pairs, strict=True)
    return {
        "to_the_system": round(statistics.median(handed_over)),
        "to_the_disk": round(statistics.median(on_disk)),
        "to_the_system_at_best": round(max(handed_over)),
        "to_the_disk_at_best": round(max(on_disk)),
    }


if __name__ == "__main__":
    main()
