"""Estimated flow against true flow, in the measures of the field."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pwcflow.datasets import TruePair
from pwcflow.flow_file import Flow, Mask, known_pixels
from pwcflow.image_file import Image
from pwcflow.mirror import mirror, mirror_flow

OUTLIER_PX = 3.0
OUTLIER_SHARE = 0.05
MIRRORINGS = ((False, False), (True, False), (False, True), (True, True))
"""Whether left and right are exchanged, and whether top and bottom are."""


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


def score_pair(estimate: Flow, truth: Flow, valid: Mask | None = None) -> Score:
    """Return both measures of one pair's flow.

    Takes and raises what `end_point_error` does. Source of Fl-all: Menze, Geiger, "Object Scene
    Flow for Autonomous Vehicles", CVPR 2015, section 5.
    """
    distance, length = _distances(estimate, truth, valid)
    wrong = (distance > OUTLIER_PX) & (distance > OUTLIER_SHARE * length)
    return Score(1, float(distance.mean()), float(wrong.mean()))


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the means of scores of one pair each, of which there is at least one."""
    values = [(score.end_point_error_px, score.outliers) for score in scores]
    return Score(len(scores), *np.mean(values, axis=0).tolist())


def evaluate(
    estimate: Callable[[Image, Image], Flow], pairs: Iterable[TruePair]
) -> dict[str, Score]:
    """Return the score of an estimator on pairs, by their data sets."""
    scores: dict[str, list[Score]] = defaultdict(list)
    for pair in pairs:
        flow = estimate(pair.first, pair.second)
        scores[pair.dataset].append(score_pair(flow, pair.truth, pair.valid))
    return {dataset: mean_score(of_pairs) for dataset, of_pairs in scores.items()}


def mirrored(pairs: Iterable[TruePair]) -> Iterator[TruePair]:
    """Yield each pair in all MIRRORINGS, as it is first.

    A network that is not quite the same from left to right and from right to left errs by different
    amounts on the four; their mean tells more of it than one, above all where it fails on one pair
    of a few.
    """
    for pair in pairs:
        for horizontally, vertically in MIRRORINGS:
            how = {"horizontally": horizontally, "vertically": vertically}
            yield replace(
                pair,
                first=mirror(pair.first, **how),
                second=mirror(pair.second, **how),
                truth=mirror_flow(pair.truth, **how),
                valid=mirror(pair.valid, **how),
            )


def _distances(estimate: Flow, truth: Flow, valid: Mask | None) -> tuple[Flow, Flow]:
    """Return the error and the true length at each valid pixel, (K,) each, in pixels."""
    if estimate.shape != truth.shape:
        raise ValueError(f"the flows differ in shape: {estimate.shape} and {truth.shape}")
    valid = known_pixels(truth) if valid is None else valid
    if not valid.any():
        raise ValueError("there is no pixel whose true flow is known")
    truth, estimate = truth[valid].astype(np.float64), estimate[valid].astype(np.float64)
    return np.hypot(*(estimate - truth).T), np.hypot(*truth.T)
