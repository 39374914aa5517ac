"""The plans of many convolutions are found at once, and only then are they computed."""

import math
import signal
import threading
import weakref
from functools import partial

import pytest
import torch

from pwcflow.cudnn import CudnnError, Geometry, convolve, exact_convolutions, planning
from pwcflow.cudnn.operations import PLAIN, Layout, W, X, Y, forward
from pwcflow.cudnn.plan_search import Request, _found, compute, in_threads
from pwcflow.inference import ChannelsLastNetwork
from pwcflow.network import PwcNet
from pwcflow.weights import load_weights

from .moving_textures import moved_pair
from .test_cudnn_graph import SLOPE, bias_of, check, expected_of, noise, operands, weight_of
from .test_inference import GPU_BOUNDS, flow_of, seen

MANY = 10_000
"""More than threads begin in the time in which one fails."""


@pytest.fixture(scope="module")
def state():
    return load_weights("default").state


def test_threads_give_what_a_function_makes_of_each_item_in_order():
    assert in_threads(lambda item: item**2, range(100)) == [item**2 for item in range(100)]
    assert in_threads(lambda item: item**2, []) == []


def test_several_threads_work_at_a_time(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    barrier = threading.Barrier(3)
    assert sorted(in_threads(lambda _: barrier.wait(timeout=60), range(3))) == [0, 1, 2]


@pytest.mark.usefixtures("no_thread_is_left_behind")
def test_after_an_error_nothing_more_is_begun():
    begun = []

    def work(item):
        begun.append(item)
        if item == 0:
            raise KeyError(item)
        threading.Event().wait(0.01)

    with pytest.raises(KeyError):
        in_threads(work, range(MANY))
    assert len(begun) < MANY


@pytest.mark.usefixtures("no_thread_is_left_behind")
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="Windows sends no such signal")
def test_after_an_interruption_nothing_more_is_begun():
    begun = []

    def work(item):
        begun.append(item)
        if item == 50:  # when all threads have been started
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        threading.Event().wait(0.01)

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(MANY))
    assert len(begun) < MANY


@pytest.mark.parametrize(("n", "channels", "h", "w"), [(2, 8, 3, 5), (1, 8, 1, 1), (3, 24, 2, 1)])
def test_a_tensor_like_some_channels_has_their_strides_and_memory_up_to_its_last(n, channels, h, w):
    wide = torch.empty((n, 24, h, w), dtype=torch.float16, memory_format=torch.channels_last)
    part = wide[:, :channels]
    like = Layout.of(part).empty(torch.device("cpu"))
    assert (like.shape, like.stride(), like.dtype) == (part.shape, part.stride(), part.dtype)
    # The pixels before the last have 24 channels each.
    assert like.untyped_storage().nbytes() == 2 * ((n * h * w - 1) * 24 + channels)


def test_what_is_noted_keeps_no_memory_and_after_an_error_nothing_is_planned():
    x, weight, out = torch.ones(1, 8, 4, 4), torch.ones(8, 8, 3, 3), torch.full((1, 8, 4, 4), 7.0)
    layouts = tuple(map(Layout.of, (x, weight, out)))
    request = Request(
        key=("a test's own",),
        device=x.device,
        operations=partial(forward, layouts[0], layouts[1], None, layouts[2], PLAIN, 1.0),
        names=(X, W, Y),
        layouts=layouts,
        written=2,
        most=1,
    )
    gone = weakref.ref(x)
    with pytest.raises(KeyError), planning():
        compute(request, [x, weight, out])
        del x
        assert gone() is None
        raise KeyError  # or it would be planned, for which a CPU has no cuDNN
    assert bool((out == 7).all())
    assert request.key not in _found


def test_on_a_cpu_everything_is_computed_as_always(state):
    network = ChannelsLastNetwork(state, torch.float32, torch.device("cpu")).fused()
    with torch.inference_mode():
        pair = [seen(image) for image in moved_pair(64, 64, 3, 1)]
        with planning():
            flow = flow_of(network, *pair)
        assert torch.equal(flow, flow_of(network, *pair))


@pytest.mark.gpu
def test_all_plans_of_a_network_are_found_before_it_runs(state):
    plain = PwcNet()
    plain.load_state_dict(state)
    network = ChannelsLastNetwork(state, torch.float16, torch.device("cuda")).fused()
    size, count = (128, 256), 5  # which no other test has
    pairs = [moved_pair(*size, 3, 1, seed=seed) for seed in range(count)]
    images = [seen(*some) for some in zip(*pairs, strict=True)]
    on_gpu = [some.half().contiguous(memory_format=torch.channels_last).cuda() for some in images]
    before = set(_found)
    with torch.inference_mode(), exact_convolutions():
        with planning():
            flow_of(network, *on_gpu)
        planned = set(_found) - before
        # Of 6 levels of the pyramid a convolution of stride 2 and others alike, of 5 decoders five
        # in the dense block and one behind it, and the 7 of the context network.
        assert len(planned) == 6 * 2 + 5 * 6 + 7
        flow = flow_of(network, *on_gpu)
        # Those that cuDNN cannot do with bias and LeakyReLU are done without.
        assert len(set(_found) - before - planned) == sum(_found[key] is None for key in planned)
        expected = flow_of(plain.requires_grad_(False), *images)
    assert float((flow.cpu() - expected).abs().mean()) <= GPU_BOUNDS[torch.float16]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_in_the_block_nothing_is_written_and_after_it_nothing_is_planned(dtype):
    geometry = Geometry(padding=2, dilation=2)
    wide = noise((3, 72, 14, 22), dtype)
    before = wide.clone()
    weight, bias = weight_of(24, 40, dtype), bias_of(24, dtype)
    known = set(_found)
    for _ in range(2):  # not known yet, and known
        with planning():
            convolve(wide[:, 24:64], weight, bias, wide[:, :24], geometry, SLOPE)
        assert torch.equal(wide, before)
    planned = set(_found)
    assert len(planned - known) == 1
    convolve(wide[:, 24:64], weight, bias, wide[:, :24], geometry, SLOPE)
    check(wide[:, :24], expected_of(before[:, 24:64], weight, bias, geometry))
    assert torch.equal(wide[:, 24:], before[:, 24:])
    assert set(_found) == planned


@pytest.mark.gpu
def test_what_makes_no_sense_is_left_out_and_refused_when_it_is_computed():
    dtype = torch.float16
    x, weight, bias = noise((1, 16, 10, 12), dtype), weight_of(16, 16, dtype), bias_of(16, dtype)
    out, small = noise((1, 16, 10, 12), dtype), noise((1, 16, 7, 12), dtype)
    with planning():
        convolve(x, weight, bias, small, slope=SLOPE)
        convolve(x, weight, bias, out, slope=SLOPE)
    with pytest.raises(CudnnError):
        convolve(x, weight, bias, small, slope=SLOPE)
    planned = set(_found)
    convolve(x, weight, bias, out, slope=SLOPE)
    check(out, expected_of(x, weight, bias, Geometry()))
    assert set(_found) == planned


@pytest.mark.gpu
def test_what_another_thread_computes_meanwhile_is_computed():
    dtype = torch.float16
    x, weight, out = operands(dtype, n=1, h=18)
    bias = bias_of(64, dtype)

    def work():
        convolve(x, weight, bias, out, slope=SLOPE)
        torch.cuda.synchronize()

    out.fill_(math.nan)
    with planning():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    check(out, expected_of(x, weight, bias, Geometry()))


@pytest.mark.gpu
def test_planning_leaves_random_numbers_as_they_would_be():
    dtype = torch.float16
    x, weight, out = operands(dtype, n=1, h=22)
    torch.cuda.manual_seed(5)
    expected = torch.rand(4, device="cuda")
    torch.cuda.manual_seed(5)
    with planning():
        convolve(x, weight, None, out)
    assert torch.equal(torch.rand(4, device="cuda"), expected)
