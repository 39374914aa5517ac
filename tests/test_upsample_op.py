"""What a decoder hands to the next finer level, by hand and against PyTorch in double."""

import pytest
import torch
import torch.nn.functional as F

from pwcflow.ops import PACKED_CHANNELS, upsample_flow

from .features import DEVICES, relative_error

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# (N, H, W) of the coarse flow: no images, one pixel, one row, one column, more pixels than a block
# has threads and not a multiple of them.
SIZES = [(0, 2, 3), (1, 1, 1), (2, 1, 5), (2, 7, 1), (3, 5, 7), (1, 17, 33)]


def randn(shape, device, dtype=torch.float32, *, seed=0):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.to(device, dtype)


def parameters(device):
    """Return the flow's weight and bias, and the feature's bias."""
    shapes = (2, 2, 4, 4), (2,), (2,)
    return [randn(shape, device, seed=seed) for seed, shape in enumerate(shapes, 10)]


def packs(n, h, w, device, dtype, *, before=0, behind=0):
    """Return eight channels, and the wider channels-last tensor of noise that they lie in."""
    channels = before + PACKED_CHANNELS + behind
    wide = randn((n, h, w, channels), device, dtype, seed=20).permute(0, 3, 1, 2)
    return wide[:, before : before + PACKED_CHANNELS], wide


def check(coarse, layers, flow, packed, before):
    """Check what `upsample_flow` wrote; `before` is what the packed channels held."""
    weight, bias, feature_bias = layers
    if coarse.numel():
        double = (tensor.double() for tensor in (coarse, weight, bias))
        expected = F.conv_transpose2d(*double, stride=2, padding=1)
        assert relative_error(flow, expected) <= 1e-6
    feature = before[:, 2:4].float() + feature_bias.view(1, 2, 1, 1)
    assert torch.equal(packed[:, :2], flow.to(packed.dtype))
    assert torch.equal(packed[:, 2:4], feature.to(packed.dtype))
    assert torch.equal(packed[:, 4:], torch.zeros_like(packed[:, 4:]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_pixel_by_hand(dtype, device):
    # It meets the four taps in the middle of the kernel: 32 c + 16 k + 4 y + x at y, x = 1, 2.
    coarse = torch.tensor([1.0, 10.0], device=device).view(1, 2, 1, 1)
    weight = torch.arange(64.0, device=device).view(2, 2, 4, 4)
    bias = torch.tensor([0.5, -0.5], device=device)
    feature_bias = torch.tensor([2.0, -3.0], device=device)
    flow = torch.full((1, 2, 2, 2), float("nan"), device=device)
    packed = torch.ones((1, 2, 2, 8), device=device, dtype=dtype).permute(0, 3, 1, 2)
    packed[:, 4:] = float("nan")
    upsample_flow(coarse, weight, bias, feature_bias, flow, packed)
    by_hand = [[[375.5, 386.5], [419.5, 430.5]], [[550.5, 561.5], [594.5, 605.5]]]
    assert flow[0].tolist() == by_hand
    assert torch.equal(packed[:, :2], flow.to(dtype))
    assert packed[0, 2:].amin((1, 2)).tolist() == [3, -2, 0, 0, 0, 0]
    assert packed[0, 2:].amax((1, 2)).tolist() == [3, -2, 0, 0, 0, 0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_pixel_among_zeros_becomes_the_kernel(device):
    coarse = torch.zeros((1, 2, 3, 4), device=device)
    coarse[0, 1, 1, 2] = 2.0
    weight, _, _ = parameters(device)
    none = torch.zeros(2, device=device)
    flow = torch.full((1, 2, 6, 8), float("nan"), device=device)
    packed, _ = packs(1, 6, 8, device, torch.float32)
    upsample_flow(coarse, weight, none, none, flow, packed)
    expected = torch.zeros_like(flow)
    expected[0, :, 1:5, 3:7] = 2.0 * weight[1]
    assert torch.equal(flow, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n", "h", "w"), SIZES)
def test_equals_a_transposed_convolution_in_double(n, h, w, dtype, device):
    coarse, layers = randn((n, 2, h, w), device), parameters(device)
    flow = torch.full((n, 2, 2 * h, 2 * w), float("nan"), device=device)
    packed, _ = packs(n, 2 * h, 2 * w, device, dtype)
    before = packed.clone()
    upsample_flow(coarse, *layers, flow, packed)
    check(coarse, layers, flow, packed, before)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_packed_may_be_channels_of_a_wider_tensor_whose_others_stay(dtype, device):
    coarse, layers = randn((2, 2, 3, 5), device), parameters(device)
    for left, right in [(16, 0), (0, 8), (24, 16)]:
        flow = torch.empty((2, 2, 6, 10), device=device)
        packed, wide = packs(2, 6, 10, device, dtype, before=left, behind=right)
        before = wide.clone()
        upsample_flow(coarse, *layers, flow, packed)
        check(coarse, layers, flow, packed, before[:, left : left + PACKED_CHANNELS])
        behind = left + PACKED_CHANNELS
        assert torch.equal(wide[:, :left], before[:, :left])
        assert torch.equal(wide[:, behind:], before[:, behind:])


@pytest.mark.parametrize("device", DEVICES)
def test_any_strides_of_both_flows_give_what_copies_give(device):
    n, h, w = 2, 5, 6
    coarse, layers = randn((n, 2, h, w), device), parameters(device)

    def views_of(values):
        """Return values in other layouts, each with the memory around it."""
        n, c, h, w = values.shape
        wide = torch.full((n, 8, h, w), 7.0, device=device)
        shapes = {
            "channels of a channels-last tensor": wide.to(memory_format=torch.channels_last)[
                :, 3:5
            ],
            "columns first": values.new_empty((n, c, w, h)).transpose(2, 3),
            "a part of each row": values.new_empty((n, c, h, 3 * w))[..., 1 : 1 + w],
            "every other value": values.new_empty((n, c, h, w, 2))[..., 1],
            "images last": values.new_empty((c, h, w, n)).permute(3, 0, 1, 2),
        }
        return {name: view.copy_(values) for name, view in shapes.items()}

    expected = torch.empty((n, 2, 2 * h, 2 * w), device=device)
    packed, _ = packs(n, 2 * h, 2 * w, device, torch.float16)
    before = packed.clone()
    upsample_flow(coarse, *layers, expected, packed)
    results = views_of(torch.full_like(expected, float("nan")))
    for name, source in views_of(coarse).items():
        again, _ = packs(n, 2 * h, 2 * w, device, torch.float16)
        assert torch.equal(again, before)
        flow = results[name]
        upsample_flow(source, *layers, flow, again)
        torch.testing.assert_close(flow, expected, rtol=1e-6, atol=1e-6, msg=name)
        check(source, layers, flow, again, before)
    same = coarse[:1, :, :1, :1].expand(n, 2, h, w)
    flow = torch.empty_like(expected)
    upsample_flow(same, *layers, flow, packed)
    upsample_flow(same.contiguous(), *layers, expected, packed)
    torch.testing.assert_close(flow, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_weight_of_any_strides_is_taken(device):
    coarse, layers = randn((1, 2, 3, 4), device), parameters(device)
    layers[0] = layers[0].transpose(2, 3)
    flow = torch.empty((1, 2, 6, 8), device=device)
    packed, _ = packs(1, 6, 8, device, torch.float32)
    before = packed.clone()
    upsample_flow(coarse, *layers, flow, packed)
    check(coarse, layers, flow, packed, before)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    coarse, layers = randn((2, 2, 3, 4), device), parameters(device)
    flow = torch.zeros((2, 2, 6, 8), device=device)
    packed, _ = packs(2, 6, 8, device, torch.float16)
    operator = torch.ops.pwcflow.upsample_flow.default
    torch.library.opcheck(operator, (coarse, *layers, flow, packed))


def channels_last(channels, **options):
    return torch.zeros((1, 6, 8, channels), **options).permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"coarse": torch.zeros(1, 2, 3, 5)}, r"but they are \(1, 2, 3, 5\), \(1, 2, 6, 8\) and"),
        ({"coarse": torch.zeros(2, 2, 3, 4)}, r"but they are \(2, 2, 3, 4\), \(1, 2, 6, 8\) and"),
        ({"coarse": torch.zeros(1, 3, 3, 4)}, r"but they are \(1, 3, 3, 4\), \(1, 2, 6, 8\) and"),
        ({"flow": torch.zeros(1, 2, 7, 8)}, r"coarse, flow and packed must be .*\(1, 2, 7, 8\)"),
        ({"packed": channels_last(16)}, r"and \(1, 16, 6, 8\)"),
        ({"coarse": torch.zeros(1, 2, 3, 4).half()}, "coarse must be float32, but .*float16"),
        ({"flow": torch.zeros(1, 2, 6, 8).double()}, "flow must be float32, but .*float64"),
        ({"weight": torch.zeros(2, 2, 4, 4).half()}, "weight must be float32, but .*float16"),
        ({"packed": channels_last(8, dtype=torch.float64)}, "packed must have at most 32 bits"),
        ({"packed": torch.zeros(1, 8, 6, 8)}, "pixels of 8 values at multiples of 16"),
        ({"packed": channels_last(16)[:, 2:10]}, "pixels of 8 values at multiples of 16"),
        ({"packed": channels_last(10)[:, :8]}, "pixels of 8 values at multiples of 16"),
    ],
)
def test_mistakes_are_named(changes, problem):
    right = {
        "coarse": torch.zeros(1, 2, 3, 4),
        "weight": torch.zeros(2, 2, 4, 4),
        "bias": torch.zeros(2),
        "feature_bias": torch.zeros(2),
        "flow": torch.zeros(1, 2, 6, 8),
        "packed": channels_last(8),
    }
    upsample_flow(**right)
    with pytest.raises(ValueError, match=problem):
        upsample_flow(**(right | changes))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_replays_in_a_cuda_graph(dtype):
    coarse, layers = randn((2, 2, 8, 9), "cuda"), parameters("cuda")
    expected = torch.empty((2, 2, 16, 18), device="cuda")
    packed, _ = packs(2, 16, 18, "cuda", dtype)
    before = packed.clone()
    upsample_flow(coarse, *layers, expected, packed)  # compiles: a capture may not load a module
    still, flow, again = torch.zeros_like(coarse), torch.zeros_like(expected), before.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        upsample_flow(still, *layers, flow, again)
    still.copy_(coarse)
    again.copy_(before)
    graph.replay()
    assert torch.equal(flow, expected)
    assert torch.equal(again, packed)


@pytest.mark.gpu
def test_a_hundred_launches_give_one_answer():
    coarse, layers = randn((3, 2, 50, 61), "cuda"), parameters("cuda")
    expected = torch.empty((3, 2, 100, 122), device="cuda")
    packed, _ = packs(3, 100, 122, "cuda", torch.float16)
    before = packed.clone()
    upsample_flow(coarse, *layers, expected, packed)
    for _ in range(100):
        flow, again = torch.full_like(expected, float("nan")), before.clone()
        upsample_flow(coarse, *layers, flow, again)
        assert torch.equal(flow, expected)
        assert torch.equal(again, packed)
