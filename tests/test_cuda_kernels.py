"""What the compiler of CUDA kernels is given; tests of the operators run them."""

import subprocess
import sys
from importlib.resources import files

import pytest
import torch

from pwcflow.cuda_kernels import kernel_source
from pwcflow.ops import cost_volume_cuda
from pwcflow.ops.dtypes import SCALAR_TYPES

SOURCES = [
    (package, path.name)
    for package in ("pwcflow.gpu_color", "pwcflow.ops", "pwcflow.training")
    for path in files(package).iterdir()
    if path.name.endswith(".cu")
]


@pytest.mark.parametrize(("package", "file"), SOURCES)
def test_no_file_of_ours_is_left_for_the_compiler_to_find(package, file):
    source = kernel_source(package, file)
    assert '#include "' not in source
    if '#include "tensor.cuh"' in files(package).joinpath(file).read_text(encoding="utf-8"):
        assert "#include <cuda_fp16.h>" in source


@pytest.mark.parametrize("tensor_cores", [False, True])
@pytest.mark.parametrize("dtype", SCALAR_TYPES, ids=str)
def test_kernels_of_the_cost_volume_are_looked_for_in_the_files_that_hold_them(dtype, tensor_cores):
    symbols = cost_volume_cuda._symbols(dtype, tensor_cores)
    more = 2 if tensor_cores and dtype != torch.float64 else 0
    assert len(symbols) == 1 + more  # one for doubles and old GPUs
    for file, by_name in symbols.items():
        source = kernel_source("pwcflow.ops", file)
        for symbol in by_name.values():
            assert f"__global__ void {symbol.split('<')[0]}(" in source


def test_blocks_of_the_gradients_fit_every_gpu_with_tensor_cores():
    found = {
        (size, *tile): cost_volume_cuda.bands_bytes(size, *tile)
        for size, tiles in cost_volume_cuda.GRADIENT_TILES.items()
        for tile in tiles.values()
    }
    # Bands of 4 rows x 9 offsets x 16 pixels, and 12 x 24 pixels of channels and a gap: of halves
    # 2 (4 9 16 40 + 12 24 40) bytes, and so on.
    assert found == {(2, 4, 32): 69120, (2, 2, 64): 57600, (4, 4, 32): 96768}
    assert max(found.values()) <= 99 * 1024  # of compute capability 8.6, 8.9 and 12.0


def test_what_is_included_stands_where_it_is_included():
    source = kernel_source("pwcflow.ops", "warp.cu")
    shared = files("pwcflow.ops").joinpath("tensor.cuh").read_text(encoding="utf-8")
    before, after = source.split(shared)
    assert before.startswith("// Backward warping")
    assert before.endswith("warp_features_scalars` takes any C.\n\n")
    assert after.startswith("\n\nconstexpr int THREADS = 256;")
    assert after.endswith("}\n")


def test_one_sentence_tells_of_all_kernels_that_cupy_is_missing():
    script = """
import sys
sys.modules["cupy"] = None
from pwcflow.cuda_kernels import load_kernels
for package, file in [("pwcflow.ops", "warp.cu"), ("pwcflow.gpu_color", "paint.cu")]:
    assert load_kernels(package, file, ("any",), 0) is None
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("CuPy cannot be imported") == 1
