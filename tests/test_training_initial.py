"""The weights that a run begins with."""

import pytest
import torch

from pwcflow.training.initial import initial_weights


def test_initial_flow_is_small_and_upsampled_bilinearly():
    state = initial_weights(0)
    assert all(torch.equal(state[name], weight) for name, weight in initial_weights(0).items())
    assert not any(state[name].any() for name in state if name.endswith("bias"))
    hidden = state["decoders.4.dense.2.0.weight"]
    expected = (2 / (1.01 * hidden[0].numel())) ** 0.5
    assert hidden.std().item() == pytest.approx(expected, rel=0.02)
    head = state["decoders.4.flow_head.weight"]
    expected = 0.1 * (2 / (1.01 * head[0].numel())) ** 0.5
    assert head.std().item() == pytest.approx(expected, rel=0.05)
    kernel = state["decoders.3.upsample_flow.weight"]
    line = torch.tensor([0.25, 0.75, 0.75, 0.25])
    assert torch.equal(kernel[0, 0], torch.outer(line, line))
    assert not kernel[0, 1].any()
