"""How long flows, recorded graphs and the memory of an estimator live."""

import gc
from itertools import pairwise

import numpy as np
import pytest
import torch

from pwcflow import FlowEstimator
from pwcflow.inference.gpu_flow import GRAPHS_KEPT
from tests.gpu_flow.checks import HEIGHT, check
from tests.moving_textures import estimator

pytestmark = pytest.mark.gpu


def test_a_pair_s_flow_is_not_overwritten_by_the_next_one_s(gpu, frames):
    flow = gpu(*frames[:2])
    before = flow.copy()
    gpu(*frames[2:4])
    assert np.array_equal(flow, before)
    assert np.array_equal(gpu(*frames[:2]), before)


def test_flows_are_not_overwritten_by_later_ones(gpu, frames):
    kept = [(flow, flow.copy()) for flow in gpu.flows(frames)]
    list(gpu.flows(frames[::-1]))
    assert all(np.array_equal(flow, copy) for flow, copy in kept)


def test_flows_stay_when_nothing_else_is_left(frames, expected):
    flows = list(FlowEstimator(device="cuda").flows(frames[:5]))
    gc.collect()
    torch.cuda.empty_cache()
    check(flows, expected[:4])


def test_graphs_are_kept_for_the_last_sizes_and_no_more(frames):
    gpu = FlowEstimator(device="cuda")

    def reserved(crops):
        """Use images of sizes of their own, and return how much memory is taken after it."""
        for crop in crops:
            pair = [np.ascontiguousarray(frame[crop:]) for frame in frames[:2]]
            right = [estimator()(*pair)]
            check([gpu(*pair)], right)
            check([gpu(*pair)], right)
            check(list(gpu.flows(pair)), right)
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    before = reserved(range(GRAPHS_KEPT))
    after = reserved(range(GRAPHS_KEPT, 2 * GRAPHS_KEPT + 2))
    assert len(gpu._gpu._idle) == GRAPHS_KEPT
    assert after <= before + (32 << 20)
    assert max(batch.height for batch in gpu._gpu._idle) <= HEIGHT - 2 * GRAPHS_KEPT


def test_the_memory_of_an_estimator_is_given_back_with_it(frames):
    def used():
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    def use():
        gpu = FlowEstimator(device="cuda")
        for pair in pairwise(frames[:3]):
            gpu(*pair)
        list(gpu.flows(frames[:3]))

    use()
    before = used()
    for _ in range(3):
        use()
    assert used() <= before + (32 << 20)
