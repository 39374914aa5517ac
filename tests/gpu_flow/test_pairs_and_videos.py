"""Pairs, batches and videos of any length, and images of every kind, have the flow of the CPU."""

from itertools import pairwise

import numpy as np
import pytest

from pwcflow import FlowEstimator
from pwcflow.inference.gpu_flow import BATCH_PIXELS, MOST_FRAMES
from tests.gpu_flow.checks import CLOSE, HEIGHT, LARGE, WIDTH, check
from tests.moving_textures import estimator, one_by_one, video

pytestmark = pytest.mark.gpu


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
    pays = 3_472_223  # of 60 x 120 pixels, the first to have 25,000,000,000 of them together
    for length, ways in [(None, {False}), (pays - 1, {False}), (pays, {False, True})]:
        flows = list(gpu.flows(frames[:18], expected=length))
        assert len(flows) == 17
        assert max(np.abs(np.subtract(flows, expected[:17])).mean((1, 2, 3))) <= 0.1
        assert {batch.fused for batch in gpu._gpu._idle} == ways


def test_a_video_again_gives_the_same_bit_for_bit(gpu, frames):
    first, second = (list(gpu.flows(frames)) for _ in range(2))
    assert all(map(np.array_equal, first, second))


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
