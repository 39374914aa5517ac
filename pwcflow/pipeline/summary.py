"""What is told in the end, of a pair and of a video alike."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pwcflow.evaluation import Score, mean_score

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator

LoadEstimator = Callable[[], "FlowEstimator"]
Summary = dict[str, Any]
"""What was done, for a person or `--json`."""


def provenance(estimator: "FlowEstimator") -> Summary:
    """Return what computed the flows."""
    return {
        "weights": estimator.weights.name,
        "weights_sha256": estimator.weights.sha256,
        "device": str(estimator.device),
        "precision": estimator.precision,
        "network_scale": estimator.network_scale,
    }


def shown(viz: Mapping[str, Any] | None) -> Summary:
    """Return how flows are shown, of the settings of a picture or video; Nones without one."""
    settings = viz or {}
    return {name: settings.get(name) for name in ("style", "scale")}


def error_summary(scores: Iterable[Score | None]) -> Summary:
    """Return the means of the scores of flows, and how many have one; Nones where none has."""
    known = [score for score in scores if score]
    values = asdict(mean_score(known)) if known else {}
    means = {name: values.get(name) for name in ("end_point_error_px", "outliers")}
    return means | {"flows_measured": len(known)}


def rounded(number: float | None) -> float | None:
    """Return a number to three decimals, as far as there is one."""
    return None if number is None else round(number, 3)


def text(path: Path | None) -> str | None:
    """Return a path as JSON holds it."""
    return None if path is None else str(path)
