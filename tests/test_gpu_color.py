"""Flows painted on a GPU have the colours of the CPU, to one level."""

import ctypes
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch

from pwcflow import FlowEstimator
from pwcflow.color import ColorCode, flow_to_color, largest_magnitude
from pwcflow.color.painting import DARKENED, lacking_on_rim
from pwcflow.cuda_kernels import kernel_source
from pwcflow.flow_file import read_flow
from pwcflow.gpu_color import GpuPainter
from pwcflow.gpu_color.painter import THREADS
from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video_writer import color_writer
from pwcflow.visualization import Look

from .gray_frames import frames_of
from .moving_textures import video

ON_HOST = """
#include <cmath>
#include <cstring>
#include <algorithm>
using std::min;
struct float2 { float x, y; };
struct Index { unsigned x; };
static Index blockIdx, threadIdx;
#define __global__
#define __restrict__
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline int __float_as_int(float a) { int bits; std::memcpy(&bits, &a, 4); return bits; }
%s
extern "C" void paint_all(const float2* flow, const float* lacking, unsigned char* image,
                          float scale, float noise_floor, float exponent, float still,
                          float darkened, int last_place, int red, int green, int blue,
                          long long pixels, unsigned blocks) {
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        for (threadIdx.x = 0; threadIdx.x < THREADS; ++threadIdx.x) {
            paint_flow(flow, lacking, image, scale, noise_floor, exponent, still, darkened,
                       last_place, red, green, blue, pixels);
        }
    }
}
"""


@pytest.fixture(scope="module")
def on_host(tmp_path_factory):
    """Return what paints with the kernel's own text, compiled for this processor."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler here")
    folder = tmp_path_factory.mktemp("kernel")
    source, library = folder / "paint.cpp", folder / "paint.so"
    source.write_text(ON_HOST % kernel_source("pwcflow.gpu_color", "paint.cu"))
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
    subprocess.run([compiler, *flags, source, "-o", library], check=True)
    paint_all = ctypes.CDLL(str(library)).paint_all

    def paint(flow, scale, code):
        flow = np.ascontiguousarray(flow, np.float32)
        lacking = np.ascontiguousarray(lacking_on_rim(code.palette, code.still[0]).T)
        pixels = flow.shape[0] * flow.shape[1]
        image = np.full((*flow.shape[:2], 3), 77, np.uint8)
        arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (flow, lacking, image)]
        marked = code.palette == "middlebury"
        numbers = (
            np.float32(scale) * np.float32(2**30),
            np.float32(code.noise_floor_px / scale),
            1 / code.gamma,
            code.still[0],
            DARKENED if marked else 1,
        )
        paint_all(
            *arrays,
            *map(ctypes.c_float, numbers),
            *map(ctypes.c_int, (len(lacking) - 1, *code.unknown_color)),
            ctypes.c_longlong(pixels),
            ctypes.c_uint(-(-pixels // THREADS)),
        )
        return image

    return paint


@pytest.fixture(scope="module")
def on_gpu():
    return GpuPainter(torch.device("cuda", 0))


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def paint(request):
    """Return what runs the kernel, on a GPU or compiled for the processor."""
    return request.getfixturevalue(f"on_{request.param}")


def random_flow(height, width, longest=9.0):
    """Vectors of all directions, some unknown, some along the axes, with zeros of both signs."""
    rng = np.random.default_rng(height * width)
    flow = rng.normal(0, longest / 2, (height, width, 2)).astype(np.float32)
    flow[rng.random((height, width)) < 0.1] = 0
    flow[rng.random((height, width, 2)) < 0.1] *= 0  # of the sign that it had
    odd = rng.choice([np.nan, np.inf, -np.inf, 1e9, -2e9, 3e38], flow.shape)
    return np.where(rng.random(flow.shape) < 0.03, odd, flow).astype(np.float32)


def check(paint, flow, scale, code=ColorCode()):  # noqa: B008 - it cannot be changed
    picture, expected = paint(flow, scale, code), flow_to_color(flow, scale, code)
    assert picture.dtype == np.uint8
    assert picture.shape == expected.shape
    difference = np.abs(picture.astype(int) - expected)
    assert difference.max() <= 1
    assert (difference == 0).mean() > 0.95


@pytest.mark.parametrize(
    "code",
    [
        ColorCode(),
        ColorCode(palette="colorblind"),
        ColorCode(background="black"),
        ColorCode(gamma=2.5),
        ColorCode(gamma=0.4, noise_floor_px=1.0),
        ColorCode(palette="colorblind", noise_floor_px=2.0, unknown=(1, 2, 255)),
        ColorCode(background="black", gamma=1.7, unknown=(255, 0, 254)),
    ],
    ids=str,
)
def test_every_code_has_the_colours_of_the_cpu(paint, code):
    check(paint, random_flow(301, 407), 8.0, code)


@pytest.mark.parametrize("shape", [(1, 1), (1, 255), (256, 1), (1, 257), (17, 33)])
def test_every_size_has_the_colours_of_the_cpu(paint, shape):
    for seed in range(20):
        flow = np.random.default_rng(seed).normal(0, 3, (*shape, 2)).astype(np.float32)
        picture, expected = paint(flow, 5.0, ColorCode()), flow_to_color(flow, 5.0)
        assert np.abs(picture.astype(int) - expected).max() <= 1


def test_a_large_picture_has_the_colours_of_the_cpu(paint):
    check(paint, random_flow(2161, 3847), 9.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-25, 1e-12, 1e-3, 1e6, 1e9, 1e25, 1e300])
def test_every_scale_has_the_colours_of_the_cpu(paint, scale):
    drawable = min(max(scale, 1e-25), 1e25)  # what `draw` asks for
    # Of shorter vectors than 1e-18 px OpenCV does not find the direction.
    check(paint, random_flow(60, 70, min(max(drawable, 1e-18), 1e8)), drawable)


def test_what_is_beyond_the_scale_is_so_to_the_last_bit(paint):
    for vector in np.random.default_rng(0).normal(0, 9, (300, 1, 1, 2)).astype(np.float32):
        length = np.float32(largest_magnitude(vector))
        for scale in (np.nextafter(length, 0), length, np.nextafter(length, np.float32(99))):
            picture = paint(vector, float(scale), ColorCode())
            assert (picture.max() > 200) == (scale >= length)  # else it is darkened to 191
            assert np.abs(picture.astype(int) - flow_to_color(vector, float(scale))).max() <= 1


def test_colours_worked_out_by_hand(paint):
    # Right is red, down half way from (255, 221, 0) to (255, 238, 0), left 255 - 255 * 2 // 11,
    # and twice the scale is darkened by a quarter. -0 goes up, to the last colour of the rim.
    flow = np.array([[[1, 0], [0, 1], [-1, 0], [2, 0], [1, -0.0], [0, 0], [np.nan, 0]]], np.float32)
    expected = [
        [255, 0, 0], [255, 229, 0], [0, 209, 255], [191, 0, 0], [255, 0, 42], [255] * 3, [0] * 3,
    ]  # fmt: skip
    assert np.abs(paint(flow, 1.0, ColorCode())[0].astype(int) - expected).max() <= 1


@pytest.mark.gpu
def test_without_a_scale_the_longest_vector_is_saturated(on_gpu):
    flow = np.array([[[30, 40], [3, 4], [1e10, 0], [np.nan, 0]]], np.float32)
    # (3, 4) / 50 has a radius of 0.1, and 255 * 0.9 = 229.5
    picture = on_gpu(flow)[0]
    assert picture[0].min() == 0
    assert abs(int(picture[1].min()) - 229) <= 1
    assert picture[2:].tolist() == [[0] * 3] * 2


@pytest.mark.gpu
def test_other_layouts_and_types_have_the_same_colours(on_gpu):
    flow = np.random.default_rng(0).integers(-9, 10, (40, 30, 2))
    expected = on_gpu(flow.astype(np.float32))
    read_only = flow.astype(np.float32)
    read_only.setflags(write=False)
    strided = np.repeat(flow, 2, axis=1).astype(np.float32)[:, ::2]
    for same in (flow, flow.astype(">f8"), np.asfortranarray(flow, np.float32), read_only, strided):
        np.testing.assert_array_equal(on_gpu(same), expected)


@pytest.mark.gpu
def test_what_is_no_flow_or_no_scale_is_a_value_error(on_gpu):
    with pytest.raises(ValueError, match=r"\(H, W, 2\)"):
        on_gpu(np.zeros((2, 2, 3), np.float32))
    with pytest.raises(ValueError, match="scale"):
        on_gpu(np.zeros((2, 2, 2), np.float32), 0.0)
    assert on_gpu(np.zeros((0, 5, 2), np.float32)).shape == (0, 5, 3)


@pytest.mark.gpu
def test_the_cpu_paints_when_the_gpu_has_no_memory_left():
    painter, flow = GpuPainter(torch.device("cuda", 0)), random_flow(600, 800)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.0)
    try:
        np.testing.assert_array_equal(painter(flow, 8.0), flow_to_color(flow, 8.0))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    check(painter, flow, 8.0)


@pytest.mark.gpu
def test_pictures_stay_when_later_ones_are_painted(on_gpu):
    flows = [random_flow(200, 300, longest) for longest in (2, 5, 9)]
    pictures = [on_gpu(flow, 8.0) for flow in flows]
    for flow, picture in zip(flows, pictures, strict=True):
        assert np.abs(picture.astype(int) - flow_to_color(flow, 8.0)).max() <= 1


@pytest.mark.gpu
def test_it_paints_while_graphs_are_recorded(on_gpu, monkeypatch):
    monkeypatch.setattr("pwcflow.estimator.UNRECORDED", 1)
    estimator, flow = FlowEstimator(device="cuda", quiet=True), random_flow(200, 300)
    videos = [video(3, 64 + more, 64) for more in range(12)]  # PyTorch's 32 streams go round twice
    with ThreadPoolExecutor(1) as other:
        counts = other.submit(lambda: [len(list(estimator.flows(frames))) for frames in videos])
        while not counts.done():
            check(on_gpu, flow, 8.0)
    assert counts.result() == [2] * len(videos)


@pytest.mark.gpu
@pytest.mark.parametrize("style", ["wheel", "side"])
def test_a_video_on_a_gpu_has_the_colours_of_the_cpu(style, tmp_path, monkeypatch):
    monkeypatch.setattr("pwcflow.estimator.UNRECORDED", 4)  # it is recorded while others are drawn
    frames = video(30, 96, 130)
    (tmp_path / "frames").mkdir()
    for number, frame in enumerate(frames):
        write_image(tmp_path / "frames" / f"{number:02d}.png", frame)
    estimator = FlowEstimator(device="cuda", quiet=True)
    outputs = VideoOutputs(
        folder=tmp_path / "flows",
        viz=tmp_path / "gpu.avi",
        max_flow=6.0,
        look=Look(style=style),
    )
    estimate_video(lambda: estimator, tmp_path / "frames", outputs)
    flows = [read_flow(path) for path in sorted((tmp_path / "flows").glob("*.flo"))]
    assert len(flows) == 29
    for flow in flows[:3]:
        check(estimator.flow_to_color, flow, 6.0)
    with color_writer(tmp_path / "cpu.avi", 25.0) as writer:
        for flow, (frame, _) in zip(flows, pairwise(frames), strict=True):
            picture = flow_to_color(flow, 6.0)
            if style == "side":
                picture = np.concatenate([frame, picture], axis=1)
            writer.write(picture)
    found, expected = (frames_of(tmp_path / name)[1] for name in ("gpu.avi", "cpu.avi"))
    assert len(found) == len(expected) == 29
    for ours, right in zip(found, expected, strict=True):
        # What one level makes of what the encoder drops.
        assert np.abs(ours.astype(int) - right).mean() < 1
