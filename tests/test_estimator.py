"""From images to flow in pixels: sizes, scales, channels, batches, devices, precision."""

import threading
from itertools import chain, pairwise

import numpy as np
import pytest
import torch

from pwcflow import FlowEstimator
from pwcflow.device import find_precision
from pwcflow.errors import DeviceError, WeightsError
from pwcflow.network import network_size
from pwcflow.ops import finish_flow

from .features import DEVICES

_loaded = {}


def estimator(device="cpu", precision="fp32"):
    key = device, precision
    if key not in _loaded:
        _loaded[key] = FlowEstimator(device=device, precision=precision)
    return _loaded[key]


def texture(height, width, seed=0):
    """Smooth colourful noise, uint8 RGB: something that can be followed."""
    import cv2

    rng = np.random.default_rng(seed)
    image = np.zeros((height, width, 3), np.float32)
    for cells in (4, 9, 20):
        size = (max(2, width * cells // 100 + 2), max(2, height * cells // 100 + 2))
        coarse = rng.random((size[1], size[0], 3), np.float32)
        image += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    image -= image.min()
    return (image / image.max() * 255).astype(np.uint8)


def moved_pair(height, width, dx, dy, seed=0):
    """Two crops of one texture: every point moves by (dx, dy) pixels."""
    big = texture(height + 2 * abs(dy), width + 2 * abs(dx), seed)
    y, x = abs(dy), abs(dx)
    first = big[y : y + height, x : x + width]
    second = big[y - dy : y - dy + height, x - dx : x - dx + width]
    return np.ascontiguousarray(first), np.ascontiguousarray(second)


def network_images(model, *images):
    """Return what the network is given for each image, (1, C, H, W)."""
    seen = []
    handle = model._network.plain.pyramid.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0].clone())
    )
    for image in images:
        model.encode(image)
    handle.remove()
    return seen


def test_network_size_is_the_next_multiple_of_64():
    assert [network_size(n) for n in (1, 63, 64, 65, 436, 1024)] == [64, 64, 64, 128, 448, 1024]


def test_the_finest_flow_becomes_pixels_of_the_image_by_each_axis_own_factors():
    # 48 x 32 was seen as 64 x 64, so its flow is 16 x 16: three columns and two rows a value.
    ramp = torch.arange(16.0)
    flow = torch.stack((ramp.expand(16, 16), ramp.expand(16, 16).T))[None]
    u, v = finish_flow(flow, 32, 48)[0].unbind(-1)
    # Centres of columns lie at (x + 1/2) / 3 - 1/2, at least 0 and at most 15; each is 20 x 48/64.
    columns = torch.tensor([0, *range(0, 226, 5), 225.0])
    rows = torch.tensor([0, *(2.5 + 5 * y for y in range(30)), 150.0])  # each 20 x 32/64
    torch.testing.assert_close(u, columns.expand(32, 48), rtol=0, atol=1e-4)
    torch.testing.assert_close(v, rows.expand(48, 32).T, rtol=0, atol=1e-4)


def test_a_constant_flow_is_only_scaled():
    flow = torch.tensor([1.0, -2.0]).view(1, 2, 1, 1).expand(1, 2, 32, 32)  # of 96 x 100
    expected = torch.tensor([20 * 96 / 128, -2 * 20 * 100 / 128]).expand(1, 100, 96, 2)
    torch.testing.assert_close(finish_flow(flow, 100, 96), expected, rtol=1e-6, atol=0)


def test_images_are_stretched_bilinearly_about_the_centres_of_pixels():
    image = np.random.default_rng(0).random((70, 100, 3))
    expected = image
    for axis, (size, seen) in enumerate([(70, 128), (100, 128)]):
        position = ((np.arange(seen) + 0.5) * size / seen - 0.5).clip(0, size - 1)
        distance = np.abs(position[:, None] - np.arange(size))
        expected = np.moveaxis(
            np.tensordot((1 - distance).clip(0), expected, axes=(1, axis)), 0, axis
        )
    (seen,) = network_images(estimator(), image)
    actual = seen[0].permute(1, 2, 0).numpy()[..., ::-1]  # the network sees BGR
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_flow_is_in_pixels_of_each_axis_own_scale_at_sizes_that_are_no_multiples_of_64(device):
    # 100 x 50 is stretched by 1.28 in each axis; 200 x 70 by 1.28 and 1.83.
    for width, height, dx, dy in [(100, 50, 6, 0), (200, 70, 0, 4), (200, 70, 5, 0)]:
        flow = estimator(device)(*moved_pair(height, width, dx, dy))
        assert flow.shape == (height, width, 2)
        assert flow.dtype == np.float32
        u, v = np.median(flow[10:-10, 10:-10].reshape(-1, 2), axis=0)
        assert abs(u - dx) < 1.0, (width, height, u, v)
        assert abs(v - dy) < 1.0, (width, height, u, v)


@pytest.mark.parametrize("device", DEVICES)
def test_twenty_pixels_come_out_as_twenty_not_one_and_not_four_hundred(device):
    flow = estimator(device)(*moved_pair(256, 384, 20, 0))
    u, v = np.median(flow[40:-40, 40:-40].reshape(-1, 2), axis=0)
    assert abs(u - 20) < 1.5
    assert abs(v) < 1.0


@pytest.mark.parametrize("device", DEVICES)
def test_any_size_works_and_gives_finite_flow_of_that_size(device):
    sizes = [(1, 1), (1, 500), (500, 1), (2, 3), (16, 16), (48, 48), (64, 64), (480, 640)]
    sizes += [(64 + 7 * i % 137, 64 + 11 * i % 131) for i in range(0, 20, 4)]
    for height, width in sizes:
        flow = estimator(device)(*moved_pair(height, width, 1, 0))
        assert flow.shape == (height, width, 2)
        assert np.isfinite(flow).all(), (height, width)


SIZES = range(64, 201, 7)


def test_sizes_from_64_to_200_work_square_wide_and_tall():
    pairs = [*((size, size) for size in SIZES[::2]), *zip(SIZES[::2], SIZES[::-2], strict=True)]
    for height, width in pairs:
        flow = estimator()(*moved_pair(height, width, 1, 1))
        assert flow.shape == (height, width, 2)
        assert np.isfinite(flow).all(), (height, width)


@pytest.mark.gpu
def test_every_size_from_64_to_200_in_steps_of_7_and_the_common_video_sizes_work():
    sizes = [(height, width) for height in SIZES for width in SIZES]
    for height, width in [*sizes, (480, 640), (480, 854), (720, 1280), (1080, 1920)]:
        flow = estimator("cuda")(*moved_pair(height, width, 1, 1))
        assert flow.shape == (height, width, 2)
        assert np.isfinite(flow).all(), (height, width)


@pytest.mark.parametrize("device", DEVICES)
def test_a_pair_alone_equals_the_same_pair_in_a_batch(device):
    one, two = moved_pair(90, 130, 3, 1), moved_pair(90, 130, -4, 2, seed=1)
    alone = [estimator(device)(*pair) for pair in (one, two)]
    different = estimator(device)(np.stack((one[0], two[0])), np.stack((one[1], two[1])))
    identical = estimator(device)(np.stack((one[0], one[0])), np.stack((one[1], one[1])))
    assert different.shape == (2, 90, 130, 2)
    assert np.abs(different[0] - alone[0]).max() <= 1e-3
    assert np.abs(different[1] - alone[1]).max() <= 1e-3
    assert np.abs(identical[0] - alone[0]).max() <= 1e-3
    assert np.abs(identical[1] - identical[0]).max() <= 1e-3


def test_encode_and_decode_give_what_a_call_gives():
    first, second = moved_pair(70, 90, 2, 0)
    model = estimator()
    encoded = model.encode(first), model.encode(second)
    assert np.array_equal(model.decode(*encoded), model(first, second))
    assert not np.array_equal(model.decode(*encoded[::-1]), model(first, second))


def video(count, height=64, width=64):
    """Return frames of one texture, each moved by its own number of pixels from the one before."""
    big = texture(height + 16, width + 16)
    places = np.random.default_rng(5).integers(0, 16, (count, 2))
    return [np.ascontiguousarray(big[y : y + height, x : x + width]) for y, x in places]


def one_by_one(frames):
    return [estimator()(first, second) for first, second in pairwise(frames)]


def all_equal(flows, expected):
    return len(flows) == len(expected) and all(map(np.array_equal, flows, expected))


class CountingEstimator(FlowEstimator):
    """Counts the images that it encodes."""

    encoded = 0

    def encode(self, image):
        self.encoded += 1
        return super().encode(image)


def test_flows_are_those_of_consecutive_frames_in_order_and_each_frame_is_encoded_once():
    frames = video(5)
    model = CountingEstimator(device="cpu")
    flows = list(model.flows(iter(frames)))
    assert model.encoded == 5
    assert len(flows) == 4
    assert all_equal(flows, one_by_one(frames))
    assert not any(np.array_equal(first, second) for first, second in pairwise(flows))


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_frames_have_no_flow(count):
    assert list(estimator().flows(video(count))) == []


def test_a_flow_on_the_cpu_comes_before_the_frame_after_next_is_taken():
    frames = iter(video(4))
    flows = estimator().flows(frames)
    next(flows)
    assert len(list(frames)) == 2
    assert list(flows) == []


def broken(frames, error):
    yield from frames
    raise error


@pytest.mark.parametrize(
    ("rest", "kind", "problem"),
    [
        (broken([], OSError("the file ends here")), OSError, "the file ends here"),
        ([np.zeros((64, 70, 3), np.uint8)], ValueError, r"\(64, 64, 3\) .* \(64, 70, 3\)"),
        ([np.zeros((64, 64, 3), np.uint16)], ValueError, "uint8 is followed by .* uint16"),
        ([np.zeros((1, 64, 64, 3), np.uint8)], ValueError, r"one image, .* \(1, 64, 64, 3\)"),
        ([np.zeros((64, 64, 2), np.uint8)], ValueError, r"its shape is \(64, 64, 2\)"),
        ([[0, 1]], TypeError, "numpy array, but it is a list"),
        ([np.full((64, 64, 3), np.nan)], ValueError, "nan"),
    ],
    ids=["broken file", "size", "dtype", "batch", "channels", "list", "range"],
)
def test_what_is_wrong_with_a_frame_comes_after_the_flows_before_it(rest, kind, problem):
    frames = video(3)
    flows = estimator().flows(chain(frames, rest))
    found = [next(flows), next(flows)]
    with pytest.raises(kind, match=problem):
        next(flows)
    assert all_equal(found, one_by_one(frames))
    assert list(flows) == []


def test_a_batch_is_no_first_frame_either():
    with pytest.raises(ValueError, match="a frame must be one image"):
        next(estimator().flows([np.zeros((2, 64, 64, 3), np.uint8)]))


def test_frames_may_be_gray_and_read_only_and_of_any_dtype():
    for convert in (
        lambda frame: np.ascontiguousarray(frame[..., 0]),
        lambda frame: frame.astype(np.uint16) * 257,
        lambda frame: frame / 255,
        lambda frame: np.frombuffer(frame.tobytes(), np.uint8).reshape(frame.shape),
    ):
        frames = [convert(frame) for frame in video(3)]
        assert all_equal(list(estimator().flows(frames)), one_by_one(frames))


def test_frames_whose_flow_is_not_finite_are_an_error_after_those_before():
    frames = video(3)
    model = FlowEstimator(device="cpu")
    flows = model.flows(frames)
    assert np.array_equal(next(flows), estimator()(*frames[:2]))
    model._network.plain.context[-1].bias[0] = float("nan")
    with pytest.raises(WeightsError, match="give no finite flow in fp32"):
        next(flows)


def test_the_network_is_fed_blue_green_red_in_0_to_1():
    red = np.zeros((64, 64, 3), np.uint8)
    red[..., 0] = 255
    seen = network_images(
        estimator(),
        red,
        np.dstack((red, np.full((64, 64), 7, np.uint8))),
        np.full((64, 64), 51, np.uint8),
        np.full((64, 64, 1), 13107, np.uint16),
        np.full((64, 64), 13107, ">u2"),
        np.full((64, 64, 3), 0.2, np.float64),
    )
    assert seen[0].amax((0, 2, 3)).tolist() == [0.0, 0.0, 1.0]  # blue, green, red
    assert torch.equal(seen[1], seen[0])  # alpha is ignored
    for gray in seen[2:]:
        torch.testing.assert_close(gray, torch.full((1, 3, 64, 64), 0.2))


def test_an_array_and_its_file_give_the_same_flow(tmp_path):
    import cv2

    from pwcflow import read_image

    first, second = moved_pair(64, 96, 3, 0)
    paths = tmp_path / "one.png", tmp_path / "two.png"
    for path, image in zip(paths, (first, second), strict=True):
        cv2.imwrite(str(path), image[..., ::-1])
    from_files = estimator()(*map(read_image, paths))
    assert np.array_equal(from_files, estimator()(first, second))


def test_colours_matter_so_red_is_not_blue():
    first, second = moved_pair(64, 128, 3, 0, seed=4)
    swapped = estimator()(first[..., ::-1].copy(), second[..., ::-1].copy())
    assert np.abs(swapped - estimator()(first, second)).max() > 1e-3


def test_non_contiguous_and_reversed_arrays_are_taken_as_they_look():
    first, second = moved_pair(64, 96, 3, 0)
    flipped = estimator()(first[:, ::-1], second[:, ::-1])
    assert np.array_equal(flipped, estimator()(first[:, ::-1].copy(), second[:, ::-1].copy()))


def test_read_only_arrays_are_taken_and_left_as_they_are():
    first, second = moved_pair(64, 96, 3, 0)
    expected = estimator()(first, second)
    frozen = [np.frombuffer(i.tobytes(), np.uint8).reshape(i.shape) for i in (first, second)]
    assert np.array_equal(estimator()(*frozen), expected)
    assert np.array_equal(frozen[0], first)


@pytest.mark.parametrize(
    ("image", "kind", "problem"),
    [
        ([[0, 1]], TypeError, "numpy array, but it is a list"),
        (np.zeros((4, 5, 2), np.uint8), ValueError, r"its shape is \(4, 5, 2\)"),
        (np.zeros((0, 5, 3), np.uint8), ValueError, r"its shape is \(0, 5, 3\)"),
        (np.zeros((5,), np.uint8), ValueError, r"its shape is \(5,\)"),
        (np.zeros((4, 5, 3), np.int64), ValueError, "int64"),
        (np.full((4, 5, 3), 200.0), ValueError, r"in 0\.\.1: it has 200\.0 to 200\.0"),
        (np.full((4, 5, 3), np.nan), ValueError, "nan"),
    ],
)
def test_what_is_no_image_is_named(image, kind, problem):
    with pytest.raises(kind, match=problem):
        estimator().encode(image)
    with pytest.raises(kind, match=problem):
        estimator()(image, np.zeros((4, 5, 3), np.uint8))


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ((64, 70, 3), (64, 71, 3), r"\(64, 70\) and \(64, 71\)"),
        ((64, 70, 3), (1, 64, 70, 3), r"\(64, 70\) and \(1, 64, 70\)"),
        ((2, 64, 70, 3), (1, 64, 70, 3), r"\(2, 64, 70\) and \(1, 64, 70\)"),
    ],
)
def test_two_sizes_are_a_mistake(first, second, problem):
    with pytest.raises(ValueError, match=problem):
        estimator()(np.zeros(first, np.uint8), np.zeros(second, np.uint8))


def test_weights_that_give_no_finite_flow_are_an_error():
    broken = FlowEstimator(device="cpu")
    broken._network.plain.context[-1].bias[0] = float("nan")
    with pytest.raises(WeightsError, match="weights default give no finite flow in fp32"):
        broken(*moved_pair(64, 64, 1, 0))


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
    other = estimator("cuda:1")
    assert all(p.device == torch.device("cuda:1") for p in other._network.plain.parameters())
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
