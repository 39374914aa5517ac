"""Flat parameters are the network's own, and AdamW on them is PyTorch's."""

import pytest
import torch
from torch import nn

from pwcflow.training import optimizer as optimizer_module
from pwcflow.training.flat import PIECE_ALIGNMENT, FlatParameters, flatten
from pwcflow.training.optimizer import INITIAL_SCALE, AdamSettings, FlatAdamW

SETTINGS = AdamSettings(weight_decay=1e-2, clip=1.0, ema=0.999)


def small_network(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.ConvTranspose2d(5, 2, 4, stride=2))


def gradients_of(network, size, seed):
    generator = torch.Generator().manual_seed(seed)
    return [size * torch.randn(p.shape, generator=generator) for p in network.parameters()]


def prepared(network, settings=SETTINGS, rate=1e-2):
    optimizer = FlatAdamW(flatten(network), settings)
    optimizer.rate.fill_(rate)
    return optimizer


def feed(optimizer, gradients):
    (part,) = optimizer.parts
    part.store_gradients([gradient * optimizer.scale for gradient in gradients])
    optimizer.step()


def test_parameters_become_channels_last_views_with_the_same_values():
    network, same = small_network(), small_network()
    (part,) = flatten(network)
    for parameter, before in zip(network.parameters(), same.parameters(), strict=True):
        assert torch.equal(parameter, before)
        assert parameter.untyped_storage().data_ptr() == part.values.untyped_storage().data_ptr()
        assert parameter.storage_offset() % PIECE_ALIGNMENT == 0
        if parameter.ndim == 4:
            assert parameter.is_contiguous(memory_format=torch.channels_last)
    part.values.fill_(2.0)
    assert all((parameter == 2.0).all() for parameter in network.parameters())


def test_gradients_land_in_the_flat_tensor():
    network = small_network()
    (part,) = flatten(network)
    loss = network(torch.rand(1, 3, 8, 8)).square().sum()
    expected = torch.autograd.grad(loss, part.parameters)
    part.gradient.fill_(7.0)
    part.store_gradients(expected)
    pieces = part.named(part.gradient)
    assert list(pieces) == [name for name, _ in network.named_parameters()]
    for piece, view, gradient in zip(pieces.values(), part.gradients, expected, strict=True):
        assert torch.equal(piece, gradient)
        assert view.data_ptr() == piece.data_ptr()
        assert view.stride() == piece.stride()


def test_each_dtype_has_its_own_tensor():
    network = small_network()
    network[0].half()
    half, single = flatten(network)
    assert (half.dtype, single.dtype) == (torch.float16, torch.float32)
    assert (len(half.parameters), len(single.parameters)) == (2, 2)
    with pytest.raises(ValueError, match="one dtype"):
        FlatParameters(dict(network.named_parameters()))


@pytest.mark.parametrize("size", [0.01, 5.0], ids=["small", "clipped"])
def test_steps_equal_those_of_pytorch(size):
    network, other = small_network(), small_network()
    optimizer = prepared(network)
    expected = torch.optim.AdamW(other.parameters(), 1e-2, weight_decay=1e-2)
    for seed in range(6):
        gradients = gradients_of(other, size, seed)
        for parameter, gradient in zip(other.parameters(), gradients, strict=True):
            parameter.grad = gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        expected.step()
        feed(optimizer, gradients)
        torch.testing.assert_close(optimizer.norm, norm)
        for ours, theirs in zip(network.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


def test_half_precision_keeps_float32_weights_beside_it():
    network = small_network().half()
    optimizer = prepared(network, rate=1e-6)  # far less than float16 can add
    before = [parameter.clone() for parameter in network.parameters()]
    feed(optimizer, [g.half() for g in gradients_of(network, 1e-3, 0)])
    state = optimizer.state()["weights"]
    for (name, parameter), old in zip(network.named_parameters(), before, strict=True):
        assert not torch.equal(state[name], old.float())
        assert torch.equal(state[name].half(), parameter)


def test_the_average_follows_faster_at_first():
    network = small_network()
    optimizer = prepared(network)
    average = optimizer.average()["0.weight"]
    for update in range(3):
        feed(optimizer, gradients_of(network, 0.1, update))
        decay = (1 + update) / (10 + update)
        average = decay * average + (1 - decay) * network[0].weight.detach()
        torch.testing.assert_close(optimizer.average()["0.weight"], average)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("updates_before", [0, 2])
def test_a_gradient_that_is_not_finite_changes_only_the_scale(value, updates_before):
    network = small_network()
    optimizer = prepared(network)
    for seed in range(updates_before):
        feed(optimizer, gradients_of(network, 0.1, seed))
    before = optimizer.state()
    bad = gradients_of(network, 0.1, 9)
    bad[0][0, 0, 0, 0] = value
    feed(optimizer, bad)
    after = optimizer.state()
    for slot in ("weights", "average", "first_moment", "second_moment"):
        assert all(torch.equal(after[slot][name], before[slot][name]) for name in before[slot])
    assert optimizer.scale.item() == INITIAL_SCALE / 2
    assert optimizer.updates.item() == updates_before
    assert not optimizer.finite
    feed(optimizer, gradients_of(network, 0.1, 3))
    assert optimizer.updates.item() == updates_before + 1
    assert all(parameter.isfinite().all() for parameter in network.parameters())


def test_the_scale_doubles_after_enough_good_steps_up_to_its_limit(monkeypatch):
    monkeypatch.setattr(optimizer_module, "STEPS_BEFORE_GROWTH", 2)
    network = small_network()
    optimizer = prepared(network)
    scales = []
    for seed in range(7):
        feed(optimizer, gradients_of(network, 0.1, seed))
        scales.append(optimizer.scale.item() / INITIAL_SCALE)
    assert scales == [1, 2, 2, 4, 4, 4, 4]


def test_the_scale_has_a_floor():
    network = small_network()
    optimizer = prepared(network)
    for _ in range(20):
        feed(optimizer, [torch.full_like(p, float("nan")) for p in network.parameters()])
    assert optimizer.scale.item() == 1.0


def test_a_restored_state_goes_on_bit_for_bit():
    network, other = small_network(), small_network(1)
    optimizer, resumed = prepared(network), prepared(other)
    feed(optimizer, gradients_of(network, 1.0, 0))
    resumed.restore(optimizer.state())
    for seed in (1, 2):
        feed(optimizer, gradients_of(network, 1.0, seed))
        feed(resumed, gradients_of(network, 1.0, seed))
    for ours, theirs in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)
