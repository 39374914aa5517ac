"""The network's first convolution in two parts, by hand and against PyTorch in double."""

import pytest
import torch
import torch.nn.functional as F

from pwcflow.cuda_kernels import MAX_GRID
from pwcflow.ops import split_convolution
from pwcflow.ops.split_convolution import choose_kernel

from .features import DEVICES

# Of the largest result: two parts hold 22 bits of a number in float16 and 16 in bfloat16, but for
# those that are smaller than anything float16 has.
TOLERANCES = {torch.float16: 2**-21, torch.bfloat16: 2**-16}
# (N, H, W) of the result: one pixel, odd widths, more than a block of threads, and more images than
# the kernel for tensor cores takes.
SIZES = [(1, 1, 1), (2, 3, 5), (1, 1, 4), (2, 17, 33), (3, 37, 47), (MAX_GRID + 1, 1, 3)]


def randn(shape, device, dtype=torch.float32, *, seed=0):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.to(device, dtype)


def arguments(n, h, w, device, dtype):
    """Return images in two parts, weight, bias, and a result of sevens."""
    images = randn((n, 2 * h, 2 * w, 8), device, dtype, seed=1)
    images[..., 3:6] *= 1e-3
    out = torch.full((n, h, w, 32), 7.0, device=device, dtype=dtype)
    weight, bias = randn((16, 3, 3, 3), device, seed=2), randn((16,), device, seed=3)
    return images.permute(0, 3, 1, 2), weight, bias, 0.1, out.permute(0, 3, 1, 2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_one_pixel_by_hand(dtype, device):
    images, weight, bias, slope, out = arguments(1, 1, 1, device, dtype)
    images.zero_()
    # Of 2 x 2 pixels the window about (0, 0) sees all, at its rows and columns 1 and 2.
    images[0, 0, 0, 0], images[0, 4, 1, 0], images[0, 7] = 1.0, 2.0, 100.0
    weight.zero_()
    weight[0, 0, 1, 1], weight[0, 1, 2, 1] = 0.5, 2.0**-14
    weight[1, 0, 1, 1] = -1.0
    bias.zero_()
    bias[0], bias[2] = 0.25, 0.5
    split_convolution(images, weight, bias, slope, out)
    found = out.flatten().tolist()
    # 0.25 + 0.5 + 2 * 2^-14: what is over 0.75 is less than a half of either type can add to it.
    assert found[:3] == [0.75, pytest.approx(-0.1, rel=2**-8), 0.5]
    assert found[16] == 2.0**-13
    assert found[1] + found[17] == pytest.approx(-0.1, rel=2**-15)
    assert found[3:16] + found[18:] == [0.0] * 27


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_its_parts_add_up_to_pytorch_s_result_in_double(size, dtype, device):
    images, weight, bias, slope, out = arguments(*size, device, dtype)
    split_convolution(images, weight, bias, slope, out)
    seen = images[:, :3].double() + images[:, 3:6].double()
    expected = F.conv2d(seen, weight.double(), bias.double(), stride=2, padding=1)
    expected = F.leaky_relu(expected, 0.1)
    high, low = out[:, :16].double(), out[:, 16:].double()
    largest = expected.abs().max()
    assert (high + low - expected).abs().max() <= TOLERANCES[dtype] * largest
    # The first part is the result rounded, but where float32's own error decides between two.
    assert (out[:, :16] != expected.to(dtype)).float().mean() < 0.01


@pytest.mark.parametrize("device", DEVICES)
def test_it_reads_and_writes_some_channels_of_wider_tensors(device):
    images, weight, bias, slope, out = arguments(2, 3, 5, device, torch.float16)
    split_convolution(images, weight, bias, slope, out)
    wide = torch.full((2, 3, 5, 48), 7.0, device=device, dtype=torch.float16).permute(0, 3, 1, 2)
    wide_images = torch.full((2, 6, 10, 24), 9.0, device=device, dtype=torch.float16)
    wide_images = wide_images.permute(0, 3, 1, 2)
    wide_images[:, 8:16] = images
    split_convolution(wide_images[:, 8:16], weight, bias, slope, wide[:, 8:40])
    assert torch.equal(wide[:, 8:40], out)
    assert bool((wide[:, :8] == 7).all())
    assert bool((wide[:, 40:] == 7).all())


def test_gpus_without_tensor_cores_and_many_images_get_the_kernel_that_runs_anywhere():
    out = torch.empty(2, 32, 224, 512, device="meta")
    assert choose_kernel(out, True) == ("split_convolution_strips", (32, 8, 2))
    # 224 x 256 pairs of pixels are 448 blocks of 128.
    assert choose_kernel(out, False) == ("split_convolution", 896)
    many = torch.empty(MAX_GRID + 1, 32, 1, 3, device="meta")
    assert choose_kernel(many, True) == ("split_convolution", MAX_GRID + 1)
    # 2^16 rows of 2^15 pairs of pixels are one more than a kernel can number.
    large = torch.empty(1, 32, 2**16, 2**16, device="meta")
    assert choose_kernel(large, False) is None
    assert choose_kernel(large, True) == ("split_convolution_strips", (4096, 2341, 1))


@pytest.mark.parametrize("device", DEVICES)
def test_no_images_give_none(device):
    *given, out = arguments(0, 2, 3, device, torch.float16)
    split_convolution(*given, out)
    assert out.shape == (0, 32, 2, 3)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    torch.library.opcheck(
        torch.ops.pwcflow.split_convolution.default, arguments(1, 2, 3, device, torch.float16)
    )


@pytest.mark.parametrize(
    ("index", "mistake", "problem"),
    [
        (0, lambda it: it[0], r"\(N, 8, 2H, 2W\).*\(8, 4, 6\)"),
        (0, lambda it: it[:, :3], r"\(N, 8, 2H, 2W\).*\(1, 3, 4, 6\)"),
        (0, lambda it: it[:, :, :3], r"\(N, 8, 2H, 2W\).*\(1, 8, 3, 6\)"),
        (0, lambda it: it.float(), r"float16 or bfloat16.*float32 and torch.float16"),
        (0, lambda it: it.contiguous(), "pixels at multiples of 16 bytes"),
        (1, lambda it: it.half(), r"weight must be \(16, 3, 3, 3\) of float32"),
        (2, lambda it: it[:8], r"bias must be \(16,\) of float32, but it is \(8,\)"),
        (3, lambda _: 1.5, "at most 1, but it is 1.5"),
        (4, lambda it: it[:, :16], r"\(N, 32, H, W\).*\(1, 16, 2, 3\)"),
        (4, lambda it: it.contiguous(), "pixels at multiples of 16 bytes"),
    ],
)
def test_mistakes_are_named(index, mistake, problem):
    given = list(arguments(1, 2, 3, "cpu", torch.float16))
    given[index] = mistake(given[index])
    with pytest.raises(ValueError, match=problem):
        split_convolution(*given)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("n", "height", "width"),
    [(1, 8192, 8200), (MAX_GRID + 2, 1, 1024)],
    ids=["large", "many"],
)
def test_offsets_past_two_to_the_31_are_right(n, height, width):
    def zeros(channels, *size):
        shape = (n, *size, channels)
        return torch.zeros(shape, device="cuda", dtype=torch.float16).permute(0, 3, 1, 2)

    images, out = zeros(8, 2 * height, 2 * width), zeros(32, height, width)
    assert min(images.numel(), out.numel()) > 2**31
    images[-1, 0, -1, -1] = -3  # which the last window alone sees
    weight, bias = torch.ones(16, 3, 3, 3, device="cuda"), torch.ones(16, device="cuda")
    split_convolution(images, weight, bias, 0.5, out)
    assert out[-1, :, -1, -1].tolist() == [-1] * 16 + [0] * 16
    assert out.sum(dtype=torch.float64) == out.numel() / 2 - 32
