"""How far the CUDA path is from the references; prints one JSON object.

Run on a machine with a GPU, from the top of a checkout: python -m tests.benchmarks.agreement
The evaluation pairs are used where they lie beside the checkout.
"""

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


def network_errors() -> dict[str, object]:
    """Return end-point errors by data set, and how far each GPU precision is from the CPU."""
    cpu = FlowEstimator(device="cpu")
    gpus = {name: FlowEstimator(device="cuda", precision=name) for name in ("fp32", "fp16", "bf16")}
    errors = defaultdict(lambda: defaultdict(list))
    largest, mean = defaultdict(float), defaultdict(list)
    for pair in map(read_true_pair, find_pairs("manifest", SHARED / "eval" / "MANIFEST.csv")):
        expected = cpu(pair.first, pair.second)
        errors["cpu"][pair.dataset].append(end_point_error(expected, pair.truth, pair.valid))
        for name, estimator in gpus.items():
            flow = estimator(pair.first, pair.second)
            errors[name][pair.dataset].append(end_point_error(flow, pair.truth, pair.valid))
            difference = np.abs(flow - expected)
            largest[name] = max(largest[name], float(difference.max()))
            mean[name].append(float(difference.mean()))
    return {
        "end_point_error_px": {
            name: {dataset: round(float(np.mean(values)), 4) for dataset, values in sets.items()}
            for name, sets in errors.items()
        },
        "largest_difference_from_cpu_px": dict(largest),
        "mean_difference_from_cpu_px": {name: float(np.mean(v)) for name, v in mean.items()},
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


if __name__ == "__main__":
    if reason := missing_kernels():
        sys.exit(f"error: {reason}")
    result = {"machine": described(), "cost_volume_relative_error": cost_volume_errors()}
    if (SHARED / "eval").is_dir():
        result["network"] = network_errors()
    print(json.dumps(result, indent=2))
