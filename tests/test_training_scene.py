"""Random scenes: planes move as 3-D points do, limbs hold together, patches stay inside."""

import dataclasses

import numpy as np
import pytest

from pwcflow.training.attached import attach_objects
from pwcflow.training.camera import depths_inverse, plane_motions, random_backs, turns
from pwcflow.training.motions import moved
from pwcflow.training.objects import place_objects
from pwcflow.training.sampling import sample_scenes
from pwcflow.training.scene import HARMONICS, SHAPES, SURFACES, SceneSettings
from pwcflow.training.shadows import cast_shadows
from pwcflow.training.struts import random_struts

SETTINGS = SceneSettings()
CORNERS = np.array([(x, y) for x in (-256, 256) for y in (-192, 192)], float)


def sample(count, seed=0, **changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    return sample_scenes(np.random.default_rng(seed), count, 3, 2, (480, 640), settings)


def matrices(layers):
    return layers["motion"].astype(float).reshape(*layers.shape, 3, 3)


def test_a_plane_moves_as_its_3d_points_are_projected():
    focal, zoom, (ax, ay, az) = 400.0, 1.1, (0.03, -0.12, 0.2)
    about_x = [[1, 0, 0], [0, np.cos(ax), -np.sin(ax)], [0, np.sin(ax), np.cos(ax)]]
    about_y = [[np.cos(ay), 0, np.sin(ay)], [0, 1, 0], [-np.sin(ay), 0, np.cos(ay)]]
    about_z = [[np.cos(az), -np.sin(az), 0], [np.sin(az), np.cos(az), 0], [0, 0, 1]]
    rotation = np.array(about_z) @ about_y @ about_x
    shift = np.array((0.3, -0.1, -0.4))
    normal, distance = np.array((0.1, 0.5, 1.0)), 6.0  # the plane n . X = 6
    along, across = np.array((1, 0, -0.1)), np.array((0, 2, -1))  # both at right angles to n
    for i, j in ((0, 0), (0.7, -0.4), (-1.5, 0.9)):
        point = np.array((0, 0, distance)) + i * along + j * across
        assert normal @ point == pytest.approx(distance)
        before = focal * point[:2] / point[2]
        x, y, z = rotation @ point + shift
        after = zoom * focal * np.array((x, y)) / z
        # 1 / Z = n . X / (Z d) = (n_x x / f + n_y y / f + n_z) / d at the pixel (x, y).
        plane = np.array((normal[0] / focal, normal[1] / focal, normal[2])) / distance
        turn = turns(np.array([focal]), np.array([zoom]), np.array([[ax, ay, az]]))
        travel = np.array((zoom * focal, zoom * focal, 1)) * shift
        motion = plane_motions(turn[0], travel, plane)
        assert moved(motion, before) == pytest.approx(after, rel=1e-9)
        assert depths_inverse(plane, before) == pytest.approx(1 / point[2], rel=1e-9)


def test_what_is_twice_as_near_moves_twice_as_far_when_the_camera_steps_aside():
    planes = np.array([(0, 0, 1), (0, 0, 2), (0.001, 0, 1)])
    motion = plane_motions(np.eye(3), np.array((8.0, -3.0, 0.0)), planes)
    shift = moved(motion, np.array((100.0, 50.0))) - (100, 50)
    # The third plane is at 1 / Z = 1.1 there.
    assert shift == pytest.approx(np.array([(8, -3), (16, -6), (8.8, -3.3)]))


def test_objects_are_nearer_than_the_background_and_the_objects_behind_them():
    rng = np.random.default_rng(0)
    backs = random_backs(rng, 200, SETTINGS)
    farthest = depths_inverse(backs[:, None], CORNERS).min(1)
    assert farthest.min() > 0.1  # the background's horizon is outside the image
    assert (farthest < 0.5).mean() > 0.3  # but grounds come near to it
    present = np.arange(SETTINGS.layers) < rng.integers(1, SETTINGS.layers + 1, (200, 1))
    places = place_objects(rng, backs, present, SETTINGS)
    mine = depths_inverse(places.plane, places.centre)
    assert (mine > depths_inverse(backs[:, None], places.centre))[present].all()
    both = present[:, 1:]
    assert (mine[:, 1:] >= mine[:, :-1])[both].all()


def test_no_plane_passes_the_camera_and_all_motion_stays_within_bounds():
    layers = sample(400, solid=1.0, typical_motion=60.0).layers
    motion = matrices(layers)
    depth = (motion[..., None, 2, :2] * CORNERS).sum(-1) + motion[..., None, 2, 2]
    assert depth.min() > 0.2
    back = motion[:, 0, None]
    flow = np.linalg.norm(moved(back, CORNERS) - CORNERS, axis=-1)
    assert flow.max() < 1.05 * SETTINGS.largest_motion
    assert (flow.max(1) > 100).mean() > 0.05


def test_scenes_in_space_have_parallax_zoom_roll_and_stillness():
    layers = sample(600, solid=1.0).layers
    motion = matrices(layers)[:, 0]
    jacobian = motion[:, :2, :2] - motion[:, :2, 2:] * motion[:, 2:, :2]  # at the centre
    growth = 0.5 * (jacobian[:, 0, 0] + jacobian[:, 1, 1])
    roll = 0.5 * (jacobian[:, 1, 0] - jacobian[:, 0, 1])
    assert 0.2 < (growth > 1.01).mean() < 0.6
    assert (growth < 0.99).mean() > 0.05
    assert 0.1 < (np.abs(roll) > 0.01).mean() < 0.6
    still = (motion == np.eye(3)).all((1, 2))
    assert 0.08 < still.mean() < 0.2  # 10 % of cameras and 3 % of scenes


def test_nothing_moves_in_a_frozen_scene():
    layers = sample(20, frozen=1.0).layers
    assert (matrices(layers) == np.eye(3)).all()
    assert not layers["waves"].any()


def test_faint_scenes_move_less():
    scenes = sample(6000, layers=1, solid=0.0)
    length = np.linalg.norm(matrices(scenes.layers)[:, 0, :2, 2], axis=-1)
    faint = scenes.optics["contrast"].max(-1) < 0.3
    assert 0.04 < faint.mean() < 0.1
    moves = length > 0
    apart = np.log(length[moves & faint]).mean() - np.log(length[moves & ~faint]).mean()
    assert apart == pytest.approx(np.log(0.3), abs=0.25)  # 400 scenes: a standard error of 0.09


@pytest.fixture(scope="module")
def attached():
    """300 parents, 300 children that may be limbs or patches on them, and which of them are."""
    alone = sample(300, seed=3, layers=2, attached=0.0).layers[:, 1:]
    objects = alone.copy()
    everything = dataclasses.replace(SETTINGS, attached=1.0)
    attach_objects(objects, np.random.default_rng(0), np.full(300, 13.0), everything)
    parent, child = objects.T
    joined = (alone["pose"] != objects["pose"]).any(-1)[:, 1]
    patch = joined & (child["aspect"] == parent["aspect"])
    assert 0.5 < joined.mean() < 0.8
    return parent, child, joined & ~patch, patch


def in_units(layer, points):
    """Return points of frame 2 in each layer's own frame, where 1 is its mean outline."""
    x, y = (points - layer["pose"][:, :2]).T
    cosine, sine = layer["pose"][:, 2:].T
    along, across = cosine * x + sine * y, cosine * y - sine * x
    size = layer["radius"]
    return np.stack((along / size * layer["aspect"], across / size / layer["aspect"]), -1)


def outline(layer, angle):
    """Return frame-2 points of outlines (N,) in a direction of their own frames."""
    harmonics = np.arange(2, 2 + HARMONICS)
    waves = layer["amplitudes"] * np.cos(harmonics * angle + layer["phases"])
    c, s, e = np.abs(np.cos(angle)), np.abs(np.sin(angle)), layer["exponent"]
    blob = layer["shape"] == SHAPES.index("blob")
    out = np.where(blob, 1 + waves.sum(-1), (c**e + s**e) ** (-1 / e))
    x = out * np.cos(angle) * layer["radius"] / layer["aspect"]
    y = out * np.sin(angle) * layer["radius"] * layer["aspect"]
    px, py, cosine, sine = layer["pose"].T
    return np.stack((px + cosine * x - sine * y, py + sine * x + cosine * y), -1)


def relative(child, parent):
    return matrices(child) @ np.linalg.inv(matrices(parent))


def test_a_limb_turns_about_a_joint_that_moves_with_its_parent(attached):
    parent, child, limb, _ = (values[attached[2]] for values in attached)
    assert limb.all()
    length = child["radius"] / child["aspect"]
    joint = child["pose"][:, :2] - 0.7 * length[:, None] * child["pose"][:, 2:]
    assert np.linalg.norm(in_units(parent, joint), axis=-1) == pytest.approx(0.7, abs=1e-3)
    motion = relative(child, parent)
    motion /= motion[:, 2:, 2:]
    # Where the parent takes the joint, the limb takes it too; around it, the limb is turned.
    assert np.abs(moved(motion, joint) - joint).max() < 0.01
    cosine, sine = motion[:, 0, 0], motion[:, 1, 0]
    assert np.abs(cosine**2 + sine**2 - 1).max() < 1e-3
    assert np.abs(np.arcsin(sine)).max() <= 0.61
    end = child["pose"][:, :2] + length[:, None] * child["pose"][:, 2:]
    swing = np.linalg.norm(moved(motion, end) - end, axis=-1)
    assert 2 < np.median(swing) < 13
    assert (child["waves"] == parent["waves"]).all()


def test_a_patch_lies_inside_its_parent_and_slips_a_little(attached):
    parent, child, _, patch = (values[attached[3]] for values in attached)
    assert patch.all()
    for angle in np.linspace(0, 2 * np.pi, 32, endpoint=False):
        edge = in_units(parent, outline(child, angle))
        directions = np.arctan2(edge[:, 1], edge[:, 0])
        harmonics = np.arange(2, 2 + HARMONICS)
        waves = parent["amplitudes"] * np.cos(harmonics * directions[:, None] + parent["phases"])
        blob = parent["shape"] == SHAPES.index("blob")
        e = parent["exponent"][:, None]
        norm = ((np.abs(edge) ** e).sum(-1)) ** (1 / e[:, 0])
        out = np.where(blob, np.linalg.norm(edge, axis=-1) / (1 + waves.sum(-1)), norm)
        assert out.max() <= 1.0
    centre = child["pose"][:, :2]
    slip = np.linalg.norm(moved(relative(child, parent), centre) - centre, axis=-1)
    assert (slip <= 0.3 * child["radius"] + 0.01).all()
    assert np.median(slip) > 0.3
    assert (child["waves"] == parent["waves"]).all()


def test_chains_of_limbs_hold_together_through_every_link():
    layers = sample(200, seed=5, solid=0.0, attached=1.0).layers[:, 1:]
    motion = matrices(layers)
    chains = 0
    for objects, motions in zip(layers, motion, strict=True):
        length = objects["radius"] / objects["aspect"]
        for i in range(2, len(objects)):
            first, second = objects[i - 1], objects[i]
            end = first["pose"][:2] + 0.7 * length[i - 1] * first["pose"][2:]
            start = second["pose"][:2] - 0.7 * length[i] * second["pose"][2:]
            if np.abs(end - start).max() > 1e-3 or first["radius"] == 0 or second["radius"] == 0:
                continue
            chains += 1
            before = moved(np.linalg.inv(motions[i - 1]), end)
            assert moved(motions[i], before) == pytest.approx(end, abs=0.02)
    assert chains > 20


def shadows(typical):
    """Return objects and the shadows that they cast, of 600 scenes of one or two objects."""
    objects = sample(600, seed=4, layers=2, attached=0.0, shadowed=0.0).layers[:, 1:].copy()
    before = objects.copy()
    everywhere = dataclasses.replace(SETTINGS, shadowed=1.0)
    here = objects["radius"] > 0
    cast_shadows(objects, np.random.default_rng(0), here, np.full(600, typical), everywhere)
    behind, caster = objects.T
    is_shadow = behind["shade"] > 0
    assert (caster == before[:, 1]).all()  # the nearest one is nobody's shadow
    assert (behind == before[:, 0])[~is_shadow].all()
    assert not is_shadow[~here.all(1)].any()
    assert 0.23 < is_shadow[here.all(1)].mean() < 0.37
    return caster[is_shadow], behind[is_shadow]


def bend(layers, points):
    """Return how far points (N, 2) of frame 1 are displaced before the motion of layers (N,)."""
    kx, ky, phase, ax, ay = np.moveaxis(layers["waves"].astype(float), -1, 0)
    waves = np.sin(kx * points[:, :1] + ky * points[:, 1:] + phase)
    return np.stack(((ax * waves).sum(-1), (ay * waves).sum(-1)), -1)


def test_a_shadow_lies_beside_what_casts_it_and_moves_like_it():
    caster, shadow = shadows(typical=0.0)
    for name in ("shape", "aspect", "amplitudes", "struts"):
        assert (shadow[name] == caster[name]).all()
    offset = (shadow["pose"] - caster["pose"])[:, :2].astype(float)
    out = np.linalg.norm(offset, axis=-1) / caster["radius"]
    assert out.min() >= 0.199
    assert out.max() <= 1.501
    assert shadow["shade"].min() >= 0.2
    assert shadow["shade"].max() <= 0.9
    for corner in CORNERS:
        expected = moved(matrices(caster), corner) + offset
        assert moved(matrices(shadow), corner + offset) == pytest.approx(expected, abs=0.05)
        bent = bend(caster, np.broadcast_to(corner, offset.shape))
        assert bend(shadow, corner + offset) == pytest.approx(bent, abs=1e-3)
    assert np.abs(bent).max() > 1


def test_half_of_the_shadows_slip_by_a_part_of_the_typical_motion():
    caster, shadow = shadows(typical=10.0)
    centre = shadow["pose"][:, :2].astype(float)
    offset = centre - caster["pose"][:, :2]
    alike = moved(matrices(caster), centre - offset) + offset
    slip = np.linalg.norm(moved(matrices(shadow), centre) - alike, axis=-1)
    slips = slip > 0.01
    assert 0.4 < slips.mean() < 0.6
    # Some 45 of them: a standard error of 15 %.
    assert slip[slips].mean() == pytest.approx(3.0, rel=0.4)


def test_shadows_are_of_objects_that_are_there_and_cast_none():
    layers = sample(400, attached=0.0, shadowed=1.0).layers[:, 1:]
    is_shadow = (layers["shade"] > 0) & (layers["radius"] > 0)
    last = (layers["radius"] > 0).sum(-1) - 1
    assert not is_shadow[np.arange(400), last].any()
    assert 0.15 < is_shadow.sum() / (layers["radius"] > 0).sum() < 0.25
    for scene, i in np.argwhere(is_shadow):
        nearer = layers[scene, i + 1 :]
        alike = (nearer["phases"] == layers["phases"][scene, i]).all(-1)
        assert (alike & (nearer["shade"] == 0) & (nearer["radius"] > 0)).any()
    assert not sample(400, shadowed=0.0).layers["shade"].any()


@pytest.mark.parametrize(
    ("height", "width", "typical", "largest"),
    # The last: four times the area of the first.
    [(384, 512, 13, 180), (128, 128, 3.25, 45), (192, 512, 6.5, 90), (768, 1024, 13, 360)],
)
def test_small_scenes_move_less_and_large_ones_farther(height, width, typical, largest):
    settings = SceneSettings.of_size(height, width)
    assert (settings.height, settings.width) == (height, width)
    assert (settings.typical_motion, settings.largest_motion) == (typical, largest)


def test_the_motion_that_is_asked_for_is_that_of_any_size():
    settings = SceneSettings.of_size(128, 128, 15.0)
    assert (settings.typical_motion, settings.largest_motion) == (15, 45)


def test_fewer_backgrounds_than_objects_are_computed_but_all_without_photographs():
    for photographs, of_backgrounds, of_objects in ((True, 0.08, 0.2), (False, 1, 1)):
        settings = SceneSettings.of_size(384, 512, photographs=photographs)
        settings = dataclasses.replace(settings, attached=0.0)
        rng = np.random.default_rng(0)
        layers = sample_scenes(rng, 1500, 5, 0, (640, 896), settings).layers
        computed = layers["surface"] != SURFACES.index("photo")
        assert computed[:, 0].mean() == pytest.approx(of_backgrounds, abs=0.02)
        assert computed[:, 1:].mean() == pytest.approx(of_objects, abs=0.02)


def test_objects_are_cut_outs_in_the_share_asked_for_and_never_without_any():
    settings = dataclasses.replace(SETTINGS, attached=0.0, cut_outs=0.7)
    for sprites, share in ((7, 0.7), (0, 0.0)):
        rng = np.random.default_rng(0)
        objects = sample_scenes(rng, 500, 5, sprites, (640, 896), settings).layers[:, 1:]
        cut_out = objects["shape"] == SHAPES.index("sprite")
        assert cut_out.mean() == pytest.approx(share, abs=0.02)


def test_others_are_skeletons_in_the_share_asked_for():
    settings = dataclasses.replace(SETTINGS, attached=0.0, cut_outs=0.4, skeletons=0.5)
    rng = np.random.default_rng(0)
    objects = sample_scenes(rng, 500, 5, 7, (640, 896), settings).layers[:, 1:]
    skeleton = objects["shape"] == SHAPES.index("skeleton")
    assert skeleton.mean() == pytest.approx(0.6 * 0.5, abs=0.02)
    upright = objects["pose"][..., 2] > np.cos(0.6)  # three standard deviations of 0.2
    assert upright[skeleton].mean() == pytest.approx(0.6 + 0.4 * 0.6 / np.pi, abs=0.03)
    assert upright[~skeleton].mean() == pytest.approx(0.6 / np.pi, abs=0.02)
    magnified = np.linalg.norm(objects["texture"][..., [0, 3]], axis=-1) < 0.4
    assert magnified[skeleton].mean() == pytest.approx(0.5, abs=0.03)
    assert magnified[~skeleton].mean() == pytest.approx(0.2, abs=0.02)


def test_legs_begin_on_the_seat_and_rungs_end_on_legs_that_are_there():
    radius = np.full((400, 3), 30.0)
    struts = random_struts(np.random.default_rng(0), radius).reshape(-1, 8, 5)
    assert struts[..., 4][struts[..., 4] > 0].min() == pytest.approx(0.7 / 30)
    seat, back, legs, rungs = struts[:, 0], struts[:, 1], struts[:, 2:6], struts[:, 6:]
    assert (seat[:, [1, 3]] == 0).all()
    assert (np.abs(back[:, 0]) == seat[:, 2]).all()
    assert not back[:, 1].any()
    assert (back[:, 3] < 0).all()
    assert not legs[..., 1].any()
    assert (np.abs(legs[..., 0]) <= seat[:, None, 2]).all()
    assert (legs[..., 3] > 0).all()
    solid = legs[..., 4] > 0
    assert solid.mean() == pytest.approx(0.85, abs=0.03)
    for chair_rungs, chair_legs in zip(rungs, legs, strict=True):
        standing = chair_legs[chair_legs[:, 4] > 0]
        for rung in chair_rungs[chair_rungs[:, 4] > 0]:
            assert rung[4] == standing[0, 4]
            ends = []
            for end in (rung[:2], rung[2:4]):
                share = end[1] / standing[:, 3]
                x = standing[:, 0] + share * (standing[:, 2] - standing[:, 0])
                assert np.abs(x - end[0]).min() < 1e-9
                ends.append(np.abs(x - end[0]).argmin())
            assert ends[0] != ends[1]
    there = (rungs[..., 4] > 0).mean()
    assert there == pytest.approx(0.6 * 0.85**2, abs=0.03)  # and both of its legs are


def test_objects_are_as_large_in_proportion_at_any_size():
    medians = []
    for height, width in ((128, 128), (384, 512), (448, 768)):
        alone = {"attached": 0.0, "shadowed": 0.0}
        radius = sample(400, height=height, width=width, **alone).layers["radius"][:, 1:]
        medians.append(np.median(radius[radius > 0]) / np.sqrt(height * width))
    assert medians == pytest.approx([medians[0]] * 3, rel=1e-5)
    # Of the large ones, 0.8 of all, it is sqrt(0.06 * 0.5) = 0.17; small and thin ones lower it.
    assert 0.08 < medians[0] < 0.17
