"""Flow estimated for pairs whose true flow is known, and how far it is from that."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from pwcflow.datasets import find_pairs, read_true_pair
from pwcflow.evaluation import MIRRORINGS, evaluate, mirrored
from pwcflow.flow_file import Flow
from pwcflow.overlap import prefetch
from pwcflow.pipeline.summary import LoadEstimator, Summary, provenance, rounded
from pwcflow.progress import progress_bar


def evaluate_pairs(
    load_estimator: LoadEstimator,
    sources: Sequence[tuple[str, Path]],
    *,
    mirror: bool = False,
    progress: bool,
) -> Summary:
    """Return the errors of an estimator, by data set.

    Args:
        load_estimator: returns the estimator to use.
        sources: kinds and folders, as `find_pairs` takes them. Of a kind given more than once the
            folder is part of the data set's name; lists name theirs.
        mirror: whether each pair counts four times, in all mirrorings; see `mirrored`.
        progress: whether to show a progress bar.

    Raises:
        PwcFlowError: there are no pairs, or one cannot be read.
    """
    started = time.monotonic()
    given = Counter(kind for kind, _ in sources)
    pairs = []
    for kind, folder in sources:
        found = find_pairs(kind, folder)
        if given[kind] > 1 and kind != "manifest":
            found = [replace(pair, dataset=f"{pair.dataset} {folder}") for pair in found]
        pairs += found
    estimator = load_estimator()
    times = len(MIRRORINGS) if mirror else 1
    with (
        closing(prefetch(partial(read_true_pair, pair) for pair in pairs)) as true_pairs,
        progress_bar(times * len(pairs), progress, unit="pair") as bar,
    ):

        def estimate(*images: Any) -> Flow:
            flow = estimator(*images)
            bar.update()
            return flow

        scores = evaluate(estimate, mirrored(true_pairs) if mirror else true_pairs)
    return {
        "scores": {
            dataset: asdict(replace(score, pairs=score.pairs // times))
            for dataset, score in scores.items()
        },
        "mirrored": mirror,
        **provenance(estimator),
        "seconds": rounded(time.monotonic() - started),
    }
