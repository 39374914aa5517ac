"""The cost volume against hand-worked values, and autograd of its definition in double."""

import pytest
import torch
from torch import Tensor

from pwcflow.cuda_kernels import MAX_GRID
from pwcflow.ops import cost_volume, leaky_cost_volume
from pwcflow.ops.cost_volume import (
    _cost_volume,
    _cost_volume_backward,
    _leaky_cost_volume,
)
from pwcflow.ops.cost_volume_cuda import TILINGS, choose_tiling

from .features import DEVICES, SHAPES, TOLERANCES, features, relative_error

# Heights and widths of images that are cut into strips of 8 pixels: into so many that one of each
# of the tilings of cost_volume_strips is taken. No width is a whole number of strips.
TILED_SIZES = [(47, 429), (48, 117), (27, 45), (21, 21), (7, 5)]
TILED_CHANNELS = [32, 40]


def shifted_products(first: Tensor, second: Tensor) -> Tensor:
    """The definition, without zeros around `second`: what looks outside of it stays 0."""
    n, _, h, w = first.shape
    volume = first.new_zeros(n, 81, h, w)
    for dy in range(-4, 5):
        for dx in range(-4, 5):
            here = (..., _overlap(h, dy), _overlap(w, dx))
            there = (..., _overlap(h, -dy), _overlap(w, -dx))
            volume[:, (dy + 4) * 9 + (dx + 4)][here] = (first[here] * second[there]).mean(1)
    return volume


def _overlap(size: int, shift: int) -> slice:
    """The coordinates that are still inside once `shift` is added."""
    return slice(max(0, -shift), max(0, size - max(0, shift)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("channels", [16, 32, 64, 96, 128, 196])
def test_constant_features_cost_one_at_every_pyramid_width_because_it_is_a_mean(channels, device):
    ones = torch.ones(1, channels, 9, 9, device=device)
    volume = cost_volume(ones, ones)
    assert torch.equal(volume[0, :, 4, 4], torch.ones(81, device=device))
    assert volume[0, 0, 0, 0] == 0  # up and left of the corner lies outside
    assert volume[0, 80, 0, 0] == 1


@pytest.mark.parametrize("device", DEVICES)
def test_channels_run_over_dy_then_dx(device):
    first, second = torch.ones(1, 1, 9, 9, device=device), torch.zeros(1, 1, 9, 9, device=device)
    second[..., 3, 6] = 1.0  # one up and two right of the centre (4, 4)
    assert cost_volume(first, second)[0, :, 4, 4].argmax() == (4 - 1) * 9 + (4 + 2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_the_definition_and_the_gradients_autograd_finds_for_it(shape, dtype, device):
    first, second = features(shape, device, dtype, requires_grad=True)
    volume = cost_volume(first, second)
    grad = torch.randn(volume.shape, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    volume.backward(grad)
    wide_first, wide_second = (t.detach().cpu().double().requires_grad_() for t in (first, second))
    expected = shifted_products(wide_first, wide_second)
    expected.backward(grad.cpu().double())
    assert relative_error(volume, expected) <= TOLERANCES[dtype]
    assert relative_error(first.grad, wide_first.grad) <= TOLERANCES[dtype]
    assert relative_error(second.grad, wide_second.grad) <= TOLERANCES[dtype]
    assert volume.dtype == first.grad.dtype == second.grad.dtype == dtype


def _views(shape, device, dtype):
    """Views that hold the same values as their contiguous copies, under other strides."""
    n, c, h, w = shape
    big_first, big_second = features((n, c + 1, h, w), device, dtype)
    yield "cut off a channel", big_first[:, :-1], big_second[:, :-1]
    first, second = features((n, h, w, c), device, dtype)
    yield "permuted", first.permute(0, 3, 1, 2), second.permute(0, 3, 1, 2)
    first, second = features((n, h, w, c + 24), device, dtype)
    yield "some channels", *(t.permute(0, 3, 1, 2)[:, 16:-8] for t in (first, second))
    yield "some channels, askew", *(t.permute(0, 3, 1, 2)[:, 1:-23] for t in (first, second))
    first, second = features(shape, device, dtype)
    yield (
        "channels last",
        first.contiguous(memory_format=torch.channels_last),
        second.contiguous(memory_format=torch.channels_last),
    )
    first, second = features((n, c, 2 * h + 1, 3 * w), device, dtype)
    yield "strided crop", first[:, :, 1::2, ::3], second[:, :, 1::2, ::3]
    first, second = features((1, c, h, 1), device, dtype)
    yield "expanded", first.expand(n, c, h, w), second.expand(n, c, h, w)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(2, 35, 6, 11), (2, 24, 21, 50), (2, 40, 21, 50)], ids=str)
def test_non_contiguous_batches_give_what_their_contiguous_copies_give(shape, dtype, device):
    for name, first, second in _views(shape, device, dtype):
        assert not (first.is_contiguous() and second.is_contiguous()), name
        expected = cost_volume(first.contiguous(), second.contiguous())
        assert relative_error(cost_volume(first, second), expected) < TOLERANCES[dtype], name
        for grad in (
            torch.randn_like(expected).transpose(2, 3).contiguous().transpose(2, 3),
            torch.randn_like(expected).contiguous(memory_format=torch.channels_last),
        ):
            actual = _cost_volume_backward(grad, first, second)
            wanted = _cost_volume_backward(
                grad.contiguous(), first.contiguous(), second.contiguous()
            )
            for one, other in zip(actual, wanted, strict=True):
                assert relative_error(one, other) < TOLERANCES[dtype], name


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", [(1, 196, 7, 17), (2, 40, 33, 65), (3, 5, 2, 3)], ids=str)
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("channels", [81, 88])
@pytest.mark.parametrize("offset", [0, 8, 3])
def test_a_leaky_volume_is_written_into_some_channels_only(
    shape, dtype, device, channels, copied, offset
):
    n, c, h, w = shape
    first, second = features(shape, device, dtype)
    if copied:
        channels = 88 + c
    for layout in (torch.channels_last, torch.contiguous_format):
        first, second = (
            first.contiguous(memory_format=layout),
            second.contiguous(memory_format=layout),
        )
        whole = torch.full((n, channels + 16, h, w), 7.0, dtype=dtype, device=device)
        whole = whole.contiguous(memory_format=layout)
        leaky_cost_volume(first, second, 0.1, whole[:, offset : offset + channels])
        expected = shifted_products(first.cpu().double(), second.cpu().double())
        expected = torch.where(expected > 0, expected, 0.1 * expected)
        actual = whole[:, offset : offset + 81]
        assert relative_error(actual, expected) <= TOLERANCES[dtype]
        assert (whole[:, offset + 81 : offset + min(channels, 88)] == 0).all()
        if copied:
            assert torch.equal(whole[:, offset + 88 : offset + channels], first)
        assert (whole[:, :offset] == 7).all()
        assert (whole[:, offset + channels :] == 7).all()


@pytest.mark.gpu
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("channels", TILED_CHANNELS)
@pytest.mark.parametrize("size", TILED_SIZES, ids=str)
def test_every_tiling_gives_the_leaky_volume_and_copies_the_features(size, channels, dtype, layout):
    first, second = (
        it.contiguous(memory_format=layout) for it in features((1, channels, *size), "cuda", dtype)
    )
    out = torch.full((1, 88 + channels, *size), 7.0, dtype=dtype, device="cuda")
    out = out.contiguous(memory_format=layout)
    leaky_cost_volume(first, second, 0.1, out)
    expected = shifted_products(first.double(), second.double())
    expected = torch.where(expected > 0, expected, 0.1 * expected)
    assert relative_error(out[:, :81], expected) <= TOLERANCES[dtype]
    assert (out[:, 81:88] == 0).all()
    assert torch.equal(out[:, 88:], first)


def test_these_sizes_and_channels_take_every_tiling():
    taken = {
        (
            dtype.itemsize,
            packed,
            *choose_tiling(torch.empty(1, channels, *size, dtype=dtype), packed),
        )
        for dtype in (torch.float16, torch.float32)
        for packed in (True, False)
        for channels in TILED_CHANNELS
        for size in TILED_SIZES
    }
    assert taken == {
        (size, packed, tiling, whole)
        for (size, packed, whole), tilings in TILINGS.items()
        for tiling in tilings.values()
    }


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(MAX_GRID + 1, 3, 1, 2), (1, 3, MAX_GRID + 1, 2)], ids=str)
def test_images_may_be_more_and_taller_than_a_grid_is(shape):
    first, second = features(shape, "cuda", torch.float16)
    expected = shifted_products(first.double(), second.double())
    assert relative_error(cost_volume(first, second), expected) <= TOLERANCES[torch.float16]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("slope", [-1.0, 0.0, 3.0])
def test_a_slope_may_be_any_number(slope, dtype, device):
    first, second = features((1, 16, 9, 20), device, dtype)
    out = torch.full((1, 81, 9, 20), 7.0, dtype=dtype, device=device)
    leaky_cost_volume(first, second, slope, out)
    expected = shifted_products(first.cpu().double(), second.cpu().double())
    expected = torch.where(expected > 0, expected, slope * expected)
    assert relative_error(out, expected) <= TOLERANCES[dtype]


def test_where_a_leaky_volume_cannot_go_is_named():
    first, second = features((1, 3, 4, 5), "cpu", torch.float32)
    with pytest.raises(ValueError, match=r"\(1, 81, 4, 5\), \(1, 88, 4, 5\).*\(1, 80, 4, 5\)"):
        leaky_cost_volume(first, second, 0.1, torch.zeros(1, 80, 4, 5))


@pytest.mark.parametrize("device", DEVICES)
def test_gradcheck_in_double_precision(device):
    first, second = features((1, 3, 2, 3), device, torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(cost_volume, (first, second))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck_of_both_operators(device, requires_grad):
    first, second = features((2, 3, 4, 5), device, torch.float32, requires_grad=requires_grad)
    torch.library.opcheck(_cost_volume, (first, second))
    grad = torch.randn(2, 81, 4, 5, device=device)
    torch.library.opcheck(_cost_volume_backward, (grad, first.detach(), second.detach()))
    out = torch.zeros(2, 88, 4, 5, device=device)
    torch.library.opcheck(_leaky_cost_volume, (first.detach(), second.detach(), 0.1, out))


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 5), r"\(1, 2, 3, 4\) and \(1, 2, 3, 5\)"),
        (torch.ones(2, 3, 4), torch.ones(2, 3, 4), "N, C, H, W"),
        (torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4).double(), "float32 on cpu and .*float64"),
        (torch.ones(1, 2, 3, 4).int(), torch.ones(1, 2, 3, 4).int(), "but it is torch.int32"),
        (torch.ones(1, 0, 3, 4), torch.ones(1, 0, 3, 4), "at least one channel"),
    ],
)
def test_mistakes_are_named(first, second, problem):
    with pytest.raises(ValueError, match=problem):
        cost_volume(first, second)
