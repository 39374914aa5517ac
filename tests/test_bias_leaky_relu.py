"""The fused bias and LeakyReLU against hand-worked values and PyTorch's own, forward and back."""

import pytest
import torch
import torch.nn.functional as F

from pwcflow.ops import bias_leaky_relu
from pwcflow.ops.bias_leaky_relu import _bias_leaky_relu, _bias_leaky_relu_backward
from pwcflow.ops.dtypes import SCALAR_TYPES

from .features import DEVICES, relative_error

SLOPE = 0.1
LAYOUTS = [torch.channels_last, torch.contiguous_format]
# No images, no pixels, one value, the kernels' scalars (C no multiple of 8) and packs, more
# channels than a block has threads, more pixels than all blocks have rows.
SHAPES = [
    (0, 8, 3, 5),
    (2, 3, 0, 4),
    (1, 1, 1, 1),
    (1, 8, 1, 1),
    (1, 1, 37, 41),
    (3, 3, 5, 7),
    (2, 8, 6, 11),
    (1, 16, 37, 41),
    (3, 33, 5, 7),
    (2, 96, 13, 9),
    (2, 128, 9, 13),
    (1, 300, 3, 5),
    (1, 4104, 3, 5),
    (2, 16, 300, 301),
]
# ‖error‖ / ‖expected‖. The halves are rounded once, to within 2^-11 and 2^-8 of each value; for the
# others it is the order of the sums that differs.
TOLERANCES = {
    torch.float64: 1e-13,
    torch.float32: 1e-6,
    torch.float16: 5e-4,
    torch.bfloat16: 4e-3,
}


def randn(shape, device, dtype, *, seed=0, layout=torch.contiguous_format):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values = values.to(device, dtype)
    return values.contiguous(memory_format=layout) if values.ndim == 4 else values


def operands(shape, device, dtype, layout=torch.channels_last):
    """Return x, bias and a gradient; x + bias is exact in every dtype and never 0.

    For x is a quarter of a whole number plus an eighth, and bias half of a whole number.
    """
    x = (randn(shape, device, torch.float64, layout=layout) * 4).round() / 4 + 0.125
    bias = (randn(shape[1:2], device, torch.float64, seed=1) * 2).round() / 2
    grad = randn(shape, device, dtype, seed=2, layout=layout)
    return x.to(dtype), bias.to(dtype), grad


def expected_of(x, bias, grad):
    """Return y, grad_x, grad_bias by PyTorch's operators in double."""
    x, bias = (tensor.detach().double().requires_grad_() for tensor in (x, bias))
    y = F.leaky_relu(x + bias.view(-1, 1, 1), SLOPE)
    return y.detach(), *torch.autograd.grad(y, (x, bias), grad.double())


def check(actual, expected, dtype):
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == dtype
        assert relative_error(one, other) <= TOLERANCES[dtype]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_values_by_hand(layout, device):
    x = torch.tensor([[[[1.0, -3.0]], [[4.0, 0.5]]]], device=device)  # two channels, two pixels
    x = x.contiguous(memory_format=layout).requires_grad_()
    bias = torch.tensor([1.0, -2.0], device=device, requires_grad=True)
    y = bias_leaky_relu(x, bias, 0.5)
    assert y.tolist() == [[[[2.0, -1.0]], [[2.0, -0.75]]]]
    grad = torch.tensor([[[[10.0, 20.0]], [[30.0, 40.0]]]], device=device)
    grad_x, grad_bias = torch.autograd.grad(y, (x, bias), grad)
    assert grad_x.tolist() == [[[[10.0, 10.0]], [[30.0, 20.0]]]]
    assert grad_bias.tolist() == [20.0, 50.0]


@pytest.mark.parametrize("device", DEVICES)
def test_at_zero_the_gradient_is_the_slope_as_in_pytorch(device):
    x = torch.full((1, 1, 1, 1), -2.0, device=device, requires_grad=True)
    bias = torch.full((1,), 2.0, device=device)
    for y in (bias_leaky_relu(x, bias, 0.25), F.leaky_relu(x + bias, 0.25)):
        assert torch.autograd.grad(y, x)[0].item() == 0.25


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_pytorch_s_operators_in_double(shape, layout, dtype, device):
    x, bias, grad = operands(shape, device, dtype, layout)
    x.requires_grad_()
    bias.requires_grad_()
    y = bias_leaky_relu(x, bias, SLOPE)
    grad_x, grad_bias = torch.autograd.grad(y, (x, bias), grad)
    check((y, grad_x, grad_bias), expected_of(x, bias, grad), dtype)
    for result in (y, grad_x):  # PyTorch calls nothing empty channels-last
        assert result.is_contiguous(memory_format=layout) or not x.numel()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_gradients_and_results_may_be_some_channels_of_a_wider_tensor(dtype, device):
    # As `torch.cat` hands them back: from any channel on, of rows of any length.
    for c, first, width in [(8, 0, 24), (8, 8, 24), (8, 3, 24), (8, 8, 21), (3, 5, 16), (1, 2, 4)]:
        x, bias, _ = operands((2, c, 5, 7), device, dtype)
        wide = randn((2, width, 5, 7), device, dtype, seed=3, layout=torch.channels_last)
        grad = wide[:, first : first + c]
        y = bias_leaky_relu(x, bias, SLOPE)
        expected = expected_of(x, bias, grad)[1:]
        check(_bias_leaky_relu_backward(grad, y, SLOPE), expected, dtype)
        sign = randn(wide.shape, device, dtype, seed=4, layout=torch.channels_last)
        sign[:, first : first + c] = y
        actual = _bias_leaky_relu_backward(grad, sign[:, first : first + c], SLOPE)
        check(actual, expected, dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_a_concatenation(device):
    x, bias, _ = operands((2, 16, 5, 7), device, torch.float32)
    other, *_ = operands((2, 24, 5, 7), device, torch.float32)
    grad = randn((2, 40, 5, 7), device, torch.float32, seed=3, layout=torch.channels_last)
    x.requires_grad_()
    bias.requires_grad_()
    joined = torch.cat((bias_leaky_relu(x, bias, SLOPE), other), dim=1)
    actual = torch.autograd.grad(joined, (x, bias), grad)
    check(actual, expected_of(x, bias, grad[:, :16])[1:], torch.float32)


def _views(shape, device):
    """Yield tensors of one shape under unusual strides."""
    n, c, h, w = shape
    yield "transposed", randn((n, c, w, h), device, torch.float32).transpose(2, 3)
    yield "crop", randn((n, c, 2 * h, w + 3), device, torch.float32)[:, :, ::2, 2:-1]
    wide = randn((n, c, h, w + 3), device, torch.float32, layout=torch.channels_last)
    yield "channels-last crop", wide[..., 1:-2]
    yield (
        "every other channel",
        randn((n, h, w, 2 * c), device, torch.float32).permute(0, 3, 1, 2)[:, ::2],
    )
    yield "one value", torch.ones((), device=device).expand(shape)
    yield "one row", randn((1, c, 1, 1), device, torch.float32).expand(shape)


@pytest.mark.parametrize("device", DEVICES)
def test_any_strides_give_what_contiguous_copies_give(device):
    shape = (2, 16, 6, 11)
    x, bias, _ = operands(shape, device, torch.float32)
    y = bias_leaky_relu(x, bias, SLOPE)
    for name, view in _views(shape, device):
        copy = view.contiguous()
        plain = bias_leaky_relu(view, bias, SLOPE)
        assert relative_error(plain, bias_leaky_relu(copy, bias, SLOPE)) < 1e-6, name
        for sign in (y, y.contiguous()):
            actual = _bias_leaky_relu_backward(view, sign, SLOPE)
            for one, other in zip(actual, expected_of(x, bias, copy)[1:], strict=True):
                assert relative_error(one, other) < 1e-6, name
    every_other = torch.stack((bias, bias), dim=1)[:, 0]
    assert torch.equal(bias_leaky_relu(x, every_other, SLOPE), y)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_gradcheck_in_double_precision(layout, device):
    x, bias, _ = operands((2, 4, 3, 5), device, torch.float64, layout)
    inputs = x.requires_grad_(), bias.requires_grad_(), SLOPE
    assert torch.autograd.gradcheck(bias_leaky_relu, inputs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("shape", [(2, 8, 4, 5), (2, 3, 4, 5), (2, 8, 1, 1)], ids=str)
def test_opcheck_of_both_operators(shape, layout, requires_grad, device):
    x, bias, grad = operands(shape, device, torch.float32, layout)
    y = bias_leaky_relu(x, bias, SLOPE)
    torch.library.opcheck(_bias_leaky_relu_backward, (grad, y, SLOPE))
    x.requires_grad_(requires_grad)
    bias.requires_grad_(requires_grad)
    torch.library.opcheck(_bias_leaky_relu, (x, bias, SLOPE))


@pytest.mark.parametrize(
    ("x", "bias", "slope", "problem"),
    [
        (torch.ones(1, 2, 3, 4), torch.ones(3), 0.1, r"\(1, 2, 3, 4\) and \(3,\)"),
        (torch.ones(2, 3, 4), torch.ones(3), 0.1, "N, C, H, W"),
        (torch.ones(1, 2, 3, 4), torch.ones(2).double(), 0.1, "float32 on cpu and .*float64"),
        (torch.ones(1, 2, 3, 4).int(), torch.ones(2).int(), 0.1, "but it is torch.int32"),
        (torch.ones(1, 2, 3, 4), torch.ones(2), 0.0, "above 0, but it is 0.0"),
        (torch.ones(1, 2, 3, 4), torch.ones(2), float("nan"), "above 0, but it is nan"),
    ],
)
def test_mistakes_are_named(x, bias, slope, problem):
    with pytest.raises(ValueError, match=problem):
        bias_leaky_relu(x, bias, slope)


def test_the_kernels_take_every_dtype_the_tolerances_name():
    assert set(SCALAR_TYPES) == set(TOLERANCES)


@pytest.mark.gpu
def test_a_thousand_launches_give_one_answer():
    x, bias, grad = operands((2, 16, 100, 101), "cuda", torch.float16)
    y = bias_leaky_relu(x, bias, SLOPE)
    expected = _bias_leaky_relu_backward(grad, y, SLOPE)
    for _ in range(1000):
        assert torch.equal(bias_leaky_relu(x, bias, SLOPE), y)
        actual = _bias_leaky_relu_backward(grad, y, SLOPE)
        assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("c", [16, 33])
def test_every_output_element_is_written(c):
    x, bias, grad = operands((2, c, 100, 101), "cuda", torch.float32)
    poison = torch.full((64 << 20,), float("nan"), device="cuda")  # the pool hands this out again
    del poison
    y = bias_leaky_relu(x, bias, SLOPE)
    gradients = _bias_leaky_relu_backward(grad, y, SLOPE)
    assert all(bool(tensor.isfinite().all()) for tensor in (y, *gradients))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("c", [16, 33])
def test_replays_in_a_cuda_graph_forward_and_backward(c, dtype):
    x, bias, _ = operands((2, c, 16, 17), "cuda", dtype)
    wide = randn((2, c + 8, 16, 17), "cuda", dtype, seed=3, layout=torch.channels_last)
    grad = wide[:, :c]

    def step(x, bias):
        y = bias_leaky_relu(x, bias, SLOPE)
        return y, *torch.autograd.grad(y, (x, bias), grad)

    static_x, static_bias = (torch.zeros_like(t).requires_grad_() for t in (x, bias))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # also compiles: a capture may not load a module
        expected = step(x.requires_grad_(), bias.requires_grad_())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = step(static_x, static_bias)
    with torch.no_grad():
        static_x.copy_(x)
        static_bias.copy_(bias)
    graph.replay()
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
def test_offsets_past_two_to_the_31_are_right():
    shape = (1, 8, 1 << 14, (1 << 14) + 8)
    x = torch.empty(shape, device="cuda", dtype=torch.float16, memory_format=torch.channels_last)
    assert x.numel() > 2**31
    x.zero_()[0, :, -1, -1] = -3
    y = bias_leaky_relu(x, torch.ones(8, device="cuda", dtype=torch.float16), 0.5)
    assert y[0, :, -1, -1].tolist() == [-1] * 8
    assert y.sum(dtype=torch.float64) == x.numel() - 16
    del x
    grad = torch.zeros_like(y)
    grad[0, :, -1, -1] = 6
    grad_x, grad_bias = _bias_leaky_relu_backward(grad, y, 0.5)
    assert grad_x[0, :, -1, -1].tolist() == [3] * 8
    assert grad_bias.tolist() == [3] * 8
