"""The evaluation pairs beside a checkout, and the measures of the field."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from pwcflow import known_pixels, read_flow, read_image


@dataclass(frozen=True)
class Pair:
    dataset: str
    name: str
    first: np.ndarray
    second: np.ndarray
    truth: np.ndarray
    valid: np.ndarray


def pairs(folder: Path) -> Iterator[Pair]:
    """Yield each pair of the evaluation folder; `valid` is where its true flow is known."""
    with (folder / "MANIFEST.csv").open(newline="", encoding="utf-8") as manifest:
        for row in csv.DictReader(manifest):
            truth = read_flow(folder / row["gt"])
            valid = known_pixels(truth)
            invalid = (folder / row["gt"]).with_name("invalid.png")
            if invalid.exists():
                valid &= cv2.imread(str(invalid), cv2.IMREAD_GRAYSCALE) == 0
            yield Pair(
                row["dataset"],
                row["sequence"],
                read_image(folder / row["frame1"]),
                read_image(folder / row["frame2"]),
                truth,
                valid,
            )


def end_point_error(flow: np.ndarray, pair: Pair) -> float:
    """Return the mean distance to the true flow in pixels, over its known pixels."""
    return float(np.linalg.norm(flow - pair.truth, axis=2)[pair.valid].mean())
