"""Colours turn about the axis of grays."""

import numpy as np
import pytest

from pwcflow.training.render_reference import compose
from pwcflow.training.sampling import sample_scenes
from pwcflow.training.scene import SURFACES, SceneSettings
from pwcflow.training.tints import hue_rotations, random_tints
from tests.test_training_render import scenes_of, textures

__all__ = ["textures"]


def test_a_third_of_a_turn_makes_red_green_green_blue_and_blue_red():
    turn = hue_rotations(np.array(2 * np.pi / 3), np.array(1.0))
    np.testing.assert_allclose(turn @ np.eye(3), np.eye(3)[[2, 0, 1]], atol=1e-12)


def test_half_a_turn_gives_the_complement_and_no_saturation_gray():
    # Red is a third of white and (2, -1, -1) / 3, which turns into (-2, 1, 1) / 3.
    red = np.array((1.0, 0, 0))
    half, gray = (hue_rotations(np.array(np.pi), np.array(s)) @ red for s in (1.0, 0.0))
    np.testing.assert_allclose(half, (-1 / 3, 2 / 3, 2 / 3), atol=1e-12)
    np.testing.assert_allclose(gray, np.full(3, 1 / 3), atol=1e-12)


def test_a_share_is_turned_and_grays_have_their_gain_whatever_the_turn():
    gain = np.random.default_rng(1).uniform(0.5, 1.5, (2000, 3))
    tints = random_tints(np.random.default_rng(0), gain, 0.3)
    np.testing.assert_allclose(tints.sum(-1), gain, atol=1e-12)
    off_diagonal = np.abs(tints * (1 - np.eye(3))).max((1, 2))
    assert (off_diagonal > 1e-6).mean() == pytest.approx(0.3, abs=0.03)


def test_a_layer_is_seen_through_its_tint(textures):
    scenes = scenes_of(textures, 1)
    scenes.layers["radius"][:, 1:] = 0
    back = scenes.layers[:, 0]
    back["surface"], back["colours"] = SURFACES.index("stripes"), (0.2, 0.4, 0.6)
    back["tint"] = ((0, 1, 0.5), (0, 0.5, 0), (2, 0, 1))
    frame = compose(scenes, textures, 64, 96).frames[0, 0]
    # 0.4 + 0.3; 0.2; 0.4 + 0.6, which is as bright as it gets
    expected = np.broadcast_to((0.7, 0.2, 1.0), (64, 96, 3))
    np.testing.assert_allclose(frame[..., :3], expected, atol=1e-6)


def test_backgrounds_and_objects_come_in_many_colours():
    settings = SceneSettings(attached=0.0)
    layers = sample_scenes(np.random.default_rng(0), 300, 5, 7, (640, 896), settings).layers
    turned = (np.abs(layers["tint"] * (1 - np.eye(3))) > 1e-6).any((-1, -2))
    assert turned[:, 0].mean() == pytest.approx(0.4, abs=0.08)
    assert turned[:, 1:].mean() == pytest.approx(0.6, abs=0.04)
