"""What only a GPU can show: streams, devices, graphs, repeatability, the fallback."""

import os
import subprocess
import sys
import threading

import pytest
import torch

from pwcflow.ops import cost_volume
from pwcflow.ops.cost_volume import _cost_volume_backward
from pwcflow.ops.cost_volume_cuda import kernels_for

from .features import TOLERANCES, features

pytestmark = pytest.mark.gpu


def busy(milliseconds: float) -> None:
    """Keep the current stream occupied so that unordered work would overtake it."""
    torch.cuda._sleep(int(milliseconds * 1.5e6))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_the_kernels_load_for_every_dtype(dtype):
    assert kernels_for(torch.empty(0, dtype=dtype, device="cuda")) is not None


def test_work_on_a_side_stream_keeps_its_order():
    first, second = features((1, 32, 40, 50), "cuda", torch.float32)
    expected = cost_volume(first, second)
    torch.cuda.synchronize()
    for _ in range(100):
        with torch.cuda.stream(torch.cuda.Stream()):
            late_first = torch.zeros_like(first)
            late_second = torch.zeros_like(second)
            busy(0.5)
            late_first.copy_(first)
            late_second.copy_(second)
            volume = cost_volume(late_first, late_second)
            torch.cuda.current_stream().synchronize()
        assert torch.equal(volume, expected)


def test_a_thousand_launches_give_one_answer():
    first, second = features((1, 196, 7, 16), "cuda", torch.float16)
    expected = cost_volume(first, second)
    grad = torch.randn_like(expected)
    expected_gradients = _cost_volume_backward(grad, first, second)
    for _ in range(1000):
        assert torch.equal(cost_volume(first, second), expected)
        for one, other in zip(
            _cost_volume_backward(grad, first, second), expected_gradients, strict=True
        ):
            assert torch.equal(one, other)


def test_replays_in_a_cuda_graph_forward_and_backward():
    first, second = features((2, 33, 16, 17), "cuda", torch.float32)
    expected = cost_volume(first, second)  # also compiles: a capture may not load a module
    grad = torch.randn_like(expected)
    expected_first, expected_second = _cost_volume_backward(grad, first, second)
    static_first, static_second = torch.zeros_like(first), torch.zeros_like(second)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        volume = cost_volume(static_first, static_second)
        grad_first, grad_second = _cost_volume_backward(grad, static_first, static_second)
    static_first.copy_(first)
    static_second.copy_(second)
    graph.replay()
    assert torch.equal(volume, expected)
    assert torch.equal(grad_first, expected_first)
    assert torch.equal(grad_second, expected_second)


# The compiler's own imports use parts of PyTorch that it deprecates.
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_compiles_without_a_graph_break_and_gives_the_same():
    first, second = features((1, 16, 12, 20), "cuda", torch.float32)
    compiled = torch.compile(lambda a, b: cost_volume(a, b).relu(), fullgraph=True)
    torch.testing.assert_close(compiled(first, second), cost_volume(first, second).relu())


@pytest.fixture
def new_memory_is_nan():
    """Have PyTorch fill with NaN whatever it allocates: outputs and kernels' buffers."""
    assert torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("new_memory_is_nan")
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", [(2, 35, 9, 37), (1, 196, 7, 16)], ids=str)
def test_every_element_of_outputs_and_buffers_is_written(shape, dtype):
    first, second = features(shape, "cuda", dtype)
    assert first.new_empty(first.shape).isnan().all()
    volume = cost_volume(first, second)
    gradients = _cost_volume_backward(torch.ones_like(volume), first, second)
    assert all(bool(result.isfinite().all()) for result in (volume, *gradients))


def test_takes_memory_from_torch_alone():
    import cupy

    first, second = features((1, 64, 32, 32), "cuda", torch.float32)
    cost_volume(first, second)
    assert cupy.get_default_memory_pool().used_bytes() == 0


def test_offsets_past_two_to_the_31_are_right():
    # 81 x 5200 x 5200 = 2.19e9 elements of output, C = 1: a probe at the far corner.
    size = 5200
    first = torch.ones(1, 1, size, size, device="cuda", dtype=torch.float16)
    second = torch.zeros_like(first)
    second[..., -1, -1] = 1
    volume = cost_volume(first, second)
    assert volume.numel() > 2**31
    assert volume[0, 40, -1, -1] == 1  # no displacement
    assert volume[0, 80, -5, -5] == 1  # four down and four right
    assert volume.sum(dtype=torch.float32) == 25  # the pixels within four of the corner
    _, grad_second = _cost_volume_backward(torch.ones_like(volume), first, second)
    assert grad_second[0, 0, -1, -1] == 25
    assert grad_second[0, 0, size // 2, size // 2] == 81


@pytest.mark.gpu(count=2)
def test_runs_on_a_second_gpu_while_the_first_is_current():
    first, second = features((2, 96, 28, 33), "cuda:0", torch.float32)
    expected = cost_volume(first, second)
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        volume = cost_volume(first.to(device), second.to(device))
        assert volume.device == torch.device(device)
        assert torch.equal(volume.to("cuda:0"), expected)
    assert torch.cuda.current_device() == 0


@pytest.mark.gpu(count=2)
def test_two_gpus_in_two_threads_give_what_one_gives():
    first, second = features((1, 64, 56, 70), "cuda:0", torch.float32)
    expected = cost_volume(first, second).cpu()
    wrong = []

    def work(device):
        mine = first.to(device), second.to(device)
        for _ in range(200):
            if not torch.equal(cost_volume(*mine).cpu(), expected):
                wrong.append(device)

    threads = [threading.Thread(target=work, args=(f"cuda:{i}",)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Each line makes CuPy unusable in one way before anything imports it.
BROKEN = {
    "no CuPy": "import sys; sys.modules['cupy'] = None",
    "no NVRTC": (
        "import cupy.cuda.compiler as compiler\n"
        "def missing(*_): raise RuntimeError('CuPy failed to load libnvrtc.so')\n"
        "compiler.nvrtc.createProgram = missing"
    ),
    "a GPU that NVRTC does not know": (
        "import cupy.cuda.compiler as compiler\n"
        "compiler._get_arch_for_options_for_nvrtc = lambda arch=None: ('-arch=sm_999', 'cubin')"
    ),
}


@pytest.mark.parametrize("breakage", BROKEN.values(), ids=BROKEN.keys())
def test_without_usable_cupy_the_gpu_runs_plain_torch_and_one_sentence_says_so(breakage, tmp_path):
    script = f"""
{breakage}
import torch
from pwcflow.ops import cost_volume, reference
first, second = torch.randn(2, 2, 33, 9, 9, device="cuda").unbind()
for _ in range(3):
    assert torch.equal(cost_volume(first, second), reference.cost_volume(first, second))
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "CUPY_CACHE_DIR": str(tmp_path)},
    )
    assert run.returncode == 0, run.stderr
    warnings = [line for line in run.stderr.splitlines() if line.strip()]
    assert len(warnings) == 1, run.stderr
    assert "plain PyTorch" in warnings[0]
    assert "pip install" in warnings[0]
