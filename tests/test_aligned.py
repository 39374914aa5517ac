"""The aligned network is the plain one: same flow, same gradients, same weights but for zeros."""

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from pwcflow.aligned import AlignedPwcNet, align_state, unalign_state
from pwcflow.network import PwcNet
from pwcflow.weights import load_weights

from .test_network import images


@pytest.fixture(scope="module")
def state():
    return load_weights("default").state


def plain(state):
    network = PwcNet()
    network.load_state_dict(state)
    return network


def aligned(state):
    network = AlignedPwcNet()
    network.load_state_dict(align_state(state))
    return network


def gaps(state):
    """Return the state's gaps: where ones that went through PwcNet's shapes come back as zeros."""
    ones = {key: torch.ones_like(value) for key, value in state.items()}
    return {key: value == 0 for key, value in align_state(unalign_state(ones)).items()}


def with_noise_in_the_gaps(state):
    torch.manual_seed(3)
    return {
        key: torch.where(gap, torch.randn_like(state[key]), state[key])
        for key, gap in gaps(state).items()
    }


class Convolutions(TorchFunctionMode):
    """Collects what every convolution sees."""

    def __init__(self):
        super().__init__()
        self.inputs = []
        self.biases = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.conv2d:
            self.inputs.append(args[0])
            self.biases += args[2] is not None
        return function(*args, **(kwargs or {}))


def relative_error(actual, expected):
    return float((actual - expected).abs().max() / expected.abs().max())


@torch.no_grad()
def test_flows_are_the_plain_network_s_at_every_level(state):
    # In double: the coarse levels' flow is so small that it is a difference of large numbers.
    first, second = (image.double() for image in images(1, 128, 192))
    expected = plain(state).double()(first, second)
    flows = aligned(state).double()(torch.cat((first, second)))
    assert [f.shape for f in flows] == [f.shape for f in expected]
    assert expected[-1].abs().max() > 0.1
    assert max(map(relative_error, flows, expected)) < 1e-9


@torch.no_grad()
def test_a_batch_is_pairs_of_first_and_second_images(state):
    first, second = (image.double() for image in images(2, 64, 128))
    flows = aligned(state).double()(torch.cat((first, second)))
    assert max(map(relative_error, flows, plain(state).double()(first, second))) < 1e-9


@torch.no_grad()
def test_images_may_bring_their_zeros(state):
    network = aligned(state)
    pairs = torch.cat(images(1, 64, 128))
    padded = torch.cat((pairs, torch.zeros(2, 5, 64, 128)), dim=1)
    for flow, other in zip(network(pairs), network(padded), strict=True):
        assert torch.equal(flow, other)


def test_parameters_have_the_plain_network_s_names_in_its_order(state):
    assert list(AlignedPwcNet().state_dict()) == list(PwcNet().state_dict())


def test_states_go_there_and_back_unchanged(state):
    back = unalign_state(align_state(state))
    assert list(back) == list(state)
    assert all(torch.equal(back[key], value) for key, value in state.items())
    assert all(value.is_contiguous() for value in back.values())


def test_states_of_channels_last_networks_come_back_contiguous(state):
    back = unalign_state(aligned(state).state_dict())
    assert all(torch.equal(back[key], value) for key, value in state.items())
    assert all(value.is_contiguous() for value in back.values())


def test_what_the_gaps_hold_is_lost_on_the_way_back(state):
    noisy = with_noise_in_the_gaps(align_state(state))
    assert any(not torch.equal(noisy[key], value) for key, value in align_state(state).items())
    back = unalign_state(noisy)
    assert all(torch.equal(back[key], value) for key, value in state.items())


@torch.no_grad()
def test_what_the_gaps_hold_changes_no_flow(state):
    pairs = torch.cat(images(1, 64, 128))
    network = aligned(state)
    expected = network(pairs)
    network.load_state_dict(with_noise_in_the_gaps(align_state(state)))
    for flow, other in zip(network(pairs), expected, strict=True):
        assert torch.equal(flow, other)


def test_a_new_network_has_zeros_in_its_gaps():
    state = AlignedPwcNet().state_dict()
    assert not any(state[key][gap].any() for key, gap in gaps(state).items())
    assert sum(int(gap.sum()) for gap in gaps(state).values()) > 0


def test_gradients_are_the_plain_network_s_and_zero_in_the_gaps(state):
    # In float64: in float32 the kinks of LeakyReLU and of the warp's edge, crossed by rounding,
    # change the plain network's own gradients by some 1e-3.
    first, second = (image.double() for image in images(1, 128, 192))
    networks = plain(state).double(), aligned(state).double()
    networks[1].load_state_dict(with_noise_in_the_gaps(networks[1].state_dict()))
    flows = networks[0](first, second), networks[1](torch.cat((first, second)))
    for levels in flows:
        sum(flow.square().sum() for flow in levels).backward()
    expected, found = ({k: p.grad for k, p in n.named_parameters()} for n in networks)
    assert not any(found[key][gap].any() for key, gap in gaps(found).items())
    found = unalign_state(found)
    assert {k for k in found if relative_error(found[k], expected[k]) > 1e-10} == set()


def test_convolutions_see_multiples_of_8_channels_but_for_the_coarsest_features():
    odd = {
        name: module.in_channels
        for name, module in AlignedPwcNet().named_modules()
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d) and module.in_channels % 8
    }
    assert odd == {
        "pyramid.levels.6.2": 196,
        "pyramid.levels.6.4": 196,
        **{f"decoders.{level}.upsample_flow": 2 for level in (5, 4, 3, 2)},
    }


def test_layers_say_the_channels_that_their_weights_have():
    for module in AlignedPwcNet().modules():
        if isinstance(module, nn.Conv2d):
            assert module.weight.shape[1] == module.in_channels
        if isinstance(module, nn.ConvTranspose2d):
            assert module.weight.shape[0] == module.in_channels


@torch.no_grad()
@pytest.mark.parametrize("padded", [False, True])
def test_every_convolution_sees_channels_last_and_8_aligned_inputs(state, padded):
    network = aligned(state)
    with Convolutions() as seen:
        network(torch.zeros(2, 8 if padded else 3, 128, 192))
    assert len(seen.inputs) == 18 + 5 * 6 + 7
    last = torch.channels_last
    assert [x.shape for x in seen.inputs if not x.is_contiguous(memory_format=last)] == []


@torch.no_grad()
def test_convolutions_keep_their_bias_only_where_nothing_activates_them():
    with Convolutions() as seen:
        AlignedPwcNet()(torch.zeros(2, 8, 64, 64))
    assert seen.biases == 5 + 1  # the flow heads and the last layer of the context network


@torch.no_grad()
def test_half_precision_keeps_flow_in_float32(state):
    network = aligned(state)
    first, _ = images(1, 64, 128, seed=5)
    pairs = torch.cat((first, first.roll(3, dims=3)))
    expected = network(pairs)[-1]
    flows = network.set_precision(torch.bfloat16)(pairs.bfloat16())
    assert all(flow.dtype == torch.float32 for flow in flows)
    dtypes = {name: parameter.dtype for name, parameter in network.named_parameters()}
    upsampling = {name for name, dtype in dtypes.items() if dtype == torch.float32}
    assert upsampling == {name for name in dtypes if ".upsample_flow." in name}
    assert set(dtypes.values()) == {torch.float32, torch.bfloat16}
    # On a motion of 3 px, features and flow heads of eight bits err by hundredths of a pixel.
    assert 20 * (flows[-1] - expected).abs().mean() < 0.03


def test_half_precision_trains(state):
    network = aligned(state).set_precision(torch.bfloat16)
    flows = network(torch.cat(images(1, 64, 128)).bfloat16())
    sum(flow.square().sum() for flow in flows).backward()
    missing = [k for k, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert missing == []


def test_odd_batches_channels_and_sizes_are_mistakes():
    network = AlignedPwcNet()
    with pytest.raises(ValueError, match="must be as many: 3"):
        network(torch.zeros(3, 3, 64, 64))
    with pytest.raises(ValueError, match="they have 4"):
        network(torch.zeros(2, 4, 64, 64))
    with pytest.raises(ValueError, match="multiples of 64: 64 x 100"):
        network.encode(torch.zeros(1, 3, 64, 100))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_replays_in_a_cuda_graph_forward_and_backward(state, dtype):
    network = aligned(state).cuda().set_precision(dtype)
    parameters = dict(network.named_parameters())
    pairs = torch.cat(images(1, 64, 128)).cuda().to(dtype)

    def step(x):
        flows = network(x)
        # In half precision gradients of sums overflow.
        loss = sum(flow.square().mean() for flow in flows)
        # Not `backward`: what fills `.grad` belongs to the stream it first ran on.
        return flows, torch.autograd.grad(loss, list(parameters.values()))

    static = torch.zeros_like(pairs)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # a capture wants its kernels compiled and its choices made
        for _ in range(3):
            step(static)
        expected, expected_gradients = step(pairs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        flows, gradients = step(static)
    static.copy_(pairs)
    graph.replay()
    for flow, other in zip(flows, expected, strict=True):
        torch.testing.assert_close(flow, other, rtol=1e-2, atol=1e-3)
    for name, gradient, other in zip(parameters, gradients, expected_gradients, strict=True):
        assert (gradient - other).norm() <= 0.05 * other.norm(), name
