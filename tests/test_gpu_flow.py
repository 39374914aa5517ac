"""Flow on a GPU is that of the CPU: pairs, batches, videos of any length, threads, bad frames."""

import gc
import threading
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pwcflow import FlowEstimator
from pwcflow.errors import WeightsError
from pwcflow.inference import ChannelsLastNetwork, ExactNetwork
from pwcflow.inference.gpu_flow import BATCH_PIXELS, GRAPHS_KEPT, MOST_FRAMES, GpuFlow
from pwcflow.network import PwcNet
from pwcflow.weights import load_weights

from .moving_textures import broken, estimator, one_by_one, video

pytestmark = pytest.mark.gpu

HEIGHT, WIDTH = 60, 120
"""Stretched to 64 x 128; as many frames as there may be go through the network at a time."""
LARGE = 1072, 1900
"""One frame at a time."""
CLOSE = 1e-3


@pytest.fixture(autouse=True)
def recorded_from_the_second_frame_on(monkeypatch):
    monkeypatch.setattr("pwcflow.estimator.UNRECORDED", 1)


@pytest.fixture(scope="module")
def gpu():
    estimator = FlowEstimator(device="cuda")
    estimator(*video(2, HEIGHT, WIDTH))  # the first pair of a size is not recorded
    return estimator


@pytest.fixture(scope="module")
def frames():
    return video(2 * MOST_FRAMES + 4, HEIGHT, WIDTH)


@pytest.fixture(scope="module")
def expected(frames):
    """Return the flows of `frames` on the CPU."""
    return one_by_one(frames)


def check(flows, expected):
    """Check that flows are those expected, but for roundings."""
    assert len(flows) == len(expected)
    for flow, right in zip(flows, expected, strict=True):
        assert flow.dtype == np.float32
        assert flow.shape == right.shape
        assert np.abs(flow - right).max() <= CLOSE


def until_error(flows, kind, problem):
    """Return the flows that come before an error, and nothing comes after."""
    found = []
    with pytest.raises(kind, match=problem):
        for flow in flows:
            found.append(flow)
    assert list(flows) == []
    return found


def in_threads(*tasks):
    """Run functions at the same time, and return what each of them returns."""
    results, failures = {}, []
    barrier = threading.Barrier(len(tasks))

    def work(number, task):
        try:
            barrier.wait()
            results[number] = task()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    return [results[number] for number in range(len(tasks))]


def test_sizes_are_for_the_batches_that_the_tests_are_about():
    assert BATCH_PIXELS // (HEIGHT * WIDTH) >= MOST_FRAMES
    assert BATCH_PIXELS // (LARGE[0] * LARGE[1]) == 1


def test_a_pair_has_the_flow_of_the_cpu_and_the_way_back_another(gpu, frames, expected):
    check([gpu(*pair) for pair in pairwise(frames[:6])], expected[:5])
    check([gpu(frames[1], frames[0])], [estimator()(frames[1], frames[0])])


def test_a_pair_alone_equals_that_pair_in_a_batch(gpu, frames, expected):
    batch = gpu(np.stack(frames[:3]), np.stack(frames[1:4]))
    assert batch.shape == (3, HEIGHT, WIDTH, 2)
    check(batch, expected[:3])
    one = gpu(frames[0][None], frames[1][None])
    assert one.shape == (1, HEIGHT, WIDTH, 2)
    check(one, expected[:1])


def test_a_pair_s_flow_is_not_overwritten_by_the_next_one_s(gpu, frames):
    flow = gpu(*frames[:2])
    before = flow.copy()
    gpu(*frames[2:4])
    assert np.array_equal(flow, before)
    assert np.array_equal(gpu(*frames[:2]), before)


@pytest.mark.parametrize(
    "count", [0, 1, 2, MOST_FRAMES, MOST_FRAMES + 1, 2 * MOST_FRAMES, 2 * MOST_FRAMES + 3]
)
def test_a_video_of_any_length_has_the_flow_of_each_pair_in_order(count, gpu, frames, expected):
    flows = list(gpu.flows(iter(frames[:count])))
    check(flows, expected[: max(count - 1, 0)])
    assert np.abs(expected[0] - expected[1]).mean() > 1


def test_frames_one_at_a_time_have_the_flow_of_each_pair_in_order(gpu):
    frames = video(4, *LARGE)
    flows = list(gpu.flows(frames))
    assert len(flows) == 3
    for flow, pair in zip(flows, pairwise(frames), strict=True):
        # Single pixels may differ: see the test of the GPU against the CPU in test_accuracy.py.
        difference = np.abs(flow - gpu(*pair)).max(axis=2)
        assert difference.mean() <= 1e-4
        assert (difference <= CLOSE).mean() >= 0.999
    assert np.abs(flows[0] - flows[1]).mean() > 1


@pytest.mark.parametrize("unrecorded", [1, 3, 20])
@pytest.mark.parametrize("more", [-1, 0, 1, 2, 16])
def test_recording_begins_in_the_middle_of_a_video(
    unrecorded, more, gpu, frames, expected, monkeypatch
):
    monkeypatch.setattr("pwcflow.estimator.UNRECORDED", unrecorded)
    count = unrecorded + more
    check(list(gpu.flows(iter(frames[:count]))), expected[: max(count - 1, 0)])


def test_a_short_video_is_not_worth_a_recording(frames, expected, monkeypatch):
    monkeypatch.setattr("pwcflow.estimator.UNRECORDED", 4)
    gpu = FlowEstimator(device="cuda")
    for count in (3, 4):
        check(list(gpu.flows(frames[:count])), expected[: count - 1])
        assert not gpu._gpu._idle
    check(list(gpu.flows(frames[:5])), expected[:4])
    assert len(gpu._gpu._idle) == 1


def test_pairs_are_recorded_once_they_are_many(frames, expected, monkeypatch):
    monkeypatch.setattr("pwcflow.estimator.UNRECORDED", 3)
    gpu = FlowEstimator(device="cuda")
    check([gpu(*pair) for pair in pairwise(frames[:4])], expected[:3])
    assert not gpu._gpu._idle
    check([gpu(*pair) for pair in pairwise(frames[3:6])], expected[3:5])
    assert len(gpu._gpu._idle) == 1


def test_a_video_for_which_it_pays_has_the_same_flow_another_way(frames, expected):
    gpu = FlowEstimator(device="cuda", precision="fp16")
    pays = 1_388_889  # of 60 x 120 pixels, the first to have 10,000,000,000 of them together
    for length, ways in [(None, {False}), (pays - 1, {False}), (pays, {False, True})]:
        flows = list(gpu.flows(frames[:18], expected=length))
        assert len(flows) == 17
        assert max(np.abs(np.subtract(flows, expected[:17])).mean((1, 2, 3))) <= 0.1
        assert {batch.fused for batch in gpu._gpu._idle} == ways


def test_switches_are_the_program_s_own_between_two_flows(gpu, frames):
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, torch.cuda.current_stream()
    for _ in gpu.flows(frames):
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
        assert (cudnn.deterministic, torch.cuda.current_stream()) == before


def test_flows_are_not_overwritten_by_later_ones(gpu, frames):
    kept = [(flow, flow.copy()) for flow in gpu.flows(frames)]
    list(gpu.flows(frames[::-1]))
    assert all(np.array_equal(flow, copy) for flow, copy in kept)


def test_flows_stay_when_nothing_else_is_left(frames, expected):
    flows = list(FlowEstimator(device="cuda").flows(frames[:5]))
    gc.collect()
    torch.cuda.empty_cache()
    check(flows, expected[:4])


def test_a_video_again_gives_the_same_bit_for_bit(gpu, frames):
    first, second = (list(gpu.flows(frames)) for _ in range(2))
    assert all(map(np.array_equal, first, second))


@pytest.mark.parametrize("count", [1, 2, MOST_FRAMES, MOST_FRAMES + 4])
@pytest.mark.parametrize(
    ("last", "kind", "problem"),
    [
        (None, OSError, "the file ends here"),
        (
            np.zeros((HEIGHT, WIDTH + 1, 3), np.uint8),
            ValueError,
            r"\(60, 120, 3\) .*\(60, 121, 3\)",
        ),
        (np.zeros((HEIGHT, WIDTH, 4), np.uint8), ValueError, r"\(60, 120, 3\) .*\(60, 120, 4\)"),
        (np.zeros((HEIGHT, WIDTH, 3), np.uint16), ValueError, "uint8 is followed by .* uint16"),
        (np.zeros((1, HEIGHT, WIDTH, 3), np.uint8), ValueError, "a frame must be one image"),
        ([[0, 1]], TypeError, "numpy array, but it is a list"),
    ],
    ids=["broken file", "size", "channels", "dtype", "batch", "list"],
)
def test_what_is_wrong_with_a_frame_comes_after_the_flows_before_it(
    last, kind, problem, count, gpu, frames, expected
):
    rest = broken([], OSError("the file ends here")) if last is None else [last]
    found = until_error(gpu.flows(chain(frames[:count], rest)), kind, problem)
    check(found, expected[: count - 1])


def test_what_is_wrong_with_the_first_frame_comes_at_once(gpu):
    until_error(gpu.flows(broken([], OSError("no file"))), OSError, "no file")
    batch = np.zeros((2, HEIGHT, WIDTH, 3), np.uint8)
    until_error(gpu.flows([batch]), ValueError, "a frame must be one image")


def test_the_estimator_works_after_an_error(gpu, frames, expected):
    until_error(gpu.flows(broken(frames[:20], OSError("the end"))), OSError, "the end")
    check(list(gpu.flows(frames)), expected)


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ((64, 70, 3), (64, 71, 3), r"\(64, 70.* and \(64, 71"),
        ((64, 75, 3), (1, 64, 75, 3), r"\(64, 75.* and \(1, 64, 75"),
        ((2, 64, 70, 3), (1, 64, 70, 3), r"\(2, 64, 70.* and \(1, 64, 70"),
    ],
)
def test_two_sizes_are_a_mistake(first, second, problem, gpu):
    for _ in range(2):  # not recorded, and recorded
        with pytest.raises(ValueError, match=problem):
            gpu(np.zeros(first, np.uint8), np.zeros(second, np.uint8))


def test_a_pair_of_two_dtypes_is_treated_alike_however_often_it_comes(frames):
    gpu = FlowEstimator(device="cuda")
    first, second = frames[0], frames[1].astype(np.uint16) * 257
    results = []
    for _ in range(3):
        try:
            results.append(gpu(first, second).shape)
        except ValueError as error:
            results.append(str(error))
    assert results == results[:1] * 3


CONVERSIONS = {
    "RGBA": lambda frame: np.dstack((frame, frame[..., 0])),
    "gray": lambda frame: np.ascontiguousarray(frame[..., 0]),
    "gray with an axis": lambda frame: np.ascontiguousarray(frame[..., 1:2]),
    "uint16": lambda frame: frame.astype(np.uint16) * 257,
    "big-endian": lambda frame: (frame.astype(np.uint16) * 257).astype(">u2"),
    "float32": lambda frame: (frame / 255).astype(np.float32),
    "float64": lambda frame: frame / 255,
    "reversed": lambda frame: frame[:, ::-1],
    "read-only": lambda frame: np.frombuffer(frame.tobytes(), np.uint8).reshape(frame.shape),
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_images_of_every_kind_have_the_flow_of_the_cpu(convert, gpu, frames):
    frames = [convert(frame) for frame in frames[:3]]
    right = one_by_one(frames)
    check([gpu(*pair) for pair in pairwise(frames)], right)
    check(list(gpu.flows(frames)), right)


def test_colours_matter_and_alpha_does_not(gpu, frames):
    first, second = frames[:2]
    flow = gpu(first, second)
    opaque, noise = (np.full_like(first[..., :1], 255), second[..., ::-1][..., :1])
    with_alpha = gpu(np.dstack((first, opaque)), np.dstack((second, noise)))
    assert np.abs(with_alpha - flow).max() <= CLOSE
    assert np.abs(gpu(first[..., ::-1], second[..., ::-1]) - flow).max() > CLOSE


def test_closing_early_leaves_the_estimator_as_it_was(gpu, frames, expected):
    for taken in (0, 1, MOST_FRAMES - 1, MOST_FRAMES):
        flows = gpu.flows(frames)
        found = [next(flows) for _ in range(taken)]
        flows.close()
        check(found, expected[:taken])
        check([gpu(*frames[4:6])], expected[4:5])
        check(list(gpu.flows(frames)), expected)


def test_frames_are_not_all_read_ahead_of_the_flows(gpu, frames):
    left = iter(frames)
    flows = gpu.flows(left)
    next(flows)
    flows.close()
    assert len(list(left)) >= len(frames) - 2 * MOST_FRAMES - 1


def test_closing_early_on_one_stream_leaves_nothing_behind_for_another(gpu, frames, expected):
    list(gpu.flows(frames[:2]))
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(1_000_000)
            flows = gpu.flows(frames[::-1])
            next(flows)
            flows.close()
        check(list(gpu.flows(frames[:3])), expected[:2])


def test_a_generator_may_be_resumed_on_another_stream(gpu, frames, expected):
    flows = gpu.flows(frames)
    found = []
    for _ in expected:
        with torch.cuda.stream(torch.cuda.Stream()):
            found.append(next(flows))
    assert list(flows) == []
    check(found, expected)


def test_two_videos_at_a_time_do_not_mix(gpu, frames, expected):
    backward = frames[::-1]
    right = one_by_one(backward)
    both = list(zip(gpu.flows(frames), gpu.flows(backward), strict=True))
    check([one for one, _ in both], expected)
    check([other for _, other in both], right)
    between = gpu.flows(frames)
    next(between)
    check([gpu(*frames[4:6])], expected[4:5])
    check(list(between), expected[1:])


def test_threads_do_not_mix(gpu, frames, expected):
    backward = frames[::-1]
    right = one_by_one(backward)
    for _ in range(3):
        forth, back, pairs = in_threads(
            lambda: list(gpu.flows(frames)),
            lambda: list(gpu.flows(backward)),
            lambda: [gpu(*pair) for pair in pairwise(frames)],
        )
        check(forth, expected)
        check(back, right)
        check(pairs, expected)


def test_threads_may_all_bring_a_new_size(frames):
    gpu = FlowEstimator(device="cuda")
    videos = [[frame[y:, y:] for frame in frames[:3]] for y in (1, 2, 3)]

    def work(frames):
        return [*gpu.flows(frames), *(gpu(*pair) for pair in pairwise(frames))]

    found = in_threads(*(lambda frames=frames: work(frames) for frames in videos))
    for flows, images in zip(found, videos, strict=True):
        check(flows, 2 * one_by_one(images))


def test_graphs_are_kept_for_the_last_sizes_and_no_more(frames):
    gpu = FlowEstimator(device="cuda")

    def reserved(crops):
        """Use images of sizes of their own, and return how much memory is taken after it."""
        for crop in crops:
            pair = [np.ascontiguousarray(frame[crop:]) for frame in frames[:2]]
            right = [estimator()(*pair)]
            check([gpu(*pair)], right)
            check([gpu(*pair)], right)
            check(list(gpu.flows(pair)), right)
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    before = reserved(range(GRAPHS_KEPT))
    after = reserved(range(GRAPHS_KEPT, 2 * GRAPHS_KEPT + 2))
    assert len(gpu._gpu._idle) == GRAPHS_KEPT
    assert after <= before + (32 << 20)
    assert max(batch.height for batch in gpu._gpu._idle) <= HEIGHT - 2 * GRAPHS_KEPT


def test_the_memory_of_an_estimator_is_given_back_with_it(frames):
    def used():
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    def use():
        gpu = FlowEstimator(device="cuda")
        for pair in pairwise(frames[:3]):
            gpu(*pair)
        list(gpu.flows(frames[:3]))

    use()
    before = used()
    for _ in range(3):
        use()
    assert used() <= before + (32 << 20)


def flow_of(state, dtype, frames):
    """Return what `GpuFlow` finds, and whether it says it is finite: of a pair, and of a video."""
    device = torch.device("cuda")
    if dtype == torch.float32:
        plain = PwcNet().eval().requires_grad_(False)
        plain.load_state_dict(state)
        network = ExactNetwork(plain.to(device))
    else:
        network = ChannelsLastNetwork(state, dtype, device)
    gpu = GpuFlow(network, device)
    first, second = (frame[None] for frame in frames)
    ((flow, finite),) = gpu.along(frames)
    return [gpu.between(first, second), (flow[None], finite)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_weights_whose_flow_is_not_finite_are_found_out(dtype, frames):
    state = dict(load_weights("default").state)
    for flow, finite in flow_of(state, dtype, frames[:2]):
        assert finite is True
        assert np.isfinite(flow).all()
    state["context.12.bias"] = torch.tensor([float("nan"), 0.0])
    for flow, finite in flow_of(state, dtype, frames[:2]):
        assert finite is False
        assert np.isnan(flow[..., 0]).all()


@pytest.fixture
def overflowing(tmp_path):
    """Return a file of weights that are too large for float16, but give finite flow in float32."""
    state = dict(load_weights("default").state)
    for key in ("pyramid.levels.2.4.weight", "pyramid.levels.2.4.bias"):
        state[key] = 2.0**20 * state[key]
    save_file(state, tmp_path / "large.safetensors")
    return tmp_path / "large.safetensors"


def test_numbers_that_overflow_are_an_error_that_names_a_remedy(overflowing, frames):
    exact = FlowEstimator(overflowing, device="cuda")
    half = FlowEstimator(overflowing, device="cuda", precision="fp16")
    for _ in range(2):  # not recorded, and recorded
        assert np.isfinite(exact(*frames[:2])).all()
        with pytest.raises(WeightsError, match="no finite flow in fp16 here; use --precision fp32"):
            half(*frames[:2])
    assert until_error(half.flows(frames[:3]), WeightsError, "no finite flow in fp16") == []


@pytest.mark.gpu(count=2)
def test_a_second_gpu_gives_the_same_flow_and_does_not_become_current(frames, expected):
    other = FlowEstimator(device="cuda:1")
    assert torch.cuda.current_device() == 0
    found = []
    for flow in other.flows(frames):
        assert torch.cuda.current_device() == 0
        found.append(flow)
    check(found, expected)
    check([other(*frames[:2])], expected[:1])
    assert torch.cuda.current_device() == 0
