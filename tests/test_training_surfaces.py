"""Computed surfaces: values worked out from the hash by plain Python, and what repeats."""

import numpy as np
import pytest
import torch

from pwcflow.training.pattern_reference import pattern
from pwcflow.training.render_reference import Textures, compose
from pwcflow.training.sampling import sample_scenes
from pwcflow.training.scene import SURFACES, SceneSettings

SEED = 3_000_000_019
WAVELENGTH = 40.0


def pcg(value):
    """PCG's output function RXS-M-XS (O'Neill 2014), in whole numbers."""
    state = (value * 747796405 + 2891336453) % 2**32
    word = (((state >> ((state >> 28) + 4)) ^ state) * 277803737) % 2**32
    return (word >> 22) ^ word


def chance(i, j, seed=SEED):
    return pcg((i + pcg((j + pcg(seed)) % 2**32)) % 2**32) / 2**32


def values(name, points):
    """Return the pattern at texture pixels (K, 2)."""
    t = torch.tensor(points, dtype=torch.float32).view(1, 1, -1, 2)
    one = torch.ones(1, 1, 1)
    surface = torch.full((1, 1, 1), SURFACES.index(name))
    seed = torch.full((1, 1, 1), SEED)
    return pattern(surface, one * WAVELENGTH, seed, t)[0, 0].numpy()


def test_text_is_glyphs_of_three_by_five_blocks_with_gaps_between_lines_and_letters():
    inked = []
    for row in range(-8, 16):
        for column in range(-8, 24):
            glyph = pcg((column // 4 + pcg((row // 8 + pcg(SEED)) % 2**32)) % 2**32)
            r, c = row % 8, column % 4
            letter = c < 3 and r < 5 and (glyph >> 24) % 6 > 0
            inked.append(float(letter and glyph >> (3 * r + c) & 1))
    # A block is 40 / 8 = 5 px wide; its middle is as inked as itself.
    middles = [(5 * c + 2.5, 5 * r + 2.5) for r in range(-8, 16) for c in range(-8, 24)]
    assert values("text", middles).tolist() == inked
    assert 0.1 < np.mean(inked) < 0.35
    # One pixel of a step lies between neighbours: 2 px from the border it is over.
    right = [(x + 0.5, y) for x, y in middles]
    assert values("text", right).tolist() == inked


def test_cells_are_dark_on_their_borders_and_of_one_shade_inside():
    rng = np.random.default_rng(0)
    points = rng.uniform(-100, 100, (300, 2))
    expected = []
    for x, y in points / WAVELENGTH:
        seeds = []
        for j in range(int(np.floor(y)) - 1, int(np.floor(y)) + 2):
            for i in range(int(np.floor(x)) - 1, int(np.floor(x)) + 2):
                at = (i + 0.15 + 0.7 * chance(i, j), j + 0.15 + 0.7 * chance(i, j, SEED + 1))
                seeds.append((np.hypot(x - at[0], y - at[1]), chance(i, j, SEED + 2)))
        (nearest, shade), (next_nearest, _) = sorted(seeds)[:2]
        border = 1 - np.exp(-((8 * (next_nearest - nearest)) ** 2))
        expected.append((0.4 + 0.6 * shade) * border)
    assert values("cells", points) == pytest.approx(np.array(expected), abs=2e-4)
    assert min(expected) < 0.05
    assert max(expected) > 0.9


def test_tiles_repeat_a_piece_of_the_photograph():
    rng = np.random.default_rng(0)
    photos = torch.from_numpy(rng.integers(0, 256, (2, 90, 120, 4), np.uint8))
    textures = Textures(photos, torch.zeros(1, 4, 4, 4, dtype=torch.uint8))
    settings = SceneSettings(height=64, width=96, layers=1, frozen=1.0)
    scenes = sample_scenes(rng, 1, 2, 0, (90, 120), settings)
    scenes.layers["radius"][:, 1:] = 0
    back = scenes.layers[:, 0]
    back["texture"], back["wavelength"] = (1, 0, 0, 0, 1, 0), 16
    back["tint"] = np.eye(3)
    back["surface"] = SURFACES.index("tiles")
    frame = compose(scenes, textures, 64, 96).frames[0, 0]
    torch.testing.assert_close(frame[:, 16:], frame[:, :-16], rtol=0, atol=1e-4)
    torch.testing.assert_close(frame[16:], frame[:-16], rtol=0, atol=1e-4)
    assert (frame[:, 8:] - frame[:, :-8]).abs().mean() > 0.1
    # Within a tile, pixels lie as in the photograph: somewhere in it is this piece, resampled.
    corner_x = (chance(0, 0, int(back["seed"][0])) - 0.5) * 120
    corner_y = (chance(0, 0, int(back["seed"][0]) + 1) - 0.5) * 90
    x, y = 40 - 0.5 * 95 + 48, 20 - 0.5 * 63 + 32  # pixel (40, 20), three and two tiles on
    at = np.array((corner_x + x % 16 + 0.5 * 119, corner_y + y % 16 + 0.5 * 89))
    left, top = np.floor(at).astype(int)
    fx, fy = at - (left, top)

    def mirrored(index, size):
        index %= 2 * size
        return index if index < size else 2 * size - 1 - index

    expected = sum(
        photos[int(back["photo"][0]), mirrored(top + j, 90), mirrored(left + i, 120), :3].float()
        * (fx if i else 1 - fx)
        * (fy if j else 1 - fy)
        for i in (0, 1)
        for j in (0, 1)
    )
    torch.testing.assert_close(frame[20, 40].double(), expected.double() / 255, rtol=0, atol=1e-3)


def test_surfaces_of_several_scenes_keep_to_their_own():
    points = [(3.5, 7.25), (-60.0, 11.0), (141.0, -33.5)]
    names = [*SURFACES, "cells", "photo"]
    t = torch.tensor(points).view(1, 1, -1, 2).expand(len(names), -1, -1, -1)
    column = (len(names), 1, 1)
    surface = torch.tensor([SURFACES.index(name) for name in names]).view(column)
    seed = torch.full(column, SEED)
    together = pattern(surface, torch.full(column, WAVELENGTH), seed, t)[:, 0].numpy()
    for name, row in zip(names, together, strict=True):
        computed = name not in ("photo", "sprite", "tiles")
        expected = values(name, points) if computed else np.zeros(len(points))
        np.testing.assert_allclose(row, expected, atol=1e-6)


def ramps():
    """Return a photograph of one gray, and one whose red is x + 20."""
    photos = torch.full((2, 90, 120, 4), 100, dtype=torch.uint8)
    photos[1, ..., 0] = torch.arange(20, 140, dtype=torch.uint8)
    return Textures(photos, torch.zeros(1, 4, 4, 4, dtype=torch.uint8))


def test_a_reflection_moves_as_it_does_and_the_flow_as_the_surface_does():
    settings = SceneSettings(height=32, width=48, layers=1, frozen=1.0, glossy=0.0)
    scenes = sample_scenes(np.random.default_rng(0), 1, 2, 0, (90, 120), settings)
    scenes.layers["radius"][:, 1:] = 0
    back = scenes.layers[:, 0]
    back["surface"], back["photo"], back["tint"] = SURFACES.index("photo"), 0, np.eye(3)
    back["gloss"], back["reflected"] = 0.25, 1
    # In the second frame it is 6 px further to the right: there is seen what was to the left.
    back["reflection"] = (0.5, 0, 0, 0, 0.5, 0), (0.5, 0, -3, 0, 0.5, 0)
    composed = compose(scenes, ramps(), 32, 48)
    x = torch.arange(48) - 23.5
    for frame, shift in ((0, 0), (1, -3)):
        reflected = 20 + 59.5 + 0.5 * x + shift
        expected = (0.75 * 100 + 0.25 * reflected) / 255
        torch.testing.assert_close(composed.frames[frame, 0, 7, :, 0], expected)
    assert (composed.flow == 0).all()
    torch.testing.assert_close(composed.frames[..., 1], torch.full((2, 1, 32, 48), 100 / 255))


def test_reflections_are_in_the_share_asked_for_and_move_half_as_far_as_things_do():
    settings = SceneSettings(
        height=64, width=96, layers=5, glossy=0.6, frozen=0.2, motion_spread=(1.0, 1.0)
    )
    scenes = sample_scenes(np.random.default_rng(0), 3000, 2, 0, (90, 120), settings)
    glossy = scenes.layers["gloss"] > 0
    assert glossy[:, 1:].mean() == pytest.approx(0.6, abs=0.02)
    assert glossy[:, 0].mean() == pytest.approx(0.2, abs=0.03)
    assert scenes.layers["gloss"].max() < 0.7
    # What the second map takes to where the first takes the origin: how far it has moved.
    first, second = scenes.layers["reflection"].astype(float).reshape(-1, 2, 2, 3).swapaxes(0, 1)
    moved = np.linalg.solve(first[..., :2], (first - second)[..., 2:])[..., 0]
    length = np.linalg.norm(moved, axis=-1).reshape(3000, 6)
    moves = length[:, 0] > 1e-4
    assert moves.mean() == pytest.approx(0.8, abs=0.03)
    usual = moves & (scenes.optics["contrast"].max(-1) >= 0.3)
    assert length[usual].mean() == pytest.approx(0.5 * settings.typical_motion, rel=0.05)
    assert np.abs(moved.mean(0)).max() < 0.3  # in any direction
