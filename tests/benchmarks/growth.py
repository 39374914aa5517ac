"""How time and memory grow with the size of a pair and with the batch; writes one JSON object.

Run on a machine with a GPU, from the top of a checkout: python -m tests.benchmarks.growth OUTPUT
Draw what it wrote, anywhere: python -m tests.benchmarks.growth --plot growth.json growth.png
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from pwcflow.image_file import Image, write_image

MEGAPIXELS = (0.25, 0.5, 1, 2, 4, 8, 16, 33)
ASPECT = 16 / 9
BATCHES = (1, 2, 4, 8, 16, 32)
BATCH_SIZE = (436, 1024)
PRECISION = "fp16"
REPEATS = 10

PANEL_WIDTH, PANEL_HEIGHT = 900, 620
HEADER = 70
MARGIN = {"left": 130, "right": 40, "top": 90, "bottom": 100}
BLACK, GRAY, LIGHT = (30, 30, 30), (120, 120, 120), (225, 225, 225)
COLORS = ((20, 90, 180), (215, 95, 20))  # RGB
DECADES_FOR_LOG = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", nargs="?", type=Path, help="written anew after each figure")
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("JSON", "PNG"))
    chosen = parser.parse_args()
    if (chosen.output is None) == (chosen.plot is None):
        parser.error("give OUTPUT, or --plot")
    if chosen.plot:
        source, target = chosen.plot
        write_image(target, draw(json.loads(source.read_text(encoding="utf-8"))))
    else:
        for growth in measure():
            chosen.output.write_text(json.dumps(growth, indent=2) + "\n", encoding="utf-8")


def measure() -> Iterator[dict[str, Any]]:
    """Yield time and memory by size and by batch, as far as they are measured.

    Those that the GPU cannot hold have none.
    """
    from pwcflow.bench.network import measure_pairs
    from pwcflow.bench.report import pair_summary
    from pwcflow.estimator import FlowEstimator
    from tests.benchmarks.agreement import missing_kernels
    from tests.benchmarks.machine import described

    if reason := missing_kernels():
        sys.exit(f"error: {reason}")

    def row(size: tuple[int, int], batch: int) -> dict[str, Any]:
        def load() -> FlowEstimator:
            return FlowEstimator(device="cuda", precision=PRECISION)

        # With convolutions that are ready: those compiled take seconds for each size.
        cost = measure_pairs(load, *size, batch, REPEATS, fused=False)
        print(f"{size[0]} x {size[1]}, batch {batch}: {cost}", file=sys.stderr)
        return pair_summary(size, batch, cost)

    growth: dict[str, Any] = {
        "machine": described(),
        "precision": PRECISION,
        "repeats": REPEATS,
        "by_size": [],
        "by_batch": [],
    }
    for area in MEGAPIXELS:
        growth["by_size"].append({"megapixels": area, **row(size_of(area), 1)})
        yield growth
    for batch in BATCHES:
        growth["by_batch"].append(row(BATCH_SIZE, batch))
        yield growth


def size_of(megapixels: float) -> tuple[int, int]:
    """Return the height and width of a 16:9 image of about so many pixels."""
    width = math.sqrt(megapixels * 1e6 * ASPECT)
    return round(width / ASPECT), round(width)


@dataclass(frozen=True)
class Curve:
    """A named row of points (x, y); y is None where there was not enough memory."""

    name: str
    points: list[tuple[float, float | None]]


def draw(growth: dict[str, Any]) -> Image:
    """Return a picture of four plots: time and memory, by size and by batch."""
    machine = growth["machine"]
    image = np.full((HEADER + 2 * PANEL_HEIGHT, 2 * PANEL_WIDTH, 3), 255, np.uint8)
    title = f"{machine['card']}, torch {machine['torch']}, {growth['precision']}"
    _text(image, f"{title}, commit {machine['commit']}, {machine['date']}", (40, 50), 1.0)
    height, width = BATCH_SIZE
    groups = (
        ("by_size", "megapixels", "megapixels of a frame, batch 1"),
        ("by_batch", "batch", f"pairs in a batch, {width} x {height}"),
    )
    for column, (group, x, x_label) in enumerate(groups):
        rows = growth[group]
        for line, (label, curves) in enumerate(_quantities(rows, x)):
            top, left = HEADER + line * PANEL_HEIGHT, column * PANEL_WIDTH
            _panel(
                image[top : top + PANEL_HEIGHT, left : left + PANEL_WIDTH], label, x_label, curves
            )
    return image


def ticks_of(low: float, high: float, *, log: bool) -> list[float]:
    """Return round numbers that span low to high: 1 2 5 10 and so on, or equal steps from 0."""
    if log:
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [factor * 10.0**exponent for exponent in exponents for factor in (1, 2, 5)]
        first = max((tick for tick in ticks if tick <= low), default=low)
        last = min((tick for tick in ticks if tick >= high), default=high)
        return [tick for tick in ticks if first <= tick <= last]
    step = 10.0 ** math.floor(math.log10(high))
    step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if high / (step * part) <= 6)
    return [step * index for index in range(math.ceil(high / step) + 1)]


def _quantities(rows: list[dict[str, Any]], x: str) -> list[tuple[str, list[Curve]]]:
    def curve(name: str, quantity: str, part: str) -> Curve:
        return Curve(name, [(row[x], row[quantity] and row[quantity][part]) for row in rows])

    return [
        (
            "ms per pair",
            [
                curve("whole, numpy to numpy", "whole_ms_per_pair", "p50"),
                curve("network alone", "network_ms_per_pair", "p50"),
            ],
        ),
        (
            "peak GPU memory, MB",
            [
                curve("reserved", "peak_memory_mb", "gpu_reserved"),
                curve("in tensors", "peak_memory_mb", "gpu_allocated"),
            ],
        ),
    ]


def _panel(image: Image, label: str, x_label: str, curves: list[Curve]) -> None:
    """Draw one plot into its part of the picture; x is logarithmic, y where it spans decades."""
    left, right = MARGIN["left"], PANEL_WIDTH - MARGIN["right"]
    top, bottom = MARGIN["top"], PANEL_HEIGHT - MARGIN["bottom"]
    _text(image, label, (left, 40), 0.9)
    known = [y for curve in curves for _, y in curve.points if y is not None]
    if not known:
        _text(image, "no figures", (left, top + 40), 0.8, GRAY)
        return
    log = math.log10(max(known) / min(known)) > DECADES_FOR_LOG
    ticks = ticks_of(min(known), max(known), log=log)
    xs = sorted({x for curve in curves for x, _ in curve.points})

    def column(x: float) -> int:
        span = math.log(xs[-1] / xs[0]) or 1.0
        return round(left + 30 + (right - left - 60) * math.log(x / xs[0]) / span)

    def line(y: float) -> int:
        low, high = ticks[0], ticks[-1]
        share = math.log(y / low) / math.log(high / low) if log else (y - low) / (high - low)
        return round(bottom - (bottom - top) * share)

    for tick in ticks:
        cv2.line(image, (left, line(tick)), (right, line(tick)), LIGHT, 1)
        _text(image, f"{tick:g}", (left - 14, line(tick) + 8), 0.7, GRAY, align=1.0)
    for x in xs:
        _text(image, f"{x:g}", (column(x), bottom + 34), 0.7, GRAY, align=0.5)
        if all(y is None for curve in curves for at, y in curve.points if at == x):
            _text(image, "no memory", (column(x), bottom - 10), 0.5, GRAY, align=0.5)
    cv2.line(image, (left, bottom), (right, bottom), GRAY, 2)
    _text(image, x_label, ((left + right) // 2, bottom + 78), 0.8, align=0.5)
    for number, (curve, color) in enumerate(zip(curves, COLORS, strict=True)):
        places = [(column(x), line(y)) for x, y in curve.points if y is not None]
        cv2.polylines(image, [np.array(places, np.int32)], False, color, 3, cv2.LINE_AA)
        for place in places:
            cv2.circle(image, place, 7, color, cv2.FILLED, cv2.LINE_AA)
        key = left + 340 * number
        cv2.circle(image, (key + 8, 66), 7, color, cv2.FILLED, cv2.LINE_AA)
        _text(image, curve.name, (key + 26, 74), 0.75, color)


def _text(
    image: Image,
    text: str,
    place: tuple[int, int],
    scale: float,
    color: tuple[int, int, int] = BLACK,
    *,
    align: float = 0.0,
) -> None:
    """Write text; `align` is the share of its width that lies left of `place`."""
    font, weight = cv2.FONT_HERSHEY_SIMPLEX, 1
    (width, _), _ = cv2.getTextSize(text, font, scale, weight)
    origin = place[0] - round(width * align), place[1]
    cv2.putText(image, text, origin, font, scale, color, weight, cv2.LINE_AA)


if __name__ == "__main__":
    main()
