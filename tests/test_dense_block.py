"""Dense blocks and what goes into them, against the same written with PyTorch's operators."""

import pytest
import torch
import torch.nn.functional as F

from pwcflow.cudnn import exact_convolutions
from pwcflow.decoder_input import decoder_input
from pwcflow.dense_block import dense_block
from pwcflow.ops import reference
from pwcflow.ops.append import MOST_PARTS, add_up, append, append_backward

from .features import DEVICES, relative_error

SLOPE = 0.1
WIDTHS = (24, 16, 8)
# ‖error‖ / ‖expected‖. The halves round at every layer, to within 2^-11 and 2^-8.
TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 5e-6,
    torch.float16: 2e-3,
    torch.bfloat16: 2e-2,
}
# One pixel, fewer and more pixels than a block has rows of them; and channels, which the kernels
# take where they are multiples of 16 bytes and this network's all are.
SHAPES = [(1, 8, 1, 1), (2, 32, 5, 7), (1, 40, 37, 41), (3, 13, 4, 6)]


def randn(*shape, device, dtype, seed):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values = values.to(device, dtype)
    return values.contiguous(memory_format=torch.channels_last) if values.ndim == 4 else values


def block_operands(shape, device, dtype):
    """Return what a block is given; results before LeakyReLU are far from its kink.

    A half that is rounded across it would have quite another gradient.
    """
    n, channels, h, w = shape
    x = randn(*shape, device=device, dtype=dtype, seed=0)
    layers = []
    for i, width in enumerate(WIDTHS):
        weight = randn(width, channels, 3, 3, device=device, dtype=dtype, seed=1 + i)
        bias = torch.full((width,), 8.0, device=device, dtype=dtype)
        bias[::2] = -8.0
        layers.append((weight / (12 * channels**0.5), bias))
        channels += width
    return x, layers, randn(n, channels, h, w, device=device, dtype=dtype, seed=5)


def plain_block(x, layers):
    for weight, bias in layers:
        x = torch.cat((F.leaky_relu(F.conv2d(x, weight, bias, padding=1), SLOPE), x), dim=1)
    return x


def wide(tensors):
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_block_and_its_gradients_are_those_of_concatenations(device, dtype, shape):
    x, layers, grad = block_operands(shape, device, dtype)
    leaves = [x, *(parameter for layer in layers for parameter in layer)]
    exact = wide(leaves)
    expected = plain_block(exact[0], list(zip(exact[1::2], exact[2::2], strict=True)))
    for leaf in leaves:
        leaf.requires_grad_()
    with exact_convolutions():
        out = dense_block(x, layers, SLOPE)
        found = [out, *torch.autograd.grad(out, leaves, grad)]
    assert out.dtype == dtype
    wanted = [expected, *torch.autograd.grad(expected, exact, grad.double())]
    assert [t.shape for t in found] == [t.shape for t in wanted]
    errors = [relative_error(a.detach(), b.detach()) for a, b in zip(found, wanted, strict=True)]
    assert max(errors) <= TOLERANCES[dtype], errors


@pytest.mark.parametrize("device", DEVICES)
def test_appended_channels_by_hand(device):
    y = torch.tensor([1.0, -3.0, 0.0, 5.0], device=device).view(1, 4, 1, 1)
    bias = torch.tensor([1.0, 1.0, -2.0, -5.0], device=device)
    x = torch.tensor([7.0, -8.0, 9.0, -1.0], device=device).view(1, 4, 1, 1)
    tensors = [t.contiguous(memory_format=torch.channels_last) for t in (y, x)]
    out = append(tensors[0], bias, tensors[1], 0.5)
    assert out.flatten().tolist() == [2.0, -1.0, -1.0, 0.0, 7.0, -8.0, 9.0, -1.0]
    gradients = [torch.full_like(out, value)[:, :4] for value in (1.0, 2.0, 4.0)]
    grad_y, grad_bias = append_backward(gradients, out[:, :4], 0.5)
    assert grad_y.flatten().tolist() == [7.0, 3.5, 3.5, 3.5]  # 0 counts as below 0
    assert grad_bias.tolist() == [7.0, 3.5, 3.5, 3.5]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", range(1, MOST_PARTS + 1))
def test_halves_are_added_up_and_rounded_once(device, count):
    # 2048 + 1 is 2048 in float16, in which whole numbers go up in steps of 2 from there on.
    first = torch.full((2, 8, 3, 5), 2048.0, dtype=torch.float16, device=device)
    ones = torch.ones((2, 24, 3, 5), dtype=torch.float16, device=device)
    tensors = [t.contiguous(memory_format=torch.channels_last) for t in (first, ones)]
    total = add_up([tensors[0], *[tensors[1][:, 8:16]] * (count - 1)])
    rounded = {1: 2048, 2: 2048, 3: 2050, 4: 2052, 5: 2052, 6: 2052}[count]
    assert total.unique().tolist() == [rounded]  # 2051 and 2053 are halfway: to the even one


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("coarsest", [True, False])
def test_a_decoder_s_input_and_its_gradients_are_those_of_concatenations(
    device, dtype, shape, coarsest
):
    n, _, h, w = shape
    leaves = [randn(*shape, device=device, dtype=dtype, seed=seed) for seed in (0, 1)]
    if not coarsest:
        leaves += [randn(n, 2, h, w, device=device, dtype=dtype, seed=seed) for seed in (2, 3)]
    exact = wide(leaves)
    volume = F.leaky_relu(reference.cost_volume(*exact[:2]), SLOPE)
    zeros = volume.new_zeros(n, 7, h, w)
    parts = [volume, zeros] if coarsest else [volume, zeros, exact[0], *exact[2:], zeros[:, :4]]
    expected = torch.cat(parts, dim=1)
    grad = randn(*expected.shape, device=device, dtype=dtype, seed=4)
    for leaf in leaves:
        leaf.requires_grad_()
    x = decoder_input(*leaves[:2], None if coarsest else tuple(leaves[2:]), SLOPE)
    assert x.is_contiguous(memory_format=torch.channels_last)
    found = [x, *torch.autograd.grad(x, leaves, grad)]
    wanted = [expected, *torch.autograd.grad(expected, exact, grad.double())]
    assert [t.shape for t in found] == [t.shape for t in wanted]
    errors = [relative_error(a.detach(), b.detach()) for a, b in zip(found, wanted, strict=True)]
    assert max(errors) <= TOLERANCES[dtype], errors
