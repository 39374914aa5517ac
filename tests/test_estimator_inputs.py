"""The arrays that an estimator takes: channels, dtypes, layouts; and those it refuses."""

import numpy as np
import pytest
import torch

from .moving_textures import estimator, moved_pair, network_images


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
