"""A CUDA kernel compiled for the processor, so that it is tried where there is no GPU."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

COMPILER = shutil.which("g++") or shutil.which("clang++")

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs g++ or clang++")

CUDA = """
#include <algorithm>
#include <cmath>
#include <cstring>
using std::max;
using std::min;
#define __device__
#define __forceinline__ inline
#define __global__
#define __restrict__
struct float2 { float x, y; };
struct float3 { float x, y, z; };
struct float4 { float x, y, z, w; };
struct uchar4 { unsigned char x, y, z, w; };
static float2 make_float2(float x, float y) { return {x, y}; }
static float3 make_float3(float x, float y, float z) { return {x, y, z}; }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) {
    return {x, y, z, w};
}
static struct { unsigned x; } blockIdx, blockDim = {1}, threadIdx;
extern "C" void go_to_block(unsigned x) { blockIdx.x = x; }
"""
"""What kernels need of CUDA that run one thread an element and use float32 alone."""


def host_kernel(source: str, name: str, folder: Path) -> Callable[..., None]:
    """Return a function that runs a kernel, thread after thread.

    It takes their number, then what the kernel takes: arrays, which it may write to, and int32.

    Args:
        source: CUDA C++.
        name: of a kernel that is extern "C".
        folder: for what is compiled.
    """
    assert COMPILER
    code, library = folder / f"{name}.cpp", folder / f"{name}.so"
    code.write_text(CUDA + source)
    subprocess.run(
        [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", "-o", library, code], check=True
    )
    compiled = ctypes.CDLL(str(library))
    kernel = getattr(compiled, name)

    def run(threads: int, *arguments: np.ndarray | int) -> None:
        values = [
            it if isinstance(it, int) else ctypes.c_void_p(it.ctypes.data) for it in arguments
        ]
        for block in range(threads):  # of one thread each
            compiled.go_to_block(block)
            kernel(*values)

    return run
