"""Videos that are left early, and several at a time: on streams, in threads, on a second GPU."""

import threading
from itertools import pairwise

import pytest
import torch

from pwcflow import FlowEstimator
from pwcflow.inference.gpu_flow import MOST_FRAMES
from tests.gpu_flow.checks import check
from tests.moving_textures import one_by_one

pytestmark = pytest.mark.gpu


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


def test_switches_are_the_program_s_own_between_two_flows(gpu, frames):
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, torch.cuda.current_stream()
    for _ in gpu.flows(frames):
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
        assert (cudnn.deterministic, torch.cuda.current_stream()) == before


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
