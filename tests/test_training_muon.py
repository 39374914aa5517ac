"""Muon is what its papers say, on the matrices meant for it, and AdamW elsewhere."""

import pytest
import torch
from torch import nn

from pwcflow.aligned import AlignedPwcNet, align_state, unalign_state
from pwcflow.training.flat import flatten
from pwcflow.training.initial import initial_weights
from pwcflow.training.muon import FlatMuon, matrix_names, orthogonalizers
from pwcflow.training.optimizer import INITIAL_SCALE, AdamSettings, FlatAdamW

SETTINGS = AdamSettings(weight_decay=1e-2, clip=1.0, ema=0.999)
RATE = 1e-2


def small_network(seed=0):
    """Return a network with matrices of equal, other, and more rows than columns, and others."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 5, 3),
            nn.Conv2d(5, 5, 3),
            nn.Conv2d(5, 12, 1),
            nn.ConvTranspose2d(12, 3, 4, stride=2),
            nn.Conv2d(3, 2, 3),
        )


MATRICES = {"0.weight", "1.weight", "2.weight"}


def prepared(network, settings=SETTINGS, rate=RATE):
    optimizer = FlatMuon.of(network, settings)
    optimizer.rate.fill_(rate)
    return optimizer


def random_gradients(network, size, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: size * torch.randn(parameter.shape, generator=generator)
        for name, parameter in network.named_parameters()
    }


def feed(optimizer, gradients):
    for part in optimizer.parts:
        for name, piece in part.named(part.gradient).items():
            piece.copy_(gradients[name] * optimizer.scale)
    optimizer.step()


def orthogonalized(matrix):
    """Return five steps of the iteration, as the papers write it."""
    x = matrix.double()
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def matrix_with(singular_values, columns, seed=0):
    rows = len(singular_values)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
    u, _, v = torch.linalg.svd(noise, full_matrices=False)
    return (u * singular_values.double() @ v).float()


SPECTRA = {  # and how far off float32 may be, by the norm: what X X^T loses is the difference
    "one decade": (torch.logspace(0, -1, 32), 1e-5),
    "four decades": (torch.logspace(0, -4, 32), 1e-3),
    "of rank 8": (torch.cat((torch.linspace(1, 2, 8), torch.zeros(24))), 1e-3),
    "of rank 1": (torch.cat((torch.ones(1), torch.zeros(31))), 1e-3),
}


@pytest.mark.parametrize("columns", [40, 5184])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_orthogonalizers_do_what_the_iteration_does(spectrum, columns):
    values, tolerance = SPECTRA[spectrum]
    matrices = [matrix_with(values, columns, seed) for seed in (0, 1)]
    found = orthogonalizers(torch.stack([matrix @ matrix.T for matrix in matrices]))
    for matrix, q in zip(matrices, found, strict=True):
        expected = orthogonalized(matrix)
        error = (q @ matrix - expected).norm() / expected.norm()
        assert error < tolerance
        assert (q @ matrix - expected).abs().max() < 3e-4


def test_orthogonalizers_do_without_rounding_errors_the_same():
    matrix = matrix_with(torch.logspace(0, -4, 16), 72).double()
    (q,) = orthogonalizers((matrix @ matrix.T)[None])
    torch.testing.assert_close(q @ matrix, orthogonalized(matrix), rtol=0, atol=1e-9)


def test_orthogonalizers_of_nothing_are_finite():
    assert orthogonalizers(torch.zeros(2, 16, 16)).isfinite().all()


def test_matrices_are_the_convolutions_between_features():
    assert matrix_names(small_network()) == MATRICES
    network = AlignedPwcNet()
    names = matrix_names(network)
    assert len(names) == 18 + 25 + 6  # of the pyramid, the dense blocks and the context network
    weights = dict(network.named_parameters())
    assert all(weights[name][0].numel() >= len(weights[name]) for name in names)
    assert not any("flow" in name or "upsample" in name for name in names)
    assert not {"context.12.weight", "context.0.bias"} & names


@pytest.mark.parametrize("size", [0.01, 5.0], ids=["small", "clipped"])
def test_steps_equal_those_of_a_plain_loop(size):
    network, other = small_network(), small_network()
    optimizer = prepared(network)
    weights = {
        name: p.detach().double() for name, p in other.named_parameters() if name in MATRICES
    }
    momentum = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    rest = [p for name, p in other.named_parameters() if name not in MATRICES]
    adam = torch.optim.AdamW(rest, RATE, weight_decay=1e-2)
    for seed in range(4):
        gradients = random_gradients(other, size, seed)
        for name, parameter in other.named_parameters():
            parameter.grad = gradients[name].clone()
        norm = torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        adam.step()
        for name, weight in weights.items():
            gradient = other.get_parameter(name).grad.double()
            momentum[name] = 0.95 * momentum[name] + gradient
            direction = (gradient + 0.95 * momentum[name]).flatten(1)
            orthogonal = orthogonalized(direction).view(weight.shape)
            step = 0.2 * max(direction.shape) ** 0.5 * orthogonal
            weights[name] = weight * (1 - RATE * 1e-2) - RATE * step
        feed(optimizer, gradients)
        torch.testing.assert_close(optimizer.norm, norm)
        for name, parameter in network.named_parameters():
            expected = weights.get(name, other.get_parameter(name).detach())
            torch.testing.assert_close(parameter.double(), expected.double(), rtol=1e-5, atol=1e-6)


def test_a_step_is_as_long_as_one_of_adamw():
    network, other = (nn.Conv2d(64, 32, 3, bias=False) for _ in range(2))
    lengths = []
    for module, kind in ((network, FlatMuon.of), (other, lambda n, s: FlatAdamW(flatten(n), s))):
        optimizer = kind(module, AdamSettings(weight_decay=0.0, clip=1e9, ema=0.9))
        optimizer.rate.fill_(1.0)
        before = module.weight.detach().clone()
        for seed in range(100):
            before.copy_(module.weight.detach())
            feed(optimizer, random_gradients(module, 1.0, seed))
        lengths.append((module.weight.detach() - before).square().mean().sqrt().item())
    muon, adam = lengths
    assert muon == pytest.approx(0.2, rel=0.2)
    assert adam == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("updates_before", [0, 2])
def test_a_gradient_that_is_not_finite_changes_only_the_scale(value, updates_before):
    network = small_network()
    optimizer = prepared(network)
    for seed in range(updates_before):
        feed(optimizer, random_gradients(network, 0.1, seed))
    before = optimizer.state()
    bad = random_gradients(network, 0.1, 9)
    bad["1.weight"][0, 0, 0, 0] = value
    feed(optimizer, bad)
    after = optimizer.state()
    for slot in ("weights", "average", "first_moment", "second_moment"):
        assert all(torch.equal(after[slot][name], before[slot][name]) for name in before[slot])
    assert optimizer.scale.item() == INITIAL_SCALE / 2
    assert optimizer.updates.item() == updates_before
    feed(optimizer, random_gradients(network, 0.1, 3))
    assert optimizer.updates.item() == updates_before + 1
    assert all(parameter.isfinite().all() for parameter in network.parameters())


def test_gaps_stay_zero():
    network = AlignedPwcNet()
    optimizer = prepared(network)
    optimizer.start(align_state(initial_weights(0)))
    for seed in range(2):
        gradients = unalign_state(random_gradients(network, 1e-3, seed))  # takes the gaps out
        feed(optimizer, align_state(gradients))
    state = optimizer.state()
    for slot in ("weights", "average", "first_moment"):
        again = align_state(unalign_state(state[slot]))
        assert all(torch.equal(again[name], tensor) for name, tensor in state[slot].items())
    assert not torch.equal(
        state["weights"]["context.0.weight"], state["average"]["context.0.weight"]
    )


def test_the_memory_between_pieces_stays_zero():
    network = small_network()
    optimizer = prepared(network)
    feed(optimizer, random_gradients(network, 0.1, 0))
    for flat, part in zip(optimizer.flats(), optimizer.parts * 4, strict=True):
        for piece in part.named(flat).values():
            piece.zero_()
        assert not flat.any()


def test_half_precision_keeps_float32_weights_beside_it():
    network = small_network().half()
    optimizer = prepared(network, rate=1e-6)  # far less than float16 can add
    before = {name: parameter.float() for name, parameter in network.named_parameters()}
    feed(optimizer, {n: g.half() for n, g in random_gradients(network, 1e-3, 0).items()})
    state = optimizer.state()["weights"]
    for name, parameter in network.named_parameters():
        assert not torch.equal(state[name], before[name])
        assert torch.equal(state[name].half(), parameter)


def test_a_restored_state_goes_on_bit_for_bit():
    network, other = small_network(), small_network(1)
    optimizer, resumed = prepared(network), prepared(other)
    feed(optimizer, random_gradients(network, 1.0, 0))
    resumed.restore(optimizer.state())
    for seed in (1, 2):
        for each in (optimizer, resumed):
            feed(each, random_gradients(network, 1.0, seed))
    state, again = optimizer.state(), resumed.state()
    for slot, tensors in state.items():
        assert all(torch.equal(again[slot][name], tensor) for name, tensor in tensors.items())
    assert all(not state["second_moment"][name].any() for name in MATRICES)


def test_a_quadratic_loss_falls_with_each_step():
    network = small_network()
    optimizer = prepared(network, rate=1e-3)
    targets = random_gradients(network, 1.0, 0)
    losses = []
    for _ in range(3):
        errors = {name: p.detach() - targets[name] for name, p in network.named_parameters()}
        losses.append(sum(errors[name].square().sum().item() for name in MATRICES))
        feed(optimizer, errors)
    assert losses[0] > losses[1] > losses[2]


def test_the_precision_of_products_is_left_as_it_was():
    network = small_network()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        feed(prepared(network), random_gradients(network, 0.1, 0))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
def test_a_replayed_graph_steps_like_the_cpu():
    networks = [small_network(), small_network().cuda()]
    plain, captured = (prepared(network) for network in networks)
    state = captured.state()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        captured.step()
    torch.cuda.synchronize()
    captured.restore(state)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        captured.step()
    for seed in range(3):
        gradients = random_gradients(networks[0], 0.1, seed)
        feed(plain, gradients)
        for part in captured.parts:
            for name, piece in part.named(part.gradient).items():
                piece.copy_(gradients[name].cuda() * captured.scale)
        graph.replay()
    for ours, theirs in zip(*(network.parameters() for network in networks), strict=True):
        torch.testing.assert_close(theirs.cpu(), ours, rtol=1e-4, atol=1e-5)
