"""Flow estimated for pairs whose true flow is known, and how far it is from that."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pwcflow.evaluation import TruePair, check_manifest, evaluate, manifest_rows, read_manifest
from pwcflow.flow_file import Flow
from pwcflow.pipeline.summary import LoadEstimator, Summary, provenance, rounded
from pwcflow.progress import progress_bar

if TYPE_CHECKING:
    from pwcflow.training.datasets import PairFiles

MANIFEST = "manifest"


def evaluate_pairs(
    load_estimator: LoadEstimator, sources: Sequence[tuple[str, Path]], *, progress: bool
) -> Summary:
    """Return the errors of an estimator, by data set.

    Args:
        load_estimator: returns the estimator to use.
        sources: a kind and where it lies, as `training.datasets.find_pairs` takes them. The pairs
            of a manifest are of the data sets that it names.
        progress: whether to show a progress bar.

    Raises:
        PwcFlowError: there are no pairs, or one cannot be read.
    """
    started = time.monotonic()
    found = [_found(kind, path) for kind, path in sources]
    estimator = load_estimator()
    with progress_bar(sum(count for count, _ in found), progress, unit="pair") as bar:

        def estimate(*images: Any) -> Flow:
            flow = estimator(*images)
            bar.update()
            return flow

        scores = evaluate(estimate, chain.from_iterable(pairs() for _, pairs in found))
    return {
        "data_sets": {name: asdict(score) for name, score in scores.items()},
        **provenance(estimator),
        "seconds": rounded(time.monotonic() - started),
    }


def _found(kind: str, path: Path) -> tuple[int, Callable[[], Iterator[TruePair]]]:
    """Return how many pairs there are, and what yields them."""
    if kind == MANIFEST:
        check_manifest(path)
        return len(manifest_rows(path)), lambda: read_manifest(path)
    from pwcflow.training.datasets import find_pairs

    files = find_pairs(kind, path)
    return len(files), lambda: (_true_pair(kind, pair) for pair in files)


def _true_pair(kind: str, pair: "PairFiles") -> TruePair:
    from pwcflow.training.datasets import read_pair

    sample = read_pair(pair)
    dataset = f"{kind} {pair.rendering}".rstrip()
    return TruePair(
        dataset, str(pair.first), sample.first, sample.second, sample.flow, sample.valid
    )
