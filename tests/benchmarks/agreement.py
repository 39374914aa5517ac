"""How far the CUDA path is from the references; prints one JSON object.

Run on a machine with a GPU, from the top of a checkout:
python -m tests.benchmarks.agreement [WEIGHTS]
The evaluation pairs are used where they lie beside the checkout.
"""

import argparse
import json
import sys
from collections import defaultdict

import numpy as np
import torch

from pwcflow import FlowEstimator
from pwcflow.datasets import find_pairs, read_true_pair
from pwcflow.evaluation import end_point_error
from pwcflow.ops import cost_volume, reference
from pwcflow.ops.cost_volume_cuda import kernels_for
from pwcflow.weights import load_weights
from tests.benchmarks.machine import described
from tests.conftest import SHARED
from tests.features import SHAPES, TOLERANCES, features, relative_error


def cost_volume_errors() -> dict[str, dict[str, float]]:
    """Return the largest relative error over the shapes, by dtype and result."""
    found = {}
    for dtype in TOLERANCES:
        errors = defaultdict(float)
        for shape in SHAPES:
            first, second = features(shape, "cuda", dtype, requires_grad=True)
            volume = cost_volume(first, second)
            grad = torch.randn_like(volume)
            volume.backward(grad)
            wide = first.detach().double().cpu(), second.detach().double().cpu()
            gradients = reference.cost_volume_backward(grad.double().cpu(), *wide)
            for name, actual, expected in [
                ("forward", volume, reference.cost_volume(*wide)),
                ("gradient_first", first.grad, gradients[0]),
                ("gradient_second", second.grad, gradients[1]),
            ]:
                errors[name] = max(errors[name], relative_error(actual, expected))
        found[str(dtype)] = dict(errors)
    return found


def network_errors(weights: str) -> dict[str, object]:
    """Return end-point errors by data set, and how far precisions are from each other.

    Differences are those of x and y, not distances.
    """
    estimators = {
        "cpu": FlowEstimator(weights, device="cpu"),
        **{
            name: FlowEstimator(weights, device="cuda", precision=name)
            for name in ("fp32", "fp16", "bf16")
        },
    }
    errors = defaultdict(lambda: defaultdict(list))
    largest, mean = defaultdict(float), defaultdict(list)
    from_fp32 = defaultdict(dict)
    for pair in map(read_true_pair, find_pairs("manifest", SHARED / "eval" / "MANIFEST.csv")):
        flows = {name: estimate(pair.first, pair.second) for name, estimate in estimators.items()}
        for name, flow in flows.items():
            errors[name][pair.dataset].append(end_point_error(flow, pair.truth, pair.valid))
            if name == "cpu":
                continue
            difference = np.abs(flow - flows["cpu"])
            largest[name] = max(largest[name], float(difference.max()))
            mean[name].append(float(difference.mean()))
            if name != "fp32":
                difference = np.abs(flow - flows["fp32"])
                from_fp32[name][f"{pair.dataset}/{pair.name}"] = float(difference.mean())
    return {
        "end_point_error_px": {
            name: {dataset: round(float(np.mean(values)), 4) for dataset, values in sets.items()}
            for name, sets in errors.items()
        },
        "largest_difference_from_cpu_px": dict(largest),
        "mean_difference_from_cpu_px": {name: float(np.mean(v)) for name, v in mean.items()},
        "mean_difference_from_fp32_px": {
            name: float(np.mean(list(pairs.values()))) for name, pairs in from_fp32.items()
        },
        "mean_difference_from_fp32_px_by_pair": from_fp32,
    }


def missing_kernels() -> str | None:
    """Return why there is nothing to measure here, in one sentence; None where there is."""
    if not torch.cuda.is_available():
        return "there is no GPU here"
    missing = [
        str(dtype)
        for dtype in TOLERANCES
        if kernels_for(torch.empty(0, dtype=dtype, device="cuda")) is None
    ]
    if missing:
        return f"the kernels do not load for {', '.join(missing)}: this would measure plain PyTorch"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", nargs="?", default="default", help="as `--weights` takes them")
    chosen = parser.parse_args()
    if reason := missing_kernels():
        sys.exit(f"error: {reason}")
    weights = load_weights(chosen.weights).provenance
    result = {
        "machine": described(),
        "weights": {"name": weights.name, "sha256": weights.sha256},
        "cost_volume_relative_error": cost_volume_errors(),
    }
    if (SHARED / "eval").is_dir():
        result["network"] = network_errors(chosen.weights)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
