"""The flows of the frames of a video: their order, and errors on the way."""

from itertools import chain, pairwise

import numpy as np
import pytest

from pwcflow import FlowEstimator
from pwcflow.errors import WeightsError

from .moving_textures import broken, estimator, one_by_one, video


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
