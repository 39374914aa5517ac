"""The warping operator against values worked out by hand, NumPy in double and `backward_warp`."""

import numpy as np
import pytest
import torch

from pwcflow.ops import warp_features
from pwcflow.ops.dtypes import SCALAR_TYPES
from pwcflow.ops.warp import _warp_features
from pwcflow.warp import MINIMUM_COVERAGE, backward_warp

from .features import DEVICES, relative_error

SCALE = 2.5
# No images, no channels, no pixels, one value, an axis of one pixel, the kernels' scalars (C no
# multiple of 8) and packs, all levels' C, more channels than a block has threads.
SHAPES = [
    (0, 8, 3, 5),
    (2, 0, 3, 5),
    (2, 8, 0, 4),
    (1, 1, 1, 1),
    (2, 8, 1, 1),
    (1, 8, 1, 9),
    (2, 16, 7, 1),
    (1, 1, 37, 41),
    (3, 3, 5, 7),
    (2, 33, 5, 7),
    (2, 32, 28, 65),
    (3, 64, 15, 17),
    (2, 96, 13, 9),
    (2, 128, 9, 13),
    (1, 196, 7, 16),
    (1, 300, 3, 5),
    (1, 2056, 3, 5),
]
# ‖error‖ / ‖expected‖. The halves are rounded once, to within 2^-11 and 2^-8 of each value.
TOLERANCES = {
    torch.float64: 1e-13,
    torch.float32: 1e-6,
    torch.float16: 5e-4,
    torch.bfloat16: 4e-3,
}
GRID_TOLERANCE = 3e-5
"""More where `backward_warp` is at work: its positions in float32 take the way over -1..1."""


def randn(shape, device, dtype=torch.float32, *, seed=0):
    """Return noise, channels-last."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.to(device, dtype).contiguous(memory_format=torch.channels_last)


def operands(shape, device, dtype=torch.float32):
    """Return features, and flow that leads a good part of the pixels outside of the image."""
    n, _, h, w = shape
    flow = randn((n, 2, h, w), device, seed=1).contiguous()
    return randn(shape, device, dtype), flow


def axis_of(position, size):
    """Return the lower pixel, the share of the upper one, and the coverage, of positions."""
    lower = np.floor(position)
    covered = np.minimum(position + 1, size - position).clip(0, 1)
    return lower.astype(int), position.astype(np.float64) - lower, covered


def expected_of(feature, flow, scale):
    """Return the warped features in double, of positions in float32 (double for double)."""
    n, c, h, w = feature.shape
    if not feature.numel():
        return feature.double().cpu()
    real = np.float64 if feature.dtype == torch.float64 else np.float32
    values = feature.double().cpu().numpy()
    moved = (flow.cpu().numpy() * np.float32(scale)).astype(real)
    rows, columns = np.meshgrid(np.arange(h, dtype=real), np.arange(w, dtype=real), indexing="ij")
    x0, right, covered_x = axis_of(columns + moved[:, 0] * (w > 1), w)
    y0, down, covered_y = axis_of(rows + moved[:, 1] * (h > 1), h)
    images = np.arange(n)[:, None, None]
    result = np.zeros((n, h, w, c))
    for y, share_y in ((y0, 1 - down), (y0 + 1, down)):
        for x, share_x in ((x0, 1 - right), (x0 + 1, right)):
            inside = (x >= 0) & (x < w) & (y >= 0) & (y < h)
            taken = values[images, :, y.clip(0, h - 1), x.clip(0, w - 1)]
            result += taken * (share_y * share_x * inside)[..., None]
    result *= (covered_x * covered_y > real(MINIMUM_COVERAGE))[..., None]
    return torch.from_numpy(result).permute(0, 3, 1, 2)


def check(actual, expected, dtype, device):
    assert actual.dtype == dtype
    tolerance = TOLERANCES[dtype]
    if device == "cpu" and dtype != torch.float64:
        tolerance += GRID_TOLERANCE
    assert relative_error(actual, expected) <= tolerance


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("c", [1, 8])
def test_a_whole_pixel_shift_by_hand(c, device):
    feature = torch.arange(45.0, device=device).view(1, 1, 5, 9).expand(1, c, 5, 9)
    feature = feature.contiguous(memory_format=torch.channels_last)
    flow = torch.tensor([0.5, -1.0], device=device).view(1, 2, 1, 1).expand(1, 2, 5, 9)
    expected = torch.zeros(1, c, 5, 9, device=device)
    expected[..., 2:, :-1] = feature[..., :-2, 1:]
    assert torch.equal(warp_features(feature, flow, 2.0), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_half_a_pixel_by_hand(device):
    feature = torch.tensor([[[[0.0, 8.0, 16.0], [24.0, 40.0, 56.0]]]], device=device)
    flow = torch.full((1, 2, 2, 3), 0.25, device=device)
    found = warp_features(feature, flow, 2.0)
    torch.testing.assert_close(found.cpu(), torch.tensor([[[[18.0, 30.0, 0], [0, 0, 0]]]]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sample_that_lies_outside_by_a_thousandth_is_dimmed_and_by_more_is_zero(sign, device):
    ones = torch.ones(1, 8, 5, 9, device=device).contiguous(memory_format=torch.channels_last)
    for axis in (0, 1):
        for distance, expected in [(0.0008, 0.9992), (0.0012, 0.0)]:
            flow = torch.zeros(1, 2, 5, 9, device=device)
            flow[:, axis] = sign * distance
            found = warp_features(ones, flow, 1.0).movedim(3 - axis, 0)
            edge = found[-1 if sign > 0 else 0]
            torch.testing.assert_close(edge, torch.full_like(edge, expected), rtol=0, atol=1e-5)
            inner = found[1:-1, ..., 1:-1]
            torch.testing.assert_close(inner, torch.ones_like(inner), rtol=0, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_numpy_in_double(shape, dtype, device):
    feature, flow = operands(shape, device, dtype)
    for scale in (0.0, 0.625, SCALE):
        found = warp_features(feature, flow, scale)
        check(found, expected_of(feature, flow, scale), dtype, device)
        assert found.is_contiguous(memory_format=torch.channels_last) or not found.numel()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", [(1, 32, 112, 256), (2, 33, 45, 67)], ids=str)
def test_equals_backward_warp_and_its_mask(shape, dtype, device):
    feature, flow = operands(shape, device, dtype)
    expected = backward_warp(feature, flow * SCALE)
    error = relative_error(warp_features(feature, flow, SCALE), expected)
    assert error <= 1.5 * TOLERANCES[dtype] + GRID_TOLERANCE
    ones = torch.ones_like(feature)
    masks = warp_features(ones, flow, SCALE) == 0, backward_warp(ones, flow * SCALE) == 0
    assert torch.equal(*masks)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_features_and_result_may_be_some_channels_of_wider_tensors(dtype, device):
    # From any channel on, of rows of any length.
    cases = [(8, 0, 24), (8, 8, 24), (8, 3, 24), (16, 8, 29), (3, 5, 16), (1, 2, 4), (32, 16, 88)]
    for n, h, w in [(2, 5, 7), (1, 1, 7), (1, 5, 1), (2, 1, 1), (1, 1, 1)]:
        for c, first, width in cases:
            wide = randn((n, width, h, w), device, dtype)
            flow = randn((n, 2, h, w), device, seed=1)
            feature = wide[:, first : first + c]
            expected = expected_of(feature, flow, SCALE)
            check(warp_features(feature, flow, SCALE), expected, dtype, device)
            target = torch.full_like(wide, 7.0)
            out = target[:, first : first + c]
            for source in (feature, feature.contiguous(memory_format=torch.channels_last)):
                assert warp_features(source, flow, SCALE, out) is out
                check(out, expected, dtype, device)
            assert bool((target[:, :first] == 7).all())
            assert bool((target[:, first + c :] == 7).all())


@pytest.mark.parametrize("device", DEVICES)
def test_any_strides_of_features_and_flow_give_what_copies_give(device):
    n, _, h, w = shape = (2, 16, 6, 11)
    feature, flow = operands(shape, device)
    expected = warp_features(feature, flow, SCALE)
    views = (
        flow.contiguous(memory_format=torch.channels_last),
        flow.transpose(2, 3).contiguous().transpose(2, 3),
        torch.cat((flow, flow), dim=3)[..., :w],
        torch.stack((flow, flow), dim=4)[..., 1],
        torch.cat((flow, flow, flow), 1).contiguous(memory_format=torch.channels_last)[:, 2:4],
    )
    for view in views:
        assert torch.equal(warp_features(feature, view, SCALE), expected)
    one = flow[:1, :, :1, :1].expand(n, 2, h, w)
    found = warp_features(feature, one, SCALE)
    assert torch.equal(found, warp_features(feature, one.contiguous(), SCALE))
    views = (
        feature.contiguous(),
        torch.cat((feature, feature), dim=3)[..., :w],
        torch.stack((feature, feature), dim=4)[..., 1],
    )
    for view in views:
        torch.testing.assert_close(warp_features(view, flow, SCALE), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    for c in (8, 3):
        feature, flow = operands((2, c, 4, 5), device)
        out = torch.zeros_like(feature)
        torch.library.opcheck(_warp_features, (feature, flow, SCALE, out))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"feature": torch.zeros(8, 4, 5)}, r"feature must be \(N, C, H, W\)"),
        ({"flow": torch.zeros(1, 2, 5, 4)}, r"flow must be \(1, 2, 4, 5\), but it is \(1, 2, 5, 4"),
        ({"flow": torch.zeros(1, 2, 4, 5).half()}, "must be torch.float32 on cpu, .*float16"),
        ({"feature": torch.zeros(1, 8, 4, 5).int()}, "but it is torch.int32"),
        ({"out": torch.zeros(1, 7, 4, 5)}, r"out must be \(1, 8, 4, 5\), torch.float32 on cpu"),
        ({"out": torch.zeros(1, 8, 4, 5).double()}, "but it is .* torch.float64"),
        ({"out": torch.zeros(1, 8, 4, 5)}, "out must be channels-last"),
        ({"out": torch.zeros(1, 4, 10, 8).permute(0, 3, 1, 2)[..., ::2]}, None),
        ({"out": torch.zeros(1, 4, 6, 8).permute(0, 3, 1, 2)[..., :5]}, "out must be channels-l"),
        ({"out": torch.zeros(8).view(1, 8, 1, 1).expand(1, 8, 4, 5)}, "out must be channels-last"),
    ],
)
def test_mistakes_are_named(changes, problem):
    right = {"feature": torch.zeros(1, 8, 4, 5), "flow": torch.zeros(1, 2, 4, 5), "scale": SCALE}
    if problem is None:  # every other pixel of a row is but a wider pixel
        assert warp_features(**(right | changes)) is changes["out"]
        return
    with pytest.raises(ValueError, match=problem):
        warp_features(**(right | changes))


def test_the_kernels_take_every_dtype_the_tolerances_name():
    assert set(SCALAR_TYPES) == set(TOLERANCES)


@pytest.mark.gpu
@pytest.mark.parametrize("c", [3, 32])
def test_flow_that_is_no_number_or_far_away_gives_zero(c):
    feature, flow = operands((2, c, 12, 13), "cuda", torch.float16)
    broken = (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e10, -1e10, 2**31, -(2**31))
    expected = warp_features(feature, flow, SCALE)
    for row, value in enumerate(broken):
        flow[0, 0, row] = value
        flow[1, 1, row] = value
    found = warp_features(feature, flow, SCALE)
    assert bool((found[:, :, : len(broken)] == 0).all())
    assert torch.equal(found[:, :, len(broken) :], expected[:, :, len(broken) :])


@pytest.mark.gpu
@pytest.mark.parametrize("c", [32, 33])
def test_a_hundred_launches_give_one_answer_and_write_every_element(c):
    feature, flow = operands((2, c, 100, 101), "cuda", torch.float16)
    poison = torch.full((64 << 20,), float("nan"), device="cuda")  # the pool hands this out again
    del poison
    expected = warp_features(feature, flow, SCALE)
    assert bool(expected.isfinite().all())
    for _ in range(100):
        assert torch.equal(warp_features(feature, flow, SCALE), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("c", [32, 33])
def test_replays_in_a_cuda_graph(c, dtype):
    feature, flow = operands((2, c, 16, 17), "cuda", dtype)
    expected = warp_features(feature, flow, SCALE)  # also compiles: a capture may not load a module
    static_feature, static_flow = torch.zeros_like(feature), torch.zeros_like(flow)
    wide = torch.zeros((2, 3 * c, 16, 17), device="cuda", dtype=dtype)
    out = wide.contiguous(memory_format=torch.channels_last)[:, c : 2 * c]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        warp_features(static_feature, static_flow, SCALE, out)
    static_feature.copy_(feature)
    static_flow.copy_(flow)
    graph.replay()
    assert torch.equal(out, expected)


@pytest.mark.gpu
def test_offsets_past_two_to_the_31_are_right():
    h, w = 1 << 14, (1 << 14) + 8
    shape = (1, 8, h, w)
    feature = torch.empty(
        shape, device="cuda", dtype=torch.float16, memory_format=torch.channels_last
    )
    assert feature.numel() > 2**31
    feature.zero_()[0, :, -1, -1] = 3
    flow = torch.ones(2, device="cuda").view(1, 2, 1, 1).expand(1, 2, h, w)
    found = warp_features(feature, flow, 1.0)
    assert found[0, :, -2, -2].tolist() == [3] * 8
    assert found.sum(dtype=torch.float64) == 24
