"""cuDNN's convolutions on channels of larger tensors, against PyTorch's in double on the CPU."""

import threading

import pytest
import torch
import torch.nn.functional as F

from pwcflow import cudnn
from pwcflow.cudnn import CudnnError, Geometry, convolve
from pwcflow.cudnn.operations import Layout
from pwcflow.cudnn.plans import workspace_limit

from .features import relative_error

SLOPE = 0.1
# ‖error‖ / ‖expected‖: sums are in float32, and the halves are rounded once.
TOLERANCES = {torch.float16: 1e-3, torch.bfloat16: 6e-3}
N, H, W = 2, 20, 24

dtypes = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


def noise(shape, dtype, *, seed=0):
    """Return noise on the GPU, channels-last."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    # `contiguous` would leave the strides of a tensor of one pixel as they are.
    memory = torch.empty(shape, dtype=dtype, device="cuda", memory_format=torch.channels_last)
    return memory.copy_(values)


def weight_of(outputs, inputs, dtype, *, side=3, seed=1):
    """Return a weight that keeps the size of what it is applied to, channels-last."""
    return noise((outputs, inputs, side, side), dtype, seed=seed) / (side * inputs**0.5)


def bias_of(outputs, dtype):
    return torch.randn(outputs, generator=torch.Generator().manual_seed(2)).to("cuda", dtype)


def double(tensor):
    return tensor.double().cpu()


def expected_of(x, weight, bias, geometry):
    y = F.conv2d(
        double(x),
        double(weight),
        double(bias),
        geometry.stride,
        geometry.padding,
        geometry.dilation,
    )
    return F.leaky_relu(y, SLOPE)


def check(actual, expected):
    assert relative_error(actual, expected) <= TOLERANCES[actual.dtype]


def check_others(wide, before, channels):
    """Check that nothing but some channels changed."""
    mask = torch.ones(wide.shape[1], dtype=torch.bool)
    mask[channels] = False
    assert torch.equal(wide[:, mask], before[:, mask])


def operands(dtype, *, n=4, h=32, w=48):
    """Return an input, a weight, and room for the result, all of one width."""
    x, other = (noise((n, 64, h, w), dtype, seed=seed) for seed in (3, 4))
    return x, weight_of(64, 64, dtype), other


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_there_is_none_without_a_gpu():
    assert not cudnn.is_available()


def test_a_copy_of_large_slices_fits_the_workspace():
    # Two pairs of 1920 x 1080 at level 2, where the last layer sees 544 of 576 channels: the copy
    # is 2 * 544 * 272 * 480 halves, which are 284 MB.
    x, weight, out = (
        torch.empty(shape, dtype=torch.float16, device="meta")
        for shape in [(2, 544, 272, 480), (32, 544, 3, 3), (2, 32, 272, 480)]
    )
    assert 284_098_560 < workspace_limit(map(Layout.of, (x, weight, out))) < 1 << 30


@pytest.mark.gpu
def test_the_library_of_this_pytorch_is_found():
    assert cudnn.is_available()


@pytest.mark.gpu
@dtypes
@pytest.mark.parametrize(
    ("outputs", "dilation"), [(8, 1), (32, 1), (32, 2), (32, 4), (32, 8), (32, 16)]
)
def test_channels_between_others_of_the_same_tensor_are_written(outputs, dilation, dtype):
    geometry = Geometry(padding=dilation, dilation=dilation)
    wide = noise((N, 96, H, W), dtype)
    before = wide.clone()
    weight, bias = weight_of(outputs, 48, dtype), bias_of(outputs, dtype)
    start = 40 - outputs
    convolve(wide[:, 40:88], weight, bias, wide[:, start:40], geometry, SLOPE)
    check(wide[:, start:40], expected_of(before[:, 40:88], weight, bias, geometry))
    check_others(wide, before, slice(start, 40))


@pytest.mark.gpu
@dtypes
@pytest.mark.parametrize(("h", "w"), [(20, 24), (2, 4)])
def test_stride_two_halves_the_size(h, w, dtype):
    geometry = Geometry(stride=2)
    x, wide = noise((N, 16, h, w), dtype), noise((N, 56, h // 2, w // 2), dtype, seed=5)
    before = wide.clone()
    weight, bias = weight_of(32, 16, dtype), bias_of(32, dtype)
    convolve(x, weight, bias, wide[:, 16:48], geometry, SLOPE)
    check(wide[:, 16:48], expected_of(x, weight, bias, geometry))
    check_others(wide, before, slice(16, 48))


@pytest.mark.gpu
@dtypes
def test_images_of_one_pixel_are_taken(dtype):
    x, out = noise((3, 40, 1, 1), dtype), noise((3, 24, 1, 1), dtype)
    weight, bias = weight_of(16, 40, dtype), bias_of(16, dtype)
    convolve(x, weight, bias, out[:, :16], slope=SLOPE)
    check(out[:, :16], expected_of(x, weight, bias, Geometry()))


@pytest.mark.gpu
@dtypes
def test_by_hand_a_slope_of_one_is_no_leaky_relu_and_no_bias_is_none(dtype):
    x = torch.ones((1, 8, 3, 3), device="cuda", dtype=dtype)
    x = x.contiguous(memory_format=torch.channels_last)
    weight = torch.full((8, 8, 3, 3), -0.5, device="cuda", dtype=dtype)
    weight = weight.contiguous(memory_format=torch.channels_last)
    bias = torch.arange(8, device="cuda", dtype=dtype)
    counts = torch.tensor([[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]])  # of pixels seen
    sums = (-4.0 * counts).expand(1, 8, 3, 3)
    shifted = sums + torch.arange(8.0).view(1, 8, 1, 1)
    out = torch.empty_like(x)
    convolve(x, weight, None, out)
    assert torch.equal(out.float().cpu(), sums)
    convolve(x, weight, bias, out)
    assert torch.equal(out.float().cpu(), shifted)
    convolve(x, weight, bias, out, slope=0.5)
    assert torch.equal(out.float().cpu(), shifted / 2)


@pytest.mark.gpu
@dtypes
@pytest.mark.parametrize("slope", [SLOPE, 1.0])
def test_a_value_that_is_no_number_stays_one(slope, dtype):
    x, weight, out = operands(dtype, n=1)
    x[0, 5, 3, 3] = float("nan")
    convolve(x, weight, bias_of(64, dtype), out, slope=slope)
    assert bool(out[0, :, 2:5, 2:5].isnan().all())


@pytest.mark.gpu
def test_float32_is_refused():
    x, weight, out = operands(torch.float32, n=1)
    with pytest.raises(CudnnError, match="float32"):
        convolve(x, weight, None, out)


@pytest.mark.gpu
@dtypes
def test_results_repeat_bit_for_bit(dtype):
    x, weight, out = operands(dtype)
    bias = bias_of(64, dtype)
    expected = torch.empty_like(out)
    convolve(x, weight, bias, expected, slope=SLOPE)
    for _ in range(30):
        out.zero_()
        convolve(x, weight, bias, out, slope=SLOPE)
        assert torch.equal(out, expected)


@pytest.mark.gpu
@dtypes
def test_replays_in_a_cuda_graph(dtype):
    x, weight, expected = operands(dtype)
    bias = bias_of(64, dtype)
    still, found = torch.zeros_like(x), torch.zeros_like(expected)
    convolve(x, weight, bias, expected, slope=SLOPE)  # also finds the plan
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        convolve(still, weight, bias, found, slope=SLOPE)
    still.copy_(x)
    graph.replay()
    assert torch.equal(found, expected)


@pytest.mark.gpu
def test_a_plan_cannot_be_found_in_a_capture_but_after_it():
    dtype = torch.float16
    x, weight, out = (
        noise(shape, dtype) for shape in [(1, 16, 9, 11), (8, 16, 3, 3), (1, 8, 9, 11)]
    )
    bias = bias_of(8, dtype)
    out.fill_(2.0)  # loads its kernel
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(CudnnError, match="before a CUDA graph is captured"):
            convolve(x, weight, bias, out, slope=SLOPE)
        out.fill_(3.0)
    graph.replay()
    assert bool((out == 3).all())
    convolve(x, weight, bias, out, slope=SLOPE)
    check(out, expected_of(x, weight, bias, Geometry()))


@pytest.mark.gpu
@dtypes
def test_what_makes_no_sense_is_a_cudnn_error_every_time(dtype):
    x, weight, bias = noise((1, 16, 8, 8), dtype), weight_of(16, 16, dtype), bias_of(16, dtype)
    small, deep = noise((1, 16, 6, 8), dtype), weight_of(16, 24, dtype)
    for _ in range(2):
        with pytest.raises(CudnnError):
            convolve(x, weight, bias, small, slope=SLOPE)
        with pytest.raises(CudnnError):
            convolve(x, deep, None, torch.empty_like(x))
    out = torch.empty_like(x)
    convolve(x, weight, bias, out, slope=SLOPE)
    check(out, expected_of(x, weight, bias, Geometry()))


@pytest.mark.gpu
@dtypes
def test_three_channels_are_refused_or_right(dtype):
    x, weight, bias = noise((1, 3, 8, 8), dtype), weight_of(8, 3, dtype), bias_of(8, dtype)
    out = torch.full_like(noise((1, 8, 8, 8), dtype), 7.0)
    try:
        convolve(x, weight, bias, out, slope=SLOPE)
    except CudnnError:
        assert bool((out == 7).all())
    else:
        check(out, expected_of(x, weight, bias, Geometry()))


@pytest.mark.gpu
@dtypes
def test_work_is_queued_on_the_current_stream(dtype):
    x, weight, out = operands(dtype)
    bias = bias_of(64, dtype)
    other = noise(x.shape, dtype, seed=11)
    expected = torch.empty_like(out)
    convolve(other, weight, bias, expected, slope=SLOPE)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.copy_(other)
        convolve(x, weight, bias, out, slope=SLOPE)
    side.synchronize()
    assert torch.equal(out, expected)


@pytest.mark.gpu
def test_threads_with_streams_of_their_own_do_not_mix():
    dtype, widths = torch.float16, (32, 40, 48, 56)
    layers = {width: (weight_of(width, width, dtype), bias_of(width, dtype)) for width in widths}
    sources = {width: noise((2, width, 32, 48), dtype) for width in widths}
    expected = {width: torch.empty_like(source) for width, source in sources.items()}
    for width in widths:
        convolve(sources[width], *layers[width], expected[width], slope=SLOPE)
    torch.cuda.synchronize()
    wrong, failures = [], []

    def work(width):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                x, out = torch.empty_like(sources[width]), torch.empty_like(expected[width])
                for _ in range(200):
                    x.zero_()
                    out.zero_()
                    torch.cuda._sleep(200_000)
                    x.copy_(sources[width])
                    convolve(x, *layers[width], out, slope=SLOPE)
                    wrong.append(out.ne(expected[width]).any())
                torch.cuda.current_stream().synchronize()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(width,)) for width in widths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(wrong) == 200 * len(widths)
    assert not any(wrong)
