"""Images into the network and flow out of it, against hand-worked values and NumPy in double."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pwcflow.network import PYRAMID_STRIDE
from pwcflow.ops import finish_flow, image, prepare_images
from pwcflow.ops.dtypes import SCALAR_TYPES
from pwcflow.ops.image import _finish_flow, _plain_flow, _plain_images, _prepare_images

from .features import DEVICES, relative_error

# (H, W) before, (height, width) after: up, kept, down, in one axis only, from and to one pixel,
# more than a block's threads in a row and not a multiple of them.
SIZES = [
    ((2, 2), (4, 4)),
    ((5, 7), (5, 7)),
    ((5, 7), (64, 64)),
    ((37, 53), (11, 20)),
    ((13, 64), (64, 64)),
    ((9, 31), (9, 64)),
    ((1, 1), (3, 5)),
    ((4, 6), (1, 1)),
    ((1, 9), (7, 1)),
    ((3, 290), (5, 301)),
]
# Of values in 0..1. A position in a few hundred pixels is off by 1e-5, and so may a value be where
# neighbours are 0 and 1.
TOLERANCE = 3e-5
# Below 1 the halves round to within 2^-12 and 2^-9, and what that leaves over likewise.
ROUNDING = {torch.float64: 0, torch.float32: 0, torch.float16: 2**-12, torch.bfloat16: 2**-9}


def random_image(shape, dtype, device="cpu"):
    generator = np.random.default_rng(0)
    if dtype == torch.float32:
        values = generator.random(shape, dtype=np.float32)
    else:
        kind = {torch.uint8: np.uint8, torch.uint16: np.uint16}[dtype]
        values = generator.integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)
    return torch.from_numpy(values).to(device)


def random_flow(shape, dtype=torch.float32, device="cpu"):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


def resized(values, axis, size):
    """Return a double array resized along one axis, pixel centres at halves."""
    before = values.shape[axis]
    if before == size:
        return values
    position = np.maximum((np.arange(size) + 0.5) * before / size - 0.5, 0)
    lower = np.minimum(position.astype(int), before - 1)
    upper = np.minimum(lower + 1, before - 1)
    shape = [1] * values.ndim
    shape[axis] = size
    share = (position - lower).reshape(shape)
    return (1 - share) * values.take(lower, axis) + share * values.take(upper, axis)


def expected_images(pixels, height, width):
    """Return (N, 3, height, width), in double."""
    full = {torch.uint8: 255, torch.uint16: 65535, torch.float32: 1}[pixels.dtype]
    values = pixels.cpu().numpy().astype(np.float64) / full
    values = resized(resized(values, 1, height), 2, width)
    red, green, blue = (values[..., min(c, values.shape[3] - 1)] for c in range(3))
    return torch.from_numpy(np.stack([blue, green, red], axis=1))


def both_parts(found):
    """Return the sum, in double, of what was rounded and what that left over."""
    assert bool((found[:, 6:] == 0).all())
    return found[:, :3].double() + found[:, 3:6].double()


def expected_flow(flow, height, width):
    """Return (N, height, width, 2), in double."""
    _, _, h, w = flow.shape
    values = resized(resized(flow.double().cpu().numpy(), 2, height), 3, width)
    values *= 20 * np.array([width / (4 * w), height / (4 * h)]).reshape(1, 2, 1, 1)
    return torch.from_numpy(values).permute(0, 2, 3, 1)


def assert_close(actual, expected, atol):
    torch.testing.assert_close(actual.double().cpu(), expected, rtol=0, atol=atol)


def test_the_network_s_flow_fits_its_image():
    assert PYRAMID_STRIDE % image.FLOW_STRIDE == 0


@pytest.mark.parametrize("device", DEVICES)
def test_two_pixels_to_four_by_hand(device):
    # Output centres lie at -0.25, 0.25, 0.75, 1.25 of the input: the outer two are clamped.
    pixels = torch.tensor([[0, 51], [102, 255]], dtype=torch.uint8, device=device)
    found = prepare_images(pixels.view(1, 2, 2, 1), 4, 4, torch.float32)
    by_hand = torch.tensor(
        [
            [0.0, 12.75, 38.25, 51.0],
            [25.5, 44.625, 82.875, 102.0],
            [76.5, 108.375, 172.125, 204.0],
            [102.0, 140.25, 216.75, 255.0],
        ],
        dtype=torch.float64,
    )
    assert_close(
        found, torch.cat((by_hand.expand(3, 4, 4) / 255, torch.zeros(5, 4, 4)))[None], 1e-6
    )


@pytest.mark.parametrize("device", DEVICES)
def test_colours_become_blue_green_and_red(device):
    rgba = torch.tensor([255, 51, 0, 7], dtype=torch.uint8, device=device).view(1, 1, 1, 4)
    for pixels in (rgba, rgba[..., :3].contiguous()):
        found = prepare_images(pixels, 1, 1, torch.float32)
        assert found.flatten().tolist() == pytest.approx([0, 0.2, 1, 0, 0, 0, 0, 0])
    gray = torch.tensor([13107], dtype=torch.uint16).view(1, 1, 1, 1).to(device)
    found = prepare_images(gray, 1, 1, torch.float32)
    assert found.flatten().tolist() == pytest.approx([0.2, 0.2, 0.2, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("source", [torch.uint8, torch.uint16, torch.float32], ids=str)
def test_every_value_is_converted_exactly_where_the_size_is_kept(source, device):
    if source == torch.float32:
        pixels = random_image((1, 256, 256, 1), source)
    else:
        kind, full = (np.uint8, 255) if source == torch.uint8 else (np.uint16, 65535)
        values = np.arange(256 * 256).clip(0, full).astype(kind)
        pixels = torch.from_numpy(values).view(1, 256, 256, 1)
    full = {torch.uint8: 255, torch.uint16: 65535, torch.float32: 1}[source]
    expected = pixels.float() / full  # on the CPU, where PyTorch divides
    found = prepare_images(pixels.to(device), 256, 256, torch.float32).cpu()
    for c in range(3):
        assert torch.equal(found[0, c], expected[0, ..., 0])
    half = prepare_images(pixels.to(device), 256, 256, torch.float16).cpu()
    assert torch.equal(half[:, :3], found[:, :3].half())
    left_over = found[:, :3] - half[:, :3].float()
    assert torch.equal(half[:, 3:6], left_over.half())
    assert left_over.abs().max() > 2**-13


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("source", [torch.uint8, torch.uint16, torch.float32], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_equal_numpy_s_in_double(channels, source, dtype, device):
    for (h, w), (height, width) in SIZES:
        pixels = random_image((3, h, w, channels), source, device)
        found = prepare_images(pixels, height, width, dtype)
        assert found.dtype == dtype
        assert found.is_contiguous(memory_format=torch.channels_last)
        expected = expected_images(pixels, height, width)
        assert_close(found[:, :3], expected, TOLERANCE + ROUNDING[dtype])
        assert_close(both_parts(found), expected, TOLERANCE + 2 * ROUNDING[dtype] ** 2)


@pytest.mark.parametrize("device", DEVICES)
def test_a_constant_flow_is_scaled_by_each_axis_s_own_factor(device):
    # The network saw 64 x 64 pixels, the image has 48 x 32: 20 * 32 / 64 and 20 * 48 / 64.
    flow = torch.tensor([1.0, -2.0], device=device).view(1, 2, 1, 1).expand(1, 2, 16, 16)
    found, _ = finish_flow(flow, 48, 32)
    assert found.shape == (1, 48, 32, 2)
    assert_close(found, torch.tensor([10.0, -30.0]).double().expand(1, 48, 32, 2), 1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_flow_of_two_pixels_by_hand(device):
    flow = torch.tensor([[[[0.0, 4.0]], [[8.0, 8.0]]]], device=device)  # of an image of 4 x 8
    found, _ = finish_flow(flow, 4, 4)  # u times 20 * 4 / 8, v times 20 * 4 / 4
    row = [[0.0, 160.0], [10.0, 160.0], [30.0, 160.0], [40.0, 160.0]]
    assert_close(found, torch.tensor(row).double().expand(1, 4, 4, 2), 1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
def test_flow_equals_numpy_s_in_double(dtype, device):
    for (h, w), (height, width) in SIZES:
        flow = random_flow((3, 2, h, w), dtype, device)
        found, _ = finish_flow(flow, height, width)
        assert found.dtype == torch.float32
        assert found.is_contiguous()
        assert relative_error(found, expected_flow(flow, height, width)) < 1e-5, (h, w)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
def test_it_is_told_of_each_image_whether_its_flow_is_finite(dtype, device):
    flow = random_flow((5, 2, 16, 32), dtype, device)
    flow[1, 0, 0, 0] = float("nan")
    flow[3, 1, 15, 31] = float("inf")
    finite = torch.tensor([False, True, False, True, True], device=device)
    found, told = finish_flow(flow, 61, 120, finite=finite)
    assert told is finite
    assert finite.tolist() == [True, False, True, False, True]
    assert found.isfinite().flatten(1).all(1).tolist() == finite.tolist()


def _flow_views(shape, device):
    """Yield flow under unusual strides."""
    n, c, h, w = shape
    yield random_flow((n, h, w, c), device=device).permute(0, 3, 1, 2)
    yield random_flow((n, h, w, 8), device=device).permute(0, 3, 1, 2)[:, 5:7]
    yield random_flow((n, c, w, h), device=device).transpose(2, 3)
    yield random_flow((n, 2 * c, 2 * h, w + 3), device=device)[:, ::2, ::2, 2:-1]
    yield torch.ones((), device=device).expand(shape)


@pytest.mark.parametrize("device", DEVICES)
def test_flow_of_any_strides_gives_what_contiguous_copies_give(device):
    for flow in _flow_views((2, 2, 6, 11), device):
        found, _ = finish_flow(flow, 23, 41)
        assert relative_error(found, finish_flow(flow.contiguous(), 23, 41)[0]) < 1e-6


@pytest.mark.parametrize("device", DEVICES)
def test_results_are_written_into_what_is_given(device):
    pixels = random_image((2, 5, 7, 3), torch.uint8, device)
    many = torch.full((4, 64, 64, 8), 7.0, device=device).permute(0, 3, 1, 2)
    out = many[1:3]
    assert prepare_images(pixels, 64, 64, torch.float32, out) is out
    assert torch.equal(out, prepare_images(pixels, 64, 64, torch.float32))
    assert bool((many[0] == 7).all())
    assert bool((many[3] == 7).all())
    flow = random_flow((2, 2, 16, 16), device=device)
    many = torch.full((4, 5, 7, 2), 7.0, device=device)
    out = many[1:3]
    assert finish_flow(flow, 5, 7, out)[0] is out
    assert torch.equal(out, finish_flow(flow, 5, 7)[0])
    assert bool((many[0] == 7).all())
    assert bool((many[3] == 7).all())


@pytest.mark.parametrize("device", DEVICES)
def test_memory_that_begins_anywhere_will_do(device):
    pixels = random_image((2, 5, 7, 3), torch.uint8, device)
    shifted = torch.zeros(2 * 8 * 9 * 8 + 1, device=device, dtype=torch.float16)[1:]
    out = shifted.view(2, 8, 9, 8).permute(0, 3, 1, 2)
    prepare_images(pixels, 8, 9, torch.float16, out)
    torch.testing.assert_close(out, prepare_images(pixels, 8, 9, torch.float16))
    flow = random_flow((1, 2, 4, 4), device=device)
    out = torch.zeros(5 * 7 * 2 + 1, device=device)[1:].view(1, 5, 7, 2)
    torch.testing.assert_close(finish_flow(flow, 5, 7, out), finish_flow(flow, 5, 7))


@pytest.mark.parametrize("device", DEVICES)
def test_no_images_give_none(device):
    pixels = torch.zeros(0, 5, 7, 3, dtype=torch.uint8, device=device)
    assert prepare_images(pixels, 64, 64, torch.float16).shape == (0, 8, 64, 64)
    assert finish_flow(torch.zeros(0, 2, 4, 4, device=device), 5, 7)[0].shape == (0, 5, 7, 2)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck_of_both_operators(device):
    pixels = random_image((2, 5, 7, 3), torch.uint8, device)
    out = torch.zeros(2, 8, 8, 8, device=device).contiguous(memory_format=torch.channels_last)
    torch.library.opcheck(_prepare_images, (pixels, out))
    flow = random_flow((2, 2, 4, 4), device=device)
    out, finite = torch.zeros(2, 5, 7, 2, device=device), torch.zeros(2, device=device).bool()
    torch.library.opcheck(_finish_flow, (flow, out, finite))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pixels": torch.zeros(5, 7, 3, dtype=torch.uint8)}, r"shape is \(5, 7, 3\)"),
        ({"pixels": torch.zeros(1, 5, 7, 2, dtype=torch.uint8)}, "C = 1, 3 or 4"),
        ({"pixels": torch.zeros(1, 0, 7, 3, dtype=torch.uint8)}, r"\(1, 0, 7, 3\)"),
        ({"pixels": torch.zeros(1, 5, 7, 3, dtype=torch.int16)}, "but they are torch.int16"),
        ({"pixels": torch.zeros(1, 5, 7, 4, dtype=torch.uint8)[..., :3]}, "contiguous"),
        ({"height": 0}, "but they are 0 and 9"),
        ({"dtype": torch.int32}, "dtype must be one of .* but it is torch.int32"),
        ({"out": torch.zeros(1, 8, 8, 8)}, r"out must be \(1, 8, 8, 9\), torch.float32 on cpu"),
        ({"out": torch.zeros(1, 8, 8, 9).half()}, "but it is .* torch.float16"),
        ({"out": torch.zeros(1, 8, 8, 9)}, "out must be channels-last"),
    ],
)
def test_mistakes_with_images_are_named(changes, problem):
    right = {
        "pixels": torch.zeros(1, 5, 7, 3, dtype=torch.uint8),
        "height": 8,
        "width": 9,
        "dtype": torch.float32,
    }
    with pytest.raises(ValueError, match=problem):
        prepare_images(**(right | changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"flow": torch.zeros(1, 3, 4, 4)}, r"but its shape is \(1, 3, 4, 4\)"),
        ({"flow": torch.zeros(1, 2, 0, 4)}, r"but its shape is \(1, 2, 0, 4\)"),
        ({"flow": torch.zeros(1, 2, 4, 4).int()}, "but it is torch.int32"),
        ({"width": -1}, "but they are 5 and -1"),
        ({"out": torch.zeros(1, 2, 5, 7)}, r"out must be \(1, 5, 7, 2\), torch.float32 on cpu"),
        ({"out": torch.zeros(1, 2, 5, 7).permute(0, 2, 3, 1)}, "out must be contiguous"),
        ({"finite": torch.zeros(2).bool()}, r"finite must be \(1,\), torch.bool .* is \(2,\)"),
        ({"finite": torch.zeros(1)}, "finite must be .* torch.float32 on cpu"),
    ],
)
def test_mistakes_with_flow_are_named(changes, problem):
    right = {"flow": torch.zeros(1, 2, 4, 4), "height": 5, "width": 7}
    with pytest.raises(ValueError, match=problem):
        finish_flow(**(right | changes))


def test_the_kernels_take_every_dtype_the_tolerances_name():
    assert set(SCALAR_TYPES) == set(ROUNDING)


# Those of Sintel and KITTI.
FRAMES = [(436, 1024), (375, 1242)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("source", [torch.uint8, torch.uint16, torch.float32], ids=str)
def test_whole_frames_equal_plain_pytorch_s(source, dtype):
    for h, w in FRAMES:
        height, width = (-(-size // PYRAMID_STRIDE) * PYRAMID_STRIDE for size in (h, w))
        pixels = random_image((2, h, w, 3), source, "cuda")
        found = prepare_images(pixels, height, width, dtype)
        expected = torch.empty_like(found, dtype=torch.float32)
        _plain_images(pixels, expected)
        # Positions may differ in their last bit, which is 6e-5 px from 512 px on.
        tolerance = 2e-4 + TOLERANCE
        assert_close(found[:, :3], expected[:, :3].double().cpu(), tolerance + ROUNDING[dtype])
        assert_close(both_parts(found), both_parts(expected).cpu(), tolerance)
        flow = random_flow((2, 2, height // 4, width // 4), dtype, "cuda")
        expected = torch.empty(2, h, w, 2, device="cuda")
        _plain_flow(flow, expected, torch.empty(2, dtype=torch.bool, device="cuda"))
        assert relative_error(finish_flow(flow, h, w)[0], expected) < 1e-4


@pytest.mark.gpu
def test_every_output_element_is_written():
    poison = torch.full((64 << 20,), float("nan"), device="cuda")  # the pool hands this out again
    del poison
    pixels = random_image((2, 36, 100, 3), torch.uint8, "cuda")
    flow = random_flow((2, 2, 16, 32), device="cuda")
    for result in (prepare_images(pixels, 64, 128, torch.float16), *finish_flow(flow, 36, 100)):
        assert bool(result.isfinite().all())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_replays_in_a_cuda_graph(dtype):
    pixels = random_image((2, 37, 101, 3), torch.uint8, "cuda")
    flow = random_flow((2, 2, 16, 32), dtype, "cuda")
    static_pixels, static_flow = torch.zeros_like(pixels), torch.zeros_like(flow)
    expected = prepare_images(pixels, 64, 128, dtype), *finish_flow(flow, 37, 101)  # also compiles
    found = tuple(torch.zeros_like(tensor) for tensor in expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        prepare_images(static_pixels, 64, 128, dtype, found[0])
        finish_flow(static_flow, 37, 101, *found[1:])
    static_pixels.copy_(pixels)
    static_flow.copy_(flow)
    graph.replay()
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
def test_offsets_past_two_to_the_31_are_right():
    images, h, w = 6, 1 << 12, 1 << 14
    pixels = torch.zeros(images, h, w, 1, dtype=torch.uint8, device="cuda")
    pixels[-1, -1, -1] = pixels[4, 7, 9] = 255
    found = prepare_images(pixels, h, w, torch.float16)
    assert found.numel() > 2**31
    assert found[-1, :, -1, -1].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert found[4, :, 7, 9].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert sum(int(one.count_nonzero()) for one in found) == 6
    del found
    flow = torch.zeros(2, 2, 1 << 15, 1 << 14, device="cuda")  # 2^31 values
    flow[-1, :, -1, -1] = torch.tensor([1.0, 2.0])
    finished, _ = finish_flow(flow, 1 << 15, 1 << 14)
    assert finished[-1, -1, -1].tolist() == [5.0, 10.0]
    assert int(finished.count_nonzero()) == 2


def test_the_reference_is_what_pytorch_s_interpolate_gives():
    pixels = random_image((1, 37, 53, 3), torch.uint8)
    plain = pixels.permute(0, 3, 1, 2).flip(1).float() / 255
    plain = F.interpolate(plain, (64, 64), mode="bilinear", align_corners=False)
    assert_close(prepare_images(pixels, 64, 64, torch.float32)[:, :3], plain.double(), 1e-6)
