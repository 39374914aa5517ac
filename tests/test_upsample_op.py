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
    """Return weight and bias of the flow's transposed convolution."""
    return [randn(shape, device, seed=seed) for seed, shape in enumerate([(2, 2, 4, 4), (2,)], 10)]


def decoded_of(n, h, w, device, dtype=torch.float32):
    """Return a decoder's result, channels-last, as the network has it."""
    return randn((n, h, w, 16), device, dtype, seed=21).permute(0, 3, 1, 2)


def packs(n, h, w, device, dtype, *, before=0, behind=0):
    """Return eight channels, and the wider channels-last tensor of noise that they lie in."""
    channels = before + PACKED_CHANNELS + behind
    wide = randn((n, h, w, channels), device, dtype, seed=20).permute(0, 3, 1, 2)
    return wide[:, before : before + PACKED_CHANNELS], wide


def check(decoded, layers, flow, packed):
    """Check what `upsample_flow` wrote."""
    if decoded.numel():
        double = (tensor.double() for tensor in (decoded[:, :2], *layers))
        expected = F.conv_transpose2d(*double, stride=2, padding=1)
        assert relative_error(flow, expected) <= 1e-6
    assert torch.equal(packed[:, :2], flow.to(packed.dtype))
    for i in range(2):
        for j in range(2):
            for k in range(2):
                feature = decoded[:, 2 + 4 * k + 2 * i + j]
                assert torch.equal(packed[:, 2 + k, i::2, j::2], feature)
    assert torch.equal(packed[:, 4:], torch.zeros_like(packed[:, 4:]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_pixel_by_hand(dtype, device):
    # Its flow meets the four taps in the middle of the kernel: 32 c + 16 k + 4 y + x at 1 and 2.
    decoded = torch.tensor([1.0, 10.0, *range(2, 16)], device=device, dtype=dtype).view(1, 16, 1, 1)
    weight = torch.arange(64.0, device=device).view(2, 2, 4, 4)
    bias = torch.tensor([0.5, -0.5], device=device)
    flow = torch.full((1, 2, 2, 2), float("nan"), device=device)
    packed = torch.full((1, 2, 2, 8), float("nan"), device=device, dtype=dtype).permute(0, 3, 1, 2)
    upsample_flow(decoded, weight, bias, flow, packed)
    by_hand = [[[375.5, 386.5], [419.5, 430.5]], [[550.5, 561.5], [594.5, 605.5]]]
    assert flow[0].tolist() == by_hand
    assert torch.equal(packed[:, :2], flow.to(dtype))
    assert packed[0, 2:4].tolist() == [[[2, 3], [4, 5]], [[6, 7], [8, 9]]]
    assert packed[0, 4:].tolist() == [[[0, 0], [0, 0]]] * 4


@pytest.mark.parametrize("device", DEVICES)
def test_a_pixel_among_zeros_becomes_the_kernel(device):
    decoded = torch.zeros((1, 16, 3, 4), device=device)
    decoded[0, 1, 1, 2] = 2.0
    weight, _ = parameters(device)
    flow = torch.full((1, 2, 6, 8), float("nan"), device=device)
    packed, _ = packs(1, 6, 8, device, torch.float32)
    upsample_flow(decoded, weight, torch.zeros(2, device=device), flow, packed)
    expected = torch.zeros_like(flow)
    expected[0, :, 1:5, 3:7] = 2.0 * weight[1]
    assert torch.equal(flow, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n", "h", "w"), SIZES)
def test_equals_a_transposed_convolution_in_double(n, h, w, dtype, device):
    decoded, layers = decoded_of(n, h, w, device, dtype), parameters(device)
    flow = torch.full((n, 2, 2 * h, 2 * w), float("nan"), device=device)
    packed, _ = packs(n, 2 * h, 2 * w, device, dtype)
    upsample_flow(decoded, *layers, flow, packed)
    check(decoded, layers, flow, packed)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_packed_may_be_channels_of_a_wider_tensor_whose_others_stay(dtype, device):
    decoded, layers = decoded_of(2, 3, 5, device, dtype), parameters(device)
    for left, right in [(16, 0), (0, 8), (24, 16)]:
        flow = torch.empty((2, 2, 6, 10), device=device)
        packed, wide = packs(2, 6, 10, device, dtype, before=left, behind=right)
        before = wide.clone()
        upsample_flow(decoded, *layers, flow, packed)
        check(decoded, layers, flow, packed)
        behind = left + PACKED_CHANNELS
        assert torch.equal(wide[:, :left], before[:, :left])
        assert torch.equal(wide[:, behind:], before[:, behind:])


@pytest.mark.parametrize("device", DEVICES)
def test_any_strides_of_what_is_read_and_of_the_flow_give_what_copies_give(device):
    n, h, w = 2, 5, 6
    decoded, layers = decoded_of(n, h, w, device, torch.float16), parameters(device)

    def views_of(values):
        """Return values in other layouts, each with the memory around it."""
        n, c, h, w = values.shape
        wide = values.new_full((n, 24, h, w), 7.0).to(memory_format=torch.channels_last)
        shapes = {
            "channels of a channels-last tensor": wide[:, 3 : 3 + c],
            "columns first": values.new_empty((n, c, w, h)).transpose(2, 3),
            "a part of each row": values.new_empty((n, c, h, 3 * w))[..., 1 : 1 + w],
            "every other value": values.new_empty((n, c, h, w, 2))[..., 1],
            "images last": values.new_empty((c, h, w, n)).permute(3, 0, 1, 2),
        }
        return {name: view.copy_(values) for name, view in shapes.items()}

    expected = torch.empty((n, 2, 2 * h, 2 * w), device=device)
    packed, _ = packs(n, 2 * h, 2 * w, device, torch.float16)
    upsample_flow(decoded, *layers, expected, packed)
    results = views_of(torch.full_like(expected, float("nan")))
    for name, source in views_of(decoded).items():
        again, _ = packs(n, 2 * h, 2 * w, device, torch.float16)
        flow = results[name]
        upsample_flow(source, *layers, flow, again)
        torch.testing.assert_close(flow, expected, rtol=1e-6, atol=1e-6, msg=name)
        check(source, layers, flow, again)
    same = decoded[:1, :, :1, :1].expand(n, 16, h, w)
    flow = torch.empty_like(expected)
    upsample_flow(same, *layers, flow, packed)
    check(same, layers, flow, packed)


@pytest.mark.parametrize("device", DEVICES)
def test_a_weight_of_any_strides_is_taken(device):
    decoded, layers = decoded_of(1, 3, 4, device), parameters(device)
    layers[0] = layers[0].transpose(2, 3)
    flow = torch.empty((1, 2, 6, 8), device=device)
    packed, _ = packs(1, 6, 8, device, torch.float32)
    upsample_flow(decoded, *layers, flow, packed)
    check(decoded, layers, flow, packed)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    decoded, layers = decoded_of(2, 3, 4, device, torch.float16), parameters(device)
    flow = torch.zeros((2, 2, 6, 8), device=device)
    packed, _ = packs(2, 6, 8, device, torch.float16)
    operator = torch.ops.pwcflow.upsample_flow.default
    torch.library.opcheck(operator, (decoded, *layers, flow, packed))


def channels_last(channels, **options):
    return torch.zeros((1, 6, 8, channels), **options).permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"decoded": torch.zeros(1, 16, 3, 5)}, r"they are \(1, 16, 3, 5\), \(1, 2, 6, 8\) and"),
        ({"decoded": torch.zeros(2, 16, 3, 4)}, r"they are \(2, 16, 3, 4\), \(1, 2, 6, 8\) and"),
        ({"decoded": torch.zeros(1, 2, 3, 4)}, r"they are \(1, 2, 3, 4\), \(1, 2, 6, 8\) and"),
        ({"flow": torch.zeros(1, 2, 7, 8)}, r"decoded, flow and packed must .*\(1, 2, 7, 8\)"),
        ({"packed": channels_last(16)}, r"and \(1, 16, 6, 8\)"),
        ({"decoded": torch.zeros(1, 16, 3, 4).half()}, "one dtype, but they are .*float16 and"),
        ({"flow": torch.zeros(1, 2, 6, 8).double()}, "flow must be float32, but .*float64"),
        ({"weight": torch.zeros(2, 2, 4, 4).half()}, "weight must be float32, but .*float16"),
        ({"weight": torch.zeros(2, 2, 4, 3)}, r"weight must be \(2, 2, 4, 4\), but"),
        ({"bias": torch.zeros(3)}, r"bias must be \(2,\), but it is \(3,\)"),
        (
            {
                "decoded": torch.zeros(1, 16, 3, 4).double(),
                "packed": channels_last(8, dtype=torch.float64),
            },
            "packed must have at most 32 bits",
        ),
        ({"packed": torch.zeros(1, 8, 6, 8)}, "pixels of 8 values at multiples of 16"),
        ({"packed": channels_last(16)[:, 2:10]}, "pixels of 8 values at multiples of 16"),
        ({"packed": channels_last(10)[:, :8]}, "pixels of 8 values at multiples of 16"),
    ],
)
def test_mistakes_are_named(changes, problem):
    right = {
        "decoded": torch.zeros(1, 16, 3, 4),
        "weight": torch.zeros(2, 2, 4, 4),
        "bias": torch.zeros(2),
        "flow": torch.zeros(1, 2, 6, 8),
        "packed": channels_last(8),
    }
    upsample_flow(**right)
    with pytest.raises(ValueError, match=problem):
        upsample_flow(**(right | changes))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_replays_in_a_cuda_graph(dtype):
    decoded, layers = decoded_of(2, 8, 9, "cuda", dtype), parameters("cuda")
    expected = torch.empty((2, 2, 16, 18), device="cuda")
    packed, _ = packs(2, 16, 18, "cuda", dtype)
    upsample_flow(decoded, *layers, expected, packed)  # compiles: a capture may not load a module
    still, flow, again = map(torch.zeros_like, (decoded, expected, packed))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        upsample_flow(still, *layers, flow, again)
    still.copy_(decoded)
    graph.replay()
    assert torch.equal(flow, expected)
    assert torch.equal(again, packed)


@pytest.mark.gpu
def test_a_hundred_launches_give_one_answer():
    decoded, layers = decoded_of(3, 50, 61, "cuda", torch.float16), parameters("cuda")
    expected = torch.empty((3, 2, 100, 122), device="cuda")
    packed, _ = packs(3, 100, 122, "cuda", torch.float16)
    upsample_flow(decoded, *layers, expected, packed)
    for _ in range(100):
        flow, again = (torch.full_like(result, float("nan")) for result in (expected, packed))
        upsample_flow(decoded, *layers, flow, again)
        assert torch.equal(flow, expected)
        assert torch.equal(again, packed)
