"""Convolutions of float32 by our kernel, against PyTorch's in double on the CPU."""

import pytest
import torch
import torch.nn.functional as F

from pwcflow.cudnn import Geometry
from pwcflow.ops import convolve_floats, has_fast_floats
from pwcflow.ops.convolution import (
    CAPABILITIES,
    LARGE_TILINGS,
    SMALL_TILINGS,
    SMALLEST_TILING,
    launch_convolution,
    load_convolutions,
    tiling_for,
)

from .features import DEVICES, relative_error

SLOPE = 0.1
ALL_TILINGS = {
    *(tiling for tilings in LARGE_TILINGS.values() for tiling in tilings),
    *SMALL_TILINGS,
    SMALLEST_TILING,
}
# ‖error‖ / ‖expected‖. Products lose 2^-22 on average, and sums of thousands a few roundings.
TOLERANCE = 1e-6
GEOMETRIES = [
    Geometry(),
    Geometry(stride=2),
    *(Geometry(padding=dilation, dilation=dilation) for dilation in (2, 4, 8, 16)),
]
# (N, C, K, H, W): one pixel, fewer pixels than a tile in each axis, channels that are no multiple
# of a chunk or fewer than one, outputs that fill no tile, a batch, and tiles cut at both sides.
SHAPES = [
    (1, 8, 8, 1, 1),
    (2, 88, 128, 2, 3),
    (1, 200, 200, 7, 16),
    (3, 8, 16, 33, 65),
    (1, 16, 32, 40, 52),
    (2, 40, 24, 17, 31),
    (1, 216, 96, 14, 30),
    (1, 136, 64, 20, 36),
]


def noise(shape, device, *, seed=0):
    """Return noise, channels-last."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return torch.empty(shape, device=device, memory_format=torch.channels_last).copy_(values)


def layer(outputs, inputs, device):
    """Return a weight that keeps the size of what it is applied to, and a bias."""
    weight = noise((outputs, inputs, 3, 3), device, seed=1) / (3 * inputs**0.5)
    return weight, torch.randn(outputs, generator=torch.Generator().manual_seed(2)).to(device)


def expected_of(x, weight, bias, geometry=Geometry(), slope=SLOPE):  # noqa: B008 - it is frozen
    x, weight, bias = (tensor.double().cpu() for tensor in (x, weight, bias))
    y = F.conv2d(x, weight, bias, geometry.stride, geometry.padding, geometry.dilation)
    return F.leaky_relu(y, slope)


def result_of(x, weight, bias, geometry=Geometry(), slope=SLOPE):  # noqa: B008 - it is frozen
    n, _, h, w = x.shape
    size = (-(-side // geometry.stride) for side in (h, w))
    out = noise((n, len(bias), *size), x.device, seed=3)
    out[:] = float("nan")
    convolve_floats(x, weight, bias, out, geometry, slope)
    return out


@pytest.mark.parametrize("device", DEVICES)
def test_by_hand_pixels_seen_are_counted_and_a_slope_of_one_is_no_leaky_relu(device):
    x = torch.ones((1, 8, 3, 3), device=device).contiguous(memory_format=torch.channels_last)
    weight = torch.full((8, 8, 3, 3), -0.5, device=device)
    weight = weight.contiguous(memory_format=torch.channels_last)
    bias = torch.arange(8.0, device=device)
    counts = torch.tensor([[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]])
    sums = -4.0 * counts + torch.arange(8.0).view(1, 8, 1, 1)
    assert torch.equal(result_of(x, weight, bias, slope=1.0).cpu(), sums)
    halved = torch.where(sums > 0, sums, sums / 2)
    assert torch.equal(result_of(x, weight, bias, slope=0.5).cpu(), halved)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize(("n", "c", "k", "h", "w"), SHAPES)
def test_equals_pytorch_s_in_double(n, c, k, h, w, geometry, device):
    x, (weight, bias) = noise((n, c, h, w), device), layer(k, c, device)
    found = result_of(x, weight, bias, geometry)
    assert relative_error(found, expected_of(x, weight, bias, geometry)) <= TOLERANCE


@pytest.mark.gpu
@pytest.mark.parametrize("tiling", sorted(ALL_TILINGS), ids=str)
@pytest.mark.parametrize(("stride", "channels"), [(1, 72), (2, 16)])
def test_each_tiling_equals_pytorch_s_in_double(tiling, stride, channels):
    k = tiling.outputs + 8  # a second block, most of which has nothing to do
    x, (weight, bias) = noise((2, channels, 19, 37), "cuda"), layer(k, channels, "cuda")
    geometry = Geometry(stride=stride)
    expected = expected_of(x, weight, bias, geometry)
    out = torch.full_like(noise(expected.shape, "cuda"), float("nan"))
    kernels = load_convolutions(x.device)
    launch_convolution(kernels, tiling, x, weight, bias, out, geometry, SLOPE)
    assert relative_error(out, expected) <= TOLERANCE


@pytest.mark.parametrize("device", DEVICES)
def test_channels_between_others_of_the_same_tensor_are_written(device):
    wide = noise((2, 96, 20, 24), device)
    before = wide.clone()
    weight, bias = layer(32, 48, device)
    convolve_floats(wide[:, 40:88], weight, bias, wide[:, 8:40], Geometry(), SLOPE)
    expected = expected_of(before[:, 40:88], weight, bias)
    assert relative_error(wide[:, 8:40], expected) <= TOLERANCE
    assert torch.equal(wide[:, :8], before[:, :8])
    assert torch.equal(wide[:, 40:], before[:, 40:])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("shape", "outputs"), [((1, 3, 9, 11), 16), ((1, 6, 9, 11), 16), ((1, 8, 9, 11), 5)]
)
def test_channels_that_no_kernel_takes_are_computed_as_well(shape, outputs, device):
    x, (weight, bias) = noise(shape, device), layer(outputs, shape[1], device)
    assert relative_error(result_of(x, weight, bias), expected_of(x, weight, bias)) <= 1e-5


@pytest.mark.parametrize("device", DEVICES)
def test_a_bias_at_any_address_and_of_any_stride_is_taken(device):
    x, (weight, bias) = noise((1, 16, 9, 11), device), layer(32, 16, device)
    expected = expected_of(x, weight, bias)
    wide = torch.empty(65, device=device)
    for view in (wide[1:33], wide[:64:2]):
        view.copy_(bias)
        assert relative_error(result_of(x, weight, view), expected) <= TOLERANCE


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"x": torch.zeros(2, 16, 9, 11)}, r"x must be \(2, 8, 9, 11\) .* is \(2, 16, 9, 11\)"),
        ({"bias": torch.zeros(8)}, r"bias must be \(24,\) for this weight, but it is \(8,\)"),
        # 5 = ⌊(9 + 2 * 1 - 3) / 2⌋ + 1, and 6 likewise
        ({"out": torch.zeros(2, 24, 9, 11)}, r"out must be \(2, 24, 5, 6\) .*\(2, 24, 9, 11\)"),
        ({"weight": torch.zeros(24, 8, 3, 3).half()}, "weight must be float32 .*float16"),
        ({"out": torch.zeros(2, 24, 5, 6, device="meta")}, "on cpu, as x, but it is .* on meta"),
    ],
)
def test_mistakes_are_named(changes, problem):
    right = {
        "x": torch.zeros(2, 8, 9, 11),
        "weight": torch.zeros(24, 8, 3, 3),
        "bias": torch.zeros(24),
        "out": torch.zeros(2, 24, 5, 6),
        "geometry": Geometry(stride=2),
        "slope": SLOPE,
    }
    convolve_floats(**right)
    with pytest.raises(ValueError, match=problem):
        convolve_floats(**(right | changes))


def tiled(n, k, h, w):
    return tiling_for(torch.empty((n, k, h, w), device="meta"))


def test_large_results_have_large_tiles_and_small_ones_as_many_as_keep_a_gpu_busy():
    # 1024 x 448 pixels at level 2 are 14 x 16 tiles of 8 x 16 pixels.
    assert [tiled(1, k, 112, 256).outputs for k in (128, 96, 64, 32, 16, 8)] == [
        128, 96, 64, 32, 16, 16,
    ]  # fmt: skip
    # At level 3 they are 7 x 8, too few but for two blocks each.
    assert tiled(1, 128, 56, 128)[:3] == (8, 16, 64)
    assert tiled(1, 64, 56, 128)[:3] == (4, 8, 64)
    assert tiled(1, 96, 56, 128)[:3] == (8, 8, 32)
    for k in (8, 32, 64, 96, 128, 200):
        assert tiled(1, k, 7, 16) == SMALLEST_TILING
    assert tiled(32, 128, 7, 16)[:3] == (4, 8, 64)


def test_blocks_fit_every_gpu_with_such_tensor_cores():
    # CUDA C++ Programming Guide, technical specifications: 163 KB and 1024 threads a block from
    # compute capability 8.0 on. Three stages of 128 pixels and 128 outputs, 36 floats in each row:
    assert LARGE_TILINGS[128][0].shared_bytes == 4 * 36 * 3 * (128 + 128)
    assert max(tiling.shared_bytes for tiling in ALL_TILINGS) <= 163 * 1024
    assert max(tiling.threads for tiling in ALL_TILINGS) <= 1024


@pytest.mark.gpu
def test_this_gpu_has_the_kernel():
    device = torch.device("cuda", 0)
    assert has_fast_floats(device) == (torch.cuda.get_device_capability(device) in CAPABILITIES)


@pytest.mark.gpu
def test_float32_is_not_rounded_to_tf32():
    x, (weight, bias) = noise((2, 256, 16, 16), "cuda"), layer(256, 256, "cuda")

    def rounded(tensor):
        bits = tensor.cpu().view(torch.int32)
        return ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)

    expected = expected_of(x, weight, bias)
    assert relative_error(expected_of(rounded(x), rounded(weight), bias), expected) > 1e-4
    assert relative_error(result_of(x, weight, bias), expected) <= TOLERANCE


@pytest.mark.gpu
@pytest.mark.parametrize("scale", [2.0**-100, 2.0**60])
def test_numbers_of_any_size_are_as_exact(scale):
    x, (weight, bias) = noise((1, 64, 24, 40), "cuda"), layer(64, 64, "cuda")
    found = result_of(x * scale, weight, bias * scale)
    assert relative_error(found / scale, expected_of(x, weight, bias)) <= TOLERANCE


@pytest.mark.gpu
@pytest.mark.parametrize("slope", [SLOPE, 1.0])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_stays_none_where_it_is_seen(value, slope):
    x, (weight, bias) = noise((1, 64, 24, 40), "cuda"), layer(64, 64, "cuda")
    x[0, 5, 3, 3] = value
    found = result_of(x, weight, bias, slope=slope).cpu()
    seen = torch.zeros(24, 40, dtype=torch.bool)
    seen[2:5, 2:5] = True
    assert torch.equal(found.isfinite(), ~seen.expand_as(found))


@pytest.mark.gpu
def test_results_repeat_bit_for_bit_alone_and_in_a_cuda_graph():
    for shape in [(1, 512, 7, 16), (1, 128, 112, 256)]:
        x, (weight, bias) = noise(shape, "cuda"), layer(32, shape[1], "cuda")
        expected = result_of(x, weight, bias)
        for _ in range(30):
            assert torch.equal(result_of(x, weight, bias), expected)
        still, found = torch.zeros_like(x), torch.zeros_like(expected)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            convolve_floats(still, weight, bias, found, Geometry(), SLOPE)
        still.copy_(x)
        graph.replay()
        assert torch.equal(found, expected)
