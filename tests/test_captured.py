"""The whole way as a CUDA graph gives what the network gives on the CPU, run after run."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from pwcflow.cudnn import exact_convolutions
from pwcflow.inference import ChannelsLastNetwork, ExactNetwork
from pwcflow.inference.captured import Batch, CapturedFlow
from pwcflow.network import PwcNet
from pwcflow.weights import load_weights

from .moving_textures import estimator, video

pytestmark = pytest.mark.gpu

HEIGHT, WIDTH = 60, 120
"""Stretched to 64 x 128."""


@pytest.fixture(scope="module", params=[ChannelsLastNetwork, ExactNetwork])
def network(request):
    estimator()  # is made here, outside of inference mode, as others use it too
    state = load_weights("default").state
    if request.param is ChannelsLastNetwork:
        return ChannelsLastNetwork(state, torch.float32, torch.device("cuda"))
    plain = PwcNet()
    plain.load_state_dict(state)
    return ExactNetwork(plain.cuda().requires_grad_(False))


@pytest.fixture(autouse=True)
def exact_inference():
    with torch.inference_mode(), exact_convolutions():
        yield


def captured(network, images, *, consecutive, dtype=torch.uint8):
    batch = Batch(images, HEIGHT, WIDTH, 3, dtype, consecutive)
    return CapturedFlow(network, batch, torch.device("cuda"))


def fill(flow, images):
    """Put images where a captured flow takes them from, and run it."""
    flow.pixels.copy_(torch.from_numpy(np.stack(images)))
    flow.run()


def check(found, pairs):
    """Check flows against those of the CPU."""
    expected = np.stack([estimator()(first, second) for first, second in pairs])
    assert found.dtype == torch.float32
    assert np.abs(found.cpu().numpy() - expected).max() <= 1e-3


def test_the_first_half_of_the_images_is_paired_with_the_second(network):
    frames = video(6, HEIGHT, WIDTH)
    flow = captured(network, 4, consecutive=False)
    assert flow.flow.shape == (2, HEIGHT, WIDTH, 2)
    for firsts, seconds in [(frames[:2], frames[2:4]), (frames[4:], frames[1:3])]:
        fill(flow, [*firsts, *seconds])
        check(flow.flow, zip(firsts, seconds, strict=True))
        assert flow.finite.tolist() == [True, True]


def test_consecutive_images_are_paired_and_the_first_with_the_last_of_the_run_before(network):
    frames = video(6, HEIGHT, WIDTH)
    flow = captured(network, 2, consecutive=True)
    assert flow.flow.shape == (2, HEIGHT, WIDTH, 2)
    fill(flow, frames[:2])
    check(flow.flow[1:], [frames[:2]])
    for start in (2, 4):
        fill(flow, frames[start : start + 2])
        check(flow.flow, pairwise(frames[start - 1 : start + 2]))
        assert flow.finite.tolist() == [True, True]


def test_images_one_at_a_time_are_each_paired_with_the_one_before(network):
    frames = video(4, HEIGHT, WIDTH)
    flow = captured(network, 1, consecutive=True)
    fill(flow, frames[:1])
    for first, second in pairwise(frames):
        fill(flow, [second])
        check(flow.flow, [(first, second)])


def test_a_run_repeats_bit_for_bit_into_the_same_memory(network):
    frames = video(4, HEIGHT, WIDTH)
    flow = captured(network, 2, consecutive=False)
    fill(flow, frames[:2])
    expected, place = flow.flow.clone(), flow.flow.data_ptr()
    fill(flow, frames[2:])
    assert not torch.equal(flow.flow, expected)
    for _ in range(20):
        fill(flow, frames[:2])
        assert torch.equal(flow.flow, expected)
    assert flow.flow.data_ptr() == place


def test_it_is_told_which_pair_s_flow_is_not_finite_and_only_for_that_run(network):
    frames = [frame / np.float32(255) for frame in video(4, HEIGHT, WIDTH)]
    flow = captured(network, 4, consecutive=False, dtype=torch.float32)
    fill(flow, [frames[0], np.full_like(frames[1], 3e38), *frames[2:]])
    assert flow.finite.tolist() == [True, False]
    check(flow.flow[:1], [(frames[0], frames[2])])
    fill(flow, frames)
    assert flow.finite.tolist() == [True, True]
    check(flow.flow, [(frames[0], frames[2]), (frames[1], frames[3])])


def test_two_of_them_do_not_share_what_they_remember(network):
    frames = video(6, HEIGHT, WIDTH)
    flows = [captured(network, 1, consecutive=True) for _ in range(2)]
    for flow, frame in zip(flows, frames[:2], strict=True):
        fill(flow, [frame])
    for flow, frame in zip(flows, frames[2:4], strict=True):
        fill(flow, [frame])
    check(flows[0].flow, [(frames[0], frames[2])])
    check(flows[1].flow, [(frames[1], frames[3])])


def test_a_graph_can_be_run_on_another_stream_than_it_was_made_on(network):
    frames = video(2, HEIGHT, WIDTH)
    flow = captured(network, 2, consecutive=False)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        fill(flow, frames)
        found = flow.flow.clone()
    stream.synchronize()
    check(found, [frames])
