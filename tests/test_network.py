"""The network's structure, and what each part computes, against the paper's numbers."""

import pytest
import torch
import torch.nn.functional as F

from pwcflow.network import (
    PYRAMID_CHANNELS,
    PwcNet,
    decoder_input_channels,
    decoder_output_channels,
)
from pwcflow.weights import load_weights


@pytest.fixture(scope="module")
def network():
    network = PwcNet().eval().requires_grad_(False)
    network.load_state_dict(load_weights("default").state)
    return network


def images(n, h, w, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(2 * n, 3, h // 16, w // 16, generator=generator)
    return F.interpolate(coarse, (h, w), mode="bicubic", align_corners=False).clamp(0, 1).chunk(2)


def test_has_the_published_number_of_parameters(network):
    assert sum(p.numel() for p in network.parameters()) == 9_374_274


def test_decoders_take_and_give_the_published_channels():
    assert [decoder_input_channels(level) for level in (6, 5, 4, 3, 2)] == [81, 213, 181, 149, 117]
    assert decoder_output_channels(2) == 565


def test_state_dict_keys_and_shapes_stay_as_checkpoints_know_them(network):
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    assert len(shapes) == 2 * (18 + 5 * 6 + 2 * 4 + 7)
    assert shapes["pyramid.levels.1.0.weight"] == (16, 3, 3, 3)
    assert shapes["pyramid.levels.6.4.weight"] == (196, 196, 3, 3)
    assert shapes["decoders.6.dense.0.0.weight"] == (128, 81, 3, 3)
    assert shapes["decoders.5.upsample_flow.weight"] == (2, 2, 4, 4)
    assert shapes["decoders.5.upsample_feature.weight"] == (529, 2, 4, 4)
    assert shapes["decoders.2.dense.4.0.weight"] == (32, 533, 3, 3)
    assert shapes["decoders.2.flow_head.weight"] == (2, 565, 3, 3)
    assert shapes["context.0.weight"] == (128, 565, 3, 3)
    assert shapes["context.12.weight"] == (2, 32, 3, 3)
    assert not any(key.startswith("decoders.6.upsample") for key in shapes)


def test_levels_have_their_strides_and_channels(network):
    first, second = images(1, 128, 192)
    pyramid = network.encode(first)
    assert {level: tuple(f.shape) for level, f in pyramid.items()} == {
        level: (1, PYRAMID_CHANNELS[level], 128 >> level, 192 >> level) for level in range(2, 7)
    }
    flows = network(first, second)
    assert [tuple(f.shape) for f in flows] == [
        (1, 2, 128 >> level, 192 >> level) for level in (6, 5, 4, 3, 2)
    ]


def test_the_warp_moves_features_by_0_625_1_25_2_5_and_5_times_the_flow(network):
    """A decoder that sees flow F and moved features must match one that sees no flow and none."""
    for level, scale in {5: 0.625, 4: 1.25, 3: 2.5, 2: 5.0}.items():
        decoder = network.decoders[str(level)]
        channels = PYRAMID_CHANNELS[level]
        first = torch.randn(1, channels, 24, 24, generator=torch.Generator().manual_seed(level))
        whole = 5  # pixels of this level, once the network's flow is scaled
        moved = torch.roll(first, whole, dims=3)
        seen = []

        def record(_, inputs, seen=seen):
            seen.append(inputs[0][:, :81].detach())

        handle = decoder.dense[0].register_forward_pre_hook(record)
        coarse = torch.zeros(1, decoder_output_channels(level + 1), 12, 12)
        saved = decoder.upsample_flow.weight.clone(), decoder.upsample_flow.bias.clone()
        decoder.upsample_flow.weight.zero_()
        decoder.upsample_flow.bias.copy_(torch.tensor([whole / scale, 0.0]))
        decoder(first, moved, (torch.zeros(1, 2, 12, 12), coarse))
        decoder.upsample_flow.bias.zero_()
        decoder(first, first, (torch.zeros(1, 2, 12, 12), coarse))
        decoder.upsample_flow.weight.copy_(saved[0])
        decoder.upsample_flow.bias.copy_(saved[1])
        handle.remove()
        inner = (slice(None), slice(None), slice(4, -4), slice(4, -whole - 4))
        torch.testing.assert_close(seen[0][inner], seen[1][inner], rtol=1e-4, atol=1e-4)


def test_sizes_that_are_no_multiples_of_64_are_a_mistake(network):
    with pytest.raises(ValueError, match="multiples of 64: 64 x 100"):
        network.encode(torch.zeros(1, 3, 64, 100))


def test_gradients_reach_every_parameter():
    torch.manual_seed(0)
    network = PwcNet()
    first, second = images(1, 64, 64)
    sum(flow.square().sum() for flow in network(first, second)).backward()
    missing = [k for k, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    # At 64 x 64 the coarsest level is 1 x 1: its 3 x 3 kernels still see their centre.
    assert missing == []


def test_survives_checkpointed_recomputation():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    network = PwcNet()
    first, second = (image.requires_grad_() for image in images(1, 64, 128))
    network(first, second)[-1].sum().backward()
    expected = first.grad.clone()
    first.grad = None
    checkpoint(lambda a, b: network(a, b)[-1], first, second, use_reentrant=False).sum().backward()
    torch.testing.assert_close(first.grad, expected)


def test_half_precision_keeps_flow_in_float32(network):
    import copy

    half = copy.deepcopy(network).set_precision(torch.bfloat16)
    first, _ = images(1, 64, 128, seed=5)
    second = first.roll(3, dims=3)
    expected = network(first, second)[-1]
    flows = half(first.bfloat16(), second.bfloat16())
    assert all(flow.dtype == torch.float32 for flow in flows)
    assert half.pyramid.levels["1"][0].weight.dtype == torch.bfloat16
    # On a motion of 3 px, features of eight bits err by hundredths of a pixel.
    assert 20 * (flows[-1] - expected).abs().mean() < 0.03


def test_compiles_without_a_graph_break_and_computes_the_same(network):
    first, second = images(1, 64, 64)
    explanation = torch._dynamo.explain(network)(first, second)
    assert explanation.graph_break_count == 0
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(first, second), network(first, second))
