"""The shipped weights on pairs with true flow: the recorded errors, on the CPU and on a GPU."""

from collections import defaultdict

import numpy as np
import pytest

from pwcflow import FlowEstimator
from pwcflow.evaluation import end_point_error, read_manifest

# Mean end-point error in pixels over each data set's pairs, as recorded when the shipped weights
# were trained; see pwcflow/weights/default.md.
RECORDED = {
    "middlebury": 0.5659,
    "sintel_clean": 5.0517,
    "sintel_final": 3.1371,
    "kitti2012": 0.8061,
    "flyingchairs": 2.8000,
}


@pytest.fixture(scope="module")
def evaluation_pairs(shared):
    return list(read_manifest(shared / "eval" / "MANIFEST.csv"))


def mean_errors(flows, evaluation_pairs):
    errors = defaultdict(list)
    for flow, pair in zip(flows, evaluation_pairs, strict=True):
        errors[pair.dataset].append(end_point_error(flow, pair.truth, pair.valid))
    return {dataset: float(np.mean(values)) for dataset, values in errors.items()}


@pytest.fixture(scope="module")
def flows_on_cpu(evaluation_pairs):
    estimator = FlowEstimator(device="cpu")
    return [estimator(pair.first, pair.second) for pair in evaluation_pairs]


def test_end_point_errors_on_the_cpu_are_those_recorded(flows_on_cpu, evaluation_pairs):
    assert mean_errors(flows_on_cpu, evaluation_pairs) == pytest.approx(RECORDED, abs=1e-3)


def test_a_checkpoint_in_the_public_layout_has_its_own_recorded_error(shared, evaluation_pairs):
    weights = shared / "weights" / "bootstrap_public_layout_fp16.pt"
    estimator = FlowEstimator(weights, device="cpu")
    pairs = [pair for pair in evaluation_pairs if pair.dataset == "flyingchairs"]
    flows = [estimator(pair.first, pair.second) for pair in pairs]
    assert mean_errors(flows, pairs) == pytest.approx({"flyingchairs": 3.0712}, abs=1e-3)


@pytest.mark.gpu
def test_the_gpu_agrees_with_the_cpu_on_every_pair(flows_on_cpu, evaluation_pairs):
    estimator = FlowEstimator(device="cuda")
    largest = {}
    for expected, pair in zip(flows_on_cpu, evaluation_pairs, strict=True):
        flow = estimator(pair.first, pair.second)
        largest[f"{pair.dataset}/{pair.name}"] = float(np.abs(flow - expected).max())
    print(largest)
    assert max(largest.values()) <= 1e-3


@pytest.mark.gpu
def test_pairs_alone_equal_pairs_in_a_batch_on_the_gpu(evaluation_pairs):
    estimator = FlowEstimator(device="cuda")
    by_size = defaultdict(list)
    for pair in evaluation_pairs:
        by_size[pair.first.shape].append(pair)
    for group in by_size.values():
        batch = estimator(np.stack([p.first for p in group]), np.stack([p.second for p in group]))
        for flow, pair in zip(batch, group, strict=True):
            assert np.abs(flow - estimator(pair.first, pair.second)).max() <= 1e-3, pair.name


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "bound"), [("fp16", 0.02), ("bf16", 0.2)])
def test_half_precision_stays_near_float32(precision, bound, evaluation_pairs):
    exact, half = FlowEstimator(device="cuda"), FlowEstimator(device="cuda", precision=precision)
    differences = [
        np.abs(half(p.first, p.second) - exact(p.first, p.second)).mean() for p in evaluation_pairs
    ]
    print(precision, np.mean(differences), np.max(differences))
    assert np.mean(differences) <= bound
