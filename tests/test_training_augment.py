"""What becomes of a pair, and of its flow with it."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from pwcflow.training.augment import (
    AugmentSettings,
    Sample,
    augment,
    crop,
    erase,
    flip,
    recolour,
    resize,
    scaled_size,
)

PLAIN = AugmentSettings(
    height=64, width=64, scale=(0, 0), stretch=0, mirrored=0, upturned=0,
    brightness=0, contrast=0, gamma=0, colour=0, erased=0,
)  # fmt: skip


def numbered(height=4, width=6):
    """A pair whose every pixel is another."""
    number = np.arange(height * width).reshape(height, width)
    first = np.stack((number, number + 1, number + 2), axis=2).astype(np.uint8)
    flow = np.stack((number, 100 + number), axis=2).astype(np.float32)
    return Sample(first, first + np.uint8(100), flow, number % 2 == 0)


def texture(x, y):
    """A smooth pattern, also between the pixels."""
    waves = (np.sin(x / 7 + y / 19), np.cos(y / 9 - x / 23), np.sin((x + y) / 11))
    return np.rint((np.stack(waves, axis=2) + 1) * 127).astype(np.uint8)


def zooming(height=120, width=160):
    """A pair of exact flow: it moves by (5, -3) and grows by 3 %."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    flow = np.stack((5 + 0.03 * x, -3 + 0.03 * y), axis=2).astype(np.float32)
    # The point q of the second image was at (q - (5, -3)) / 1.03 in the first.
    second = texture((x - 5) / 1.03, (y + 3) / 1.03)
    return Sample(texture(x, y), second, flow, np.ones((height, width), bool))


def warp_error(sample):
    """Return the largest difference of the first image and the second one, fetched by the flow."""
    height, width = sample.valid.shape
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    u, v = x + sample.flow[..., 0], y + sample.flow[..., 1]
    fetched = cv2.remap(sample.second, u, v, cv2.INTER_LINEAR).astype(float)
    inside = (u >= 0) & (v >= 0) & (u <= width - 1) & (v <= height - 1) & sample.valid
    assert inside.mean() > 0.5
    return np.abs(fetched - sample.first)[inside].max()


def test_a_crop_is_a_rectangle_of_everything():
    pair = numbered()
    part = crop(pair, 1, 2, 2, 3)
    assert part.first[..., 0].tolist() == [[8, 9, 10], [14, 15, 16]]
    assert part.second[..., 0].tolist() == [[108, 109, 110], [114, 115, 116]]
    assert part.flow[..., 1].tolist() == [[108, 109, 110], [114, 115, 116]]
    assert part.valid.tolist() == [[True, False, True], [True, False, True]]


@pytest.mark.parametrize(("across", "down"), [(True, False), (False, True), (True, True)])
def test_flips_turn_the_sign_of_the_flow_across(across, down):
    pair = numbered()
    flipped = flip(pair, horizontally=across, vertically=down)
    y, x = (3 if down else 0), (5 if across else 0)
    assert (flipped.first[0, 0] == pair.first[y, x]).all()
    assert (flipped.second[0, 0] == pair.second[y, x]).all()
    u, v = pair.flow[y, x]
    assert flipped.flow[0, 0].tolist() == [-u if across else u, -v if down else v]
    assert flipped.valid[0, 0] == pair.valid[y, x]


def test_flow_is_scaled_with_its_axis():
    flow = np.full((10, 20, 2), (4, 6), np.float32)
    pair = Sample(*np.zeros((2, 10, 20, 3), np.uint8), flow, np.ones((10, 20), bool))
    larger = resize(pair, (15, 50))
    assert larger.first.shape == larger.second.shape == (15, 50, 3)
    np.testing.assert_allclose(larger.flow, np.broadcast_to((10, 9), (15, 50, 2)), rtol=1e-6)
    assert larger.valid.all()


def test_flow_next_to_unknown_flow_is_unknown_once_interpolated():
    flow, valid = np.full((1, 6, 2), 5, np.float32), np.ones((1, 6), bool)
    flow[0, 2], valid[0, 2] = 0, False
    larger = resize(Sample(*np.zeros((2, 1, 6, 3), np.uint8), flow, valid), (1, 12))
    # New pixels lie at -0.25, 0.25, 0.75, ...; those between 1 and 3 take part of the unknown one.
    assert larger.valid[0].tolist() == [True] * 3 + [False] * 4 + [True] * 5
    assert (larger.flow[0, ~larger.valid[0]] == 0).all()
    assert (larger.flow[0, larger.valid[0]] == (10, 5)).all()


def test_sparse_flow_is_moved_and_keeps_its_values():
    flow, valid = np.zeros((4, 6, 2), np.float32), np.zeros((4, 6), bool)
    known = {(0, 0): (1.25, -2), (3, 5): (7, 0.5), (2, 1): (-3, 4)}
    for place, value in known.items():
        flow[place], valid[place] = value, True
    pair = Sample(*np.zeros((2, 4, 6, 3), np.uint8), flow, valid)
    larger = resize(pair, (12, 12), sparse=True)
    # The centre of row y comes to 3 (y + 1/2) - 1/2 = 3 y + 1, that of column x to 2 x + 1/2.
    expected = {(1, 1): (2.5, -6), (10, 11): (14, 1.5), (7, 3): (-6, 12)}
    assert {tuple(place) for place in np.argwhere(larger.valid).tolist()} == set(expected)
    for place, value in expected.items():
        assert larger.flow[place].tolist() == list(value)
    assert not larger.flow[~larger.valid].any()
    smaller = resize(pair, (2, 3), sparse=True)
    assert np.argwhere(smaller.valid).tolist() == [[0, 0], [1, 0], [1, 2]]
    assert smaller.flow[1, 0].tolist() == [-1.5, 2]


@pytest.mark.parametrize("seed", range(6))
def test_the_flow_still_carries_the_first_image_onto_the_second(seed):
    settings = replace(PLAIN, scale=(-0.2, 0.6), stretch=0.3, mirrored=0.5, upturned=0.5)
    pair = augment(zooming(), np.random.default_rng(seed), settings)
    assert pair.first.shape == pair.second.shape == (64, 64, 3)
    assert pair.flow.shape == (64, 64, 2)
    assert warp_error(pair) < 5  # of 255: two interpolations, and 8 bits


def test_the_error_of_a_wrong_flow_would_be_seen():
    pair = zooming()
    assert warp_error(pair) < 3
    wrong = pair.flow + np.array((1, 0), np.float32)
    assert warp_error(Sample(pair.first, pair.second, wrong, pair.valid)) > 10


def test_images_too_small_are_scaled_up_alike():
    settings = replace(PLAIN, height=64, width=192)
    rng = np.random.default_rng(0)
    assert scaled_size((48, 96), rng, settings) == (96, 192)
    pair = augment(zooming(48, 96), rng, settings)
    assert pair.first.shape == (64, 192, 3)
    stretched = replace(settings, scale=(-3, 0), stretch=1)
    sizes = np.array([scaled_size((48, 96), rng, stretched) for _ in range(50)])
    assert (sizes >= (64, 192)).all()


def test_scales_are_powers_of_two_of_the_range():
    settings = replace(PLAIN, scale=(-0.5, 1), stretch=0.25)
    rng = np.random.default_rng(0)
    powers = np.log2([scaled_size((1000, 1000), rng, settings) for _ in range(500)]) - np.log2(1000)
    assert -0.75 <= powers.min() < -0.6
    assert 1.1 < powers.max() <= 1.25
    assert 0.3 < np.ptp(powers, axis=1).max() <= 0.5
    assert np.mean((powers == 0).all(axis=1)) == pytest.approx(0.2, abs=0.05)


def test_a_pair_that_is_not_changed_is_a_crop():
    pair = numbered(65, 66)
    same = augment(pair, np.random.default_rng(5), PLAIN)
    offset = int(same.flow[0, 0, 0])
    assert offset > 0
    part = crop(pair, *divmod(offset, 66), 64, 64)
    for name in ("first", "second", "flow", "valid"):
        np.testing.assert_array_equal(getattr(same, name), getattr(part, name))


def test_colours_change_alike_but_for_an_asymmetric_share():
    ramp = np.arange(256, dtype=np.uint8)[None, :, None].repeat(3, axis=2)
    settings = AugmentSettings(asymmetric=0)
    first, second = recolour(ramp, ramp, np.random.default_rng(0), settings)
    np.testing.assert_array_equal(first, second)
    assert (first != ramp).any()
    assert (np.diff(first.astype(int), axis=1) >= 0).all()
    first, second = recolour(ramp, ramp, np.random.default_rng(0), AugmentSettings(asymmetric=1))
    assert (first != second).any()
    for image in recolour(ramp, ramp, np.random.default_rng(0), PLAIN):
        np.testing.assert_array_equal(image, ramp)


def test_one_rectangle_is_erased_in_the_mean_colour():
    image = np.zeros((64, 80, 3), np.uint8)
    image[:, ::2] = (100, 50, 200)
    erased = erase(image, np.random.default_rng(0))
    y, x = np.nonzero((erased == (50, 25, 100)).all(axis=2))
    height, width = np.ptp(y) + 1, np.ptp(x) + 1
    assert len(y) == height * width
    assert 8 <= height <= 16
    assert 10 <= width <= 20
    assert (erased != image).any(axis=2).sum() == len(y)
    assert set(np.unique(image)) == {0, 50, 100, 200}, "the image itself stays as it is"


def test_the_same_random_numbers_give_the_same_pair():
    settings = AugmentSettings(height=64, width=64)
    one, same, other = (augment(zooming(), np.random.default_rng(i), settings) for i in (1, 1, 2))
    for name in ("first", "second", "flow", "valid"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
    assert (one.flow != other.flow).any()
