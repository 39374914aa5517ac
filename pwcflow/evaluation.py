"""Estimated flow against true flow, in the measures of the field."""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pwcflow.errors import FlowFileError, ImageError, reason_of
from pwcflow.flow_file import Flow, Mask, known_pixels, read_flow
from pwcflow.image_file import Image, read_image

OUTLIER_PX = 3.0
OUTLIER_SHARE = 0.05
_FRAMES = ("frame1", "frame2")


@dataclass(frozen=True)
class TruePair:
    """Two images and the true flow from the first to the second."""

    dataset: str
    name: str
    first: Image
    second: Image
    truth: Flow
    valid: Mask
    """(H, W) bool, False where the truth is unknown."""


@dataclass(frozen=True)
class Score:
    """Means over the pairs of a data set."""

    pairs: int
    end_point_error_px: float
    outliers: float
    """Fl-all: the share of pixels that are wrong by more than 3 px and more than 5 %."""


def end_point_error(estimate: Flow, truth: Flow, valid: Mask | None = None) -> float:
    """Return the mean distance between two flows (H, W, 2) in pixels.

    Args:
        estimate: the estimated flow.
        truth: the true flow, same shape.
        valid: where to compare, (H, W) bool; where the truth is known when None.

    Raises:
        ValueError: there is no pixel to compare.
    """
    return float(_distances(estimate, truth, valid)[0].mean())


def outliers(estimate: Flow, truth: Flow, valid: Mask | None = None) -> float:
    """Return Fl-all, the share of pixels wrong by more than 3 px and by more than 5 %, 0 to 1.

    Takes and raises what `end_point_error` does. Source: Menze, Geiger, "Object Scene Flow for
    Autonomous Vehicles", CVPR 2015, section 5.
    """
    distance, length = _distances(estimate, truth, valid)
    return float(((distance > OUTLIER_PX) & (distance > OUTLIER_SHARE * length)).mean())


def read_manifest(manifest: Path) -> Iterator[TruePair]:
    """Yield the pairs that a CSV file lists.

    Args:
        manifest: a CSV file with a header line and the columns dataset, sequence, frame1, frame2
            and gt, the paths being relative to its folder. An image `invalid.png` beside the true
            flow marks with white where that is not to be used.

    Raises:
        FlowFileError: the manifest has no such columns, or a flow cannot be read or tells nothing.
        ImageError: an image cannot be read, or is not of the size of the flow.
    """
    folder = manifest.parent
    for row in manifest_rows(manifest):
        path = folder / row["gt"]
        truth = read_flow(path)
        valid = known_pixels(truth)
        invalid = path.with_name("invalid.png")
        if invalid.exists():
            valid &= _fitting(invalid, path, truth)[..., 0] == 0
        if not valid.any():
            raise FlowFileError(
                f"{path} is known at no pixel, so there is nothing to measure on; take it out of "
                f"{manifest}"
            )
        first, second = (_fitting(folder / row[name], path, truth) for name in _FRAMES)
        yield TruePair(row["dataset"], row["sequence"], first, second, truth, valid)


def check_manifest(manifest: Path) -> None:
    """Raise `FlowFileError` unless the files that a manifest lists are there; none is read."""
    for row in manifest_rows(manifest):
        for name in (*_FRAMES, "gt"):
            path = manifest.parent / row[name]
            if not path.is_file():
                raise FlowFileError(
                    f"there is no file {path}, which {manifest} lists; paths in it begin at its "
                    "own folder"
                )


def manifest_rows(manifest: Path) -> list[dict[str, str]]:
    """Return the lines of a manifest, by column; see `read_manifest`.

    Raises:
        FlowFileError: it cannot be read, or lacks a column.
    """
    try:
        with manifest.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise FlowFileError(
            f"cannot read {manifest} as a CSV file: {reason}; check the name and the file"
        ) from error
    columns = {"dataset", "sequence", *_FRAMES, "gt"}
    if not rows or not columns <= set(rows[0]):
        raise FlowFileError(
            f"{manifest} must have lines with {', '.join(sorted(columns))}, and these names in its "
            "first line; add them"
        )
    for number, row in enumerate(rows, 1):
        if any(row[name] is None for name in columns):
            raise FlowFileError(
                f"{manifest}: line {number} below its header lacks a column; add it"
            )
    return rows


def _fitting(path: Path, flow_file: Path, flow: Flow) -> Image:
    image = read_image(path)
    if image.shape[:2] != flow.shape[:2]:
        sizes = [f"{it.shape[1]} x {it.shape[0]}" for it in (image, flow)]
        raise ImageError(
            f"{path} is {sizes[0]} pixels but its true flow, {flow_file}, is {sizes[1]}; give the "
            "one that belongs to it"
        )
    return image


def evaluate(
    estimate: Callable[[Image, Image], Flow], pairs: Iterable[TruePair]
) -> dict[str, Score]:
    """Return the score of an estimator on pairs, by their data sets."""
    errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for pair in pairs:
        flow = estimate(pair.first, pair.second)
        errors[pair.dataset].append(
            (
                end_point_error(flow, pair.truth, pair.valid),
                outliers(flow, pair.truth, pair.valid),
            )
        )
    return {
        dataset: Score(len(values), *np.mean(values, axis=0).tolist())
        for dataset, values in errors.items()
    }


def _distances(estimate: Flow, truth: Flow, valid: Mask | None) -> tuple[Flow, Flow]:
    """Return the error and the true length at each valid pixel, (K,) each, in pixels."""
    if estimate.shape != truth.shape:
        raise ValueError(f"the flows differ in shape: {estimate.shape} and {truth.shape}")
    valid = known_pixels(truth) if valid is None else valid
    if not valid.any():
        raise ValueError("there is no pixel whose true flow is known")
    truth, estimate = truth[valid].astype(np.float64), estimate[valid].astype(np.float64)
    return np.hypot(*(estimate - truth).T), np.hypot(*truth.T)
