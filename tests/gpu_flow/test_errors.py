"""Bad frames, two sizes, and weights whose flow is not finite: errors after the flows before."""

from itertools import chain

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pwcflow import FlowEstimator
from pwcflow.errors import WeightsError
from pwcflow.inference import ChannelsLastNetwork, ExactNetwork
from pwcflow.inference.gpu_flow import MOST_FRAMES, GpuFlow
from pwcflow.network import PwcNet
from pwcflow.weights import load_weights
from tests.gpu_flow.checks import HEIGHT, WIDTH, check, until_error
from tests.moving_textures import broken

pytestmark = pytest.mark.gpu


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
