"""How long the network takes on a CPU, beside its convolutions alone; prints one JSON object.

Run from the top of a checkout, on a quiet machine: python -m tests.benchmarks.cpu
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pwcflow import network
from pwcflow.bench.machine import processor_name
from pwcflow.network import PwcNet
from pwcflow.weights import load_weights
from tests.benchmarks.machine import described

HEIGHT, WIDTH = 448, 1024
REPEATS = 11


def main() -> None:
    """Print the median seconds of a 1024 x 448 pair, and their ratio, by precision."""
    state = load_weights("default").state
    first = torch.rand(1, 3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(0))
    second = first.roll(3, dims=3)
    results = {}
    for dtype in (torch.float32, torch.bfloat16):
        model = PwcNet().eval().requires_grad_(False)
        model.load_state_dict(state)
        model.set_precision(dtype)
        pair = first.to(dtype), second.to(dtype)
        whole, alone = _median_seconds(lambda model=model, pair=pair: model(*pair))
        results[str(dtype)] = {
            "whole_network_seconds": round(whole, 3),
            "without_cost_volume_and_warp_seconds": round(alone, 3),
            "ratio": round(whole / alone, 3),
        }
    print(
        json.dumps(
            {
                "machine": described()
                | {"cpu": processor_name(), "threads": torch.get_num_threads()},
                "pair": f"{WIDTH} x {HEIGHT}",
                **results,
            },
            indent=2,
        )
    )


@contextmanager
def _convolutions_alone() -> Iterator[None]:
    """Let the network take zeros for its cost volume and the feature itself for its warp."""
    before = network.cost_volume, network.backward_warp

    def zeros(first: Tensor, second: Tensor) -> Tensor:
        n, _, h, w = first.shape
        return first.new_zeros(n, network.COST_VOLUME_CHANNELS, h, w)

    network.cost_volume, network.backward_warp = zeros, lambda feature, flow: feature
    try:
        yield
    finally:
        network.cost_volume, network.backward_warp = before


def _median_seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Return the median times of the network and of its convolutions, measured in turns."""
    whole, alone = [], []
    with torch.inference_mode():
        run()
        for _ in range(REPEATS):
            whole.append(_seconds(run))
            with _convolutions_alone():
                alone.append(_seconds(run))
    return statistics.median(whole), statistics.median(alone)


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
