"""Devices and precisions: those there are, how near they come, what they leave alone."""

import threading

import numpy as np
import pytest
import torch

from pwcflow import FlowEstimator
from pwcflow.device import _say_slow, find_precision, tell_if_slow
from pwcflow.errors import DeviceError

from .features import DEVICES
from .moving_textures import estimator, moved_pair


def test_an_unknown_precision_is_a_mistake():
    with pytest.raises(ValueError, match="fp32, fp16, bf16, auto: 'fp8'"):
        FlowEstimator(precision="fp8")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "auto:0", "cpu:0", "cuda:-1", ""])
def test_an_unknown_device_says_what_there_is(name):
    with pytest.raises(DeviceError, match="use auto, cpu, cuda or cuda:INDEX"):
        FlowEstimator(device=name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_a_gpu_that_is_not_here_is_an_error_and_auto_is_the_cpu():
    with pytest.raises(DeviceError, match=r"needs an NVIDIA GPU, but .*; use --device cpu"):
        FlowEstimator(device="cuda:0")
    assert FlowEstimator(device="auto").device == torch.device("cpu")


@pytest.mark.gpu
def test_a_gpu_number_that_does_not_exist_is_an_error():
    with pytest.raises(DeviceError, match="'cuda:64' does not exist"):
        FlowEstimator(device="cuda:64")


def test_bf16_stays_near_fp32_on_the_cpu():
    pair = moved_pair(64, 128, 3, 1)
    error = np.abs(estimator(precision="bf16")(*pair) - estimator()(*pair))
    assert 0 < error.mean() < 0.1


@pytest.mark.gpu
def test_fp16_and_bf16_stay_near_fp32_on_the_gpu():
    pair = moved_pair(256, 384, 7, 2)
    expected = estimator("cuda")(*pair)
    assert np.abs(estimator("cuda", "fp16")(*pair) - expected).mean() < 0.02
    assert np.abs(estimator("cuda", "bf16")(*pair) - expected).mean() < 0.1


@pytest.mark.gpu
def test_sizes_precisions_and_devices_follow_each_other_without_a_trace():
    pair = moved_pair(100, 120, 3, 0)
    before = estimator("cuda")(*pair)
    for device, precision in [("cuda", "fp16"), ("cpu", "fp32"), ("cuda", "bf16")]:
        estimator(device, precision)(*pair)
        estimator(device, precision)(*moved_pair(64, 64, 1, 0))
    assert np.array_equal(estimator("cuda")(*pair), before)


@pytest.mark.gpu(count=2)
def test_a_second_gpu_gives_a_batch_the_first_one_s_flow_and_does_not_become_current():
    pairs = moved_pair(100, 120, 3, 0), moved_pair(100, 120, -2, 1, seed=1)
    batch = [np.stack(images) for images in zip(*pairs, strict=True)]
    assert torch.cuda.current_device() == 0
    expected = estimator("cuda:0")(*batch)
    before = torch.cuda.memory_allocated(1)
    other = estimator("cuda:1")
    assert torch.cuda.memory_allocated(1) - before > 9_374_274 * 4  # its weights
    for _ in range(2):
        assert np.abs(other(*batch) - expected).max() <= 1e-3
        assert torch.cuda.current_device() == 0
        assert np.array_equal(estimator("cuda:0")(*batch), expected)


@pytest.mark.gpu
def test_a_side_stream_with_work_before_it_gives_the_same_flow():
    pair = moved_pair(128, 192, 3, 0)
    expected = estimator("cuda")(*pair)
    for _ in range(100):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(1_000_000)
            # The later ones are replayed from a recording, which rounds another way.
            assert np.abs(estimator("cuda")(*pair) - expected).max() <= 1e-3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_loading_draws_none_of_the_program_s_random_numbers(device, precision):
    before = torch.random.get_rng_state()
    FlowEstimator(device=device, precision=precision)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_global_switches_are_as_the_program_set_them_even_with_threads():
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    state = torch.random.get_rng_state(), torch.is_grad_enabled(), torch.get_num_threads()
    try:
        pair = moved_pair(64, 64, 1, 0)
        threads = [threading.Thread(target=estimator(), args=pair) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert torch.backends.cudnn.allow_tf32 is True
        assert torch.equal(torch.random.get_rng_state(), state[0])
        assert (torch.is_grad_enabled(), torch.get_num_threads()) == state[1:]
    finally:
        torch.backends.cudnn.allow_tf32 = before


def test_the_automatic_precision_is_one_that_the_device_has():
    device = torch.device("cpu")
    assert [find_precision(name, device) for name in ("fp32", "fp16")] == ["fp32", "fp16"]
    assert find_precision("auto", torch.device("cuda")) == "fp16"
    here = find_precision("auto", device)
    assert here in ("fp32", "bf16")
    model = FlowEstimator(device="cpu", precision="auto")
    assert model.precision == here
    assert np.array_equal(
        model(*moved_pair(64, 64, 3, 0)), estimator("cpu", here)(*moved_pair(64, 64, 3, 0))
    )


def test_that_float16_is_slow_on_a_cpu_is_told_once(caplog):
    _say_slow.cache_clear()
    FlowEstimator(device="cpu")
    FlowEstimator(device="cpu", precision="auto")
    FlowEstimator(device="cpu", precision="bf16")
    assert caplog.messages == []
    for _ in range(2):
        FlowEstimator(device="cpu", precision="fp16")
    assert caplog.messages == [
        "float16 is far slower than float32 on most CPUs, which lack hardware for it; "
        "--precision fp32 or auto is faster"
    ]


def test_of_float16_on_a_gpu_nothing_is_told(caplog):
    _say_slow.cache_clear()
    tell_if_slow("fp16", torch.device("cuda"))
    assert caplog.messages == []
