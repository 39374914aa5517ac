"""How fast the network and its cost volume are, beside others, in one run; writes one JSON object.

Run on a machine with a GPU, from the top of a checkout: python -m tests.benchmarks.speed OUTPUT
torchvision's RAFT and the package localcorr take part where they are installed.

The others run as somebody who wants them fast would: cuDNN may choose the fastest of its
algorithms, and images lie on the GPU in the form that they take.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from pwcflow.bench.images import textured_pairs
from pwcflow.bench.network import measure_pairs
from pwcflow.bench.report import pair_summary, volume_summary
from pwcflow.bench.timing import forget_memory, out_of_gpu_memory, peak_memory, time_calls
from pwcflow.bench.volumes import localcorr_volume, measure_volume
from pwcflow.estimator import PRECISIONS, FlowEstimator
from pwcflow.network import DECODER_LEVELS, PwcNet, network_size
from pwcflow.weights import load_weights
from tests.benchmarks.agreement import missing_kernels
from tests.benchmarks.machine import described

HEIGHT, WIDTH = 436, 1024
REPEATS = 50
COMPILE_SECONDS = 240
RAFT_STRIDE = 8
GPU = torch.device("cuda")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", nargs="?", type=Path, help="written anew after each figure")
    parser.add_argument("--compile-seconds", type=float, default=COMPILE_SECONDS)
    parser.add_argument("--compiled", choices=PRECISIONS, help="print this one row only")
    chosen = parser.parse_args()
    if (chosen.output is None) == (chosen.compiled is None):
        parser.error("give OUTPUT, or --compiled")
    if reason := missing_kernels():
        sys.exit(f"error: {reason}")
    if chosen.compiled:
        print(json.dumps(compiled(chosen.compiled)))
        return
    for result in measure(chosen.compile_seconds):
        chosen.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def measure(compile_seconds: float) -> Iterator[dict[str, Any]]:
    """Yield all figures, as far as they are measured: what takes long to prepare comes last."""
    networks: list[dict[str, object]] = []
    result = {
        "machine": described(),
        "torchvision": _version("torchvision"),
        "localcorr": _version("localcorr") if localcorr_volume(GPU) else None,
        "pair": f"{WIDTH} x {HEIGHT}",
        "repeats": REPEATS,
        "networks": networks,
        "cost_volume": {precision: cost_volumes(precision) for precision in ("fp16", "fp32")},
    }
    for row in network_rows(compile_seconds):
        networks.append(row)
        yield result


def network_rows(compile_seconds: float) -> Iterator[dict[str, object]]:
    """Yield the figures of each network; each is measured when it is asked for."""
    for precision in ("fp16", "fp32"):
        for batch in (1, 8):
            yield ours(precision, batch, fused=False)
    for scale in (1.5, 2.0):
        yield ours("fp16", 1, fused=False, network_scale=scale)
    for tf32 in (False, True):
        for batch in (1, 8):
            yield plain("fp32", batch, tf32=tf32)
    yield plain("fp16", 1, tf32=False)
    yield raft_small()
    for batch in (1, 8):
        yield ours("fp16", batch, fused=True)
    for precision in ("fp16", "fp32"):
        yield compiled_apart(precision, compile_seconds)


def ours(
    precision: str, batch: int, *, fused: bool, network_scale: float = 1.0
) -> dict[str, object]:
    """Return the estimator's network, and the whole from numpy to numpy.

    The network is that of pairs, or with `fused` that of long videos, prepared for longer.
    """
    started = time.perf_counter()
    cost = measure_pairs(
        lambda: FlowEstimator(device="cuda", precision=precision, network_scale=network_scale),
        HEIGHT,
        WIDTH,
        batch,
        REPEATS,
        fused=fused,
    )
    took = time.perf_counter() - started
    row = pair_summary((HEIGHT, WIDTH), batch, cost)
    name = "ours, compiled by cuDNN" if fused else "ours"
    return {
        "network": name,
        "precision": precision,
        "tf32": False,
        "network_scale": network_scale,
        "seconds": took,
        **row,
    }


def plain(precision: str, batch: int, *, tf32: bool) -> dict[str, object]:
    """Return the network as it is written, with our cost volume, run by PyTorch as it comes."""
    run = _plain_network(precision, batch)
    with _fast_convolutions(tf32=tf32):
        row = _measured(run, batch)
    return {"network": "PwcNet, eager", "precision": precision, "tf32": tf32, **row}


def compiled(precision: str) -> dict[str, object]:
    """Return the same network under torch.compile, launched by CUDA graphs."""
    run = _plain_network(precision, 1, lambda net: torch.compile(net, mode="reduce-overhead"))
    with _fast_convolutions(tf32=False):
        started = time.perf_counter()
        run()
        torch.cuda.synchronize()
        took = time.perf_counter() - started
        row = _measured(run, 1)
    return {**_compiled(precision), "compile_seconds": round(took, 1), **row}


def compiled_apart(precision: str, limit: float) -> dict[str, object]:
    """Return `compiled`, run in a process of its own that ends after `limit` seconds at most."""
    command = [sys.executable, "-m", "tests.benchmarks.speed", "--compiled", precision]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        # Files, not pipes, and a session of its own: the compiler has worker processes, which
        # would keep a pipe open, and which are to end with it.
        process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            return _absent(_compiled(precision), f"not compiled within {limit:.0f} s")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        err.seek(0)
        if code:
            return _absent(_compiled(precision), err.read().strip()[-500:])
        return json.loads(out.read().splitlines()[-1])


def raft_small() -> dict[str, object]:
    """Return torchvision's smaller RAFT with 12 updates, its default; random weights take as long.

    PyTorch's defaults, TF32 in convolutions among them.
    """
    row = {"network": "torchvision raft_small", "precision": "fp32", "tf32": True}
    try:
        from torchvision.models.optical_flow import raft_small as build
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: made for another torch
        return _absent(row, str(error)[-500:])
    network = build(weights=None, progress=False).eval().requires_grad_(False).to(GPU)
    size = (-(-HEIGHT // RAFT_STRIDE) * RAFT_STRIDE, -(-WIDTH // RAFT_STRIDE) * RAFT_STRIDE)
    images = [image * 2 - 1 for image in _images(1, size, torch.float32)]

    def run() -> object:
        with torch.inference_mode():
            return network(*images)

    with _fast_convolutions(tf32=True):
        return {**row, **_measured(run, 1)}


def cost_volumes(precision: str) -> dict[str, object]:
    """Return the cost volume level by level, and the medians of all levels added up."""
    dtype, size = PRECISIONS[precision], network_size(HEIGHT, WIDTH)
    rows = [measure_volume(level, *size, dtype, GPU, REPEATS) for level in DECODER_LEVELS]
    return {
        "levels": [volume_summary(row) for row in rows],
        "ours_together_us": sum(row.ours.p50 for row in rows),
        "ours_backward_together_us": sum(row.ours_backward.p50 for row in rows),
        "localcorr_together_us": (
            sum(row.localcorr.p50 for row in rows) if all(row.localcorr for row in rows) else None
        ),
    }


def _plain_network(
    precision: str, batch: int, wrap: Callable[[PwcNet], Callable] = lambda net: net
) -> Callable[[], object]:
    """Return a call of the network on images of its size; halves have their channels last."""
    dtype = PRECISIONS[precision]
    network = PwcNet()
    network.load_state_dict(load_weights("default").state)
    network.requires_grad_(False).eval().set_precision(dtype).to(GPU)
    images = _images(batch, network_size(HEIGHT, WIDTH), dtype)
    if dtype != torch.float32:
        network.to(memory_format=torch.channels_last)
        images = [image.contiguous(memory_format=torch.channels_last) for image in images]
    forward = wrap(network)

    def run() -> object:
        with torch.no_grad():
            return forward(*images)

    return run


def _images(batch: int, size: tuple[int, int], dtype: torch.dtype) -> list[torch.Tensor]:
    return [
        (torch.from_numpy(images).to(GPU).permute(0, 3, 1, 2) / 255).to(dtype).contiguous()
        for images in textured_pairs(batch, *size)
    ]


def _measured(run: Callable[[], object], batch: int) -> dict[str, object]:
    """Return the same figures as `pair_summary`, as far as a bare network has them."""
    forget_memory(GPU)
    try:
        times = time_calls(run, GPU, REPEATS) * (1 / batch)
    except RuntimeError as error:
        if not out_of_gpu_memory(error):
            raise
        return {"batch": batch, "out_of_memory": True, "network_ms_per_pair": None}
    return {
        "batch": batch,
        "network_ms_per_pair": asdict(times),
        "network_pairs_per_second": 1e3 / times.p50,
        "peak_memory_mb": asdict(peak_memory(GPU)),
    }


def _compiled(precision: str) -> dict[str, object]:
    return {"network": "PwcNet, torch.compile", "precision": precision, "tf32": False}


def _absent(row: dict[str, object], reason: str) -> dict[str, object]:
    return {**row, "batch": 1, "network_ms_per_pair": None, "reason": reason}


@contextmanager
def _fast_convolutions(*, tf32: bool):
    """Let cuDNN choose its fastest algorithm, and round float32 to TF32 or not."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.allow_tf32
    cudnn.benchmark, cudnn.allow_tf32 = True, tf32
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.allow_tf32 = before


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
