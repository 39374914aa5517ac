"""Rendered pairs: exact flow, repeatable scenes, kernels that equal the plain-torch renderer."""

import dataclasses

import numpy as np
import pytest
import torch

from pwcflow.cuda_kernels import kernel_source
from pwcflow.training.optics import random_optics
from pwcflow.training.render import Renderer
from pwcflow.training.render_reference import Textures, compose, photograph
from pwcflow.training.sampling import sample_scenes
from pwcflow.training.scene import SHAPES, SURFACES, SceneSettings
from pwcflow.warp import backward_warp
from tests.host_kernel import host_kernel, needs_compiler

SETTINGS = SceneSettings(
    height=64, width=96, layers=4, typical_motion=4.0, glossy=0.0, shadowed=0.0
)


@pytest.fixture(scope="module")
def textures():
    """Smooth photographs and one round cut-out: bilinear samples of them are nearly exact."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:80, 0:100]
    photos = np.full((3, 80, 100, 4), 255, np.uint8)
    for i in range(3):
        for c in range(3):
            k = rng.normal(size=2) * 0.15
            photos[i, ..., c] = 127 + 100 * np.sin(k[0] * x + k[1] * y + rng.random() * 6)
    disc = (np.hypot(*np.mgrid[-15.5:16, -15.5:16]) < 12).astype(np.uint8) * 255
    sprites = np.stack((disc // 2, disc, disc // 4, disc), -1)[None]
    return Textures(torch.from_numpy(photos), torch.from_numpy(sprites))


def scenes_of(textures, count=4, seed=0, settings=SETTINGS):
    height, width = textures.photos.shape[1:3]
    return sample_scenes(
        np.random.default_rng(seed),
        count,
        len(textures.photos),
        len(textures.sprites),
        (height, width),
        settings,
    )


def still_background(textures):
    """Return one scene in which nothing moves, and nothing is before the background."""
    scenes = scenes_of(textures, 1)
    scenes.layers["motion"], scenes.layers["waves"] = np.eye(3, dtype=np.float32).reshape(9), 0
    scenes.layers["radius"][:, 1:] = 0
    return scenes


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"solid": 1.0, "attached": 0.0},
        {"solid": 0.0, "attached": 1.0},
        {"procedural": 0.8, "procedural_background": 0.8},
    ],
    ids=str,
)
def test_frame_two_warped_by_the_flow_is_frame_one_where_both_show_the_point(textures, changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    composed = compose(scenes_of(textures, 6, settings=settings), textures, 64, 96)
    second = composed.frames[1].permute(0, 3, 1, 2)
    warped = backward_warp(second, composed.flow).permute(0, 2, 3, 1)
    seen = composed.visible > 0
    assert 0.5 < seen.float().mean() < 1
    error = (warped - composed.frames[0]).abs().mean(-1)
    # Away from outlines only the bilinear warp errs, on textures of many pixels a period.
    exact = error[seen].median()
    assert exact < 0.003
    shifted = backward_warp(second, composed.flow + 0.5).permute(0, 2, 3, 1)
    assert (shifted - composed.frames[0]).abs().mean(-1)[seen].median() > 5 * exact


def test_a_translated_object_before_a_still_background_has_the_flow_worked_out_by_hand(textures):
    scenes = still_background(textures)
    layers = scenes.layers
    box = layers[0, 1]
    box["radius"], box["aspect"], box["softness"], box["exponent"] = 10, 1, 0.5, 8
    box["shape"], box["pose"] = SHAPES.index("superellipse"), (0.5, 0.5, 1, 0)
    box["motion"][[2, 5]] = 5, -3  # frame 1's p is at p + (5, -3) in frame 2
    flow = compose(scenes, textures, 64, 96).flow[0]
    # In frame 2 the box is about (48, 32), so in frame 1 it was about (43, 35).
    assert flow[:, 35, 43].tolist() == pytest.approx([5, -3], abs=1e-4)
    assert flow[:, 35, 35].tolist() == pytest.approx([5, -3], abs=1e-4)  # 8 px left of it
    assert flow[:, 35, 30].tolist() == pytest.approx([0, 0], abs=1e-4)  # 13 px left of it
    assert flow[:, 5, 80].tolist() == pytest.approx([0, 0], abs=1e-4)
    visible = compose(scenes, textures, 64, 96).visible[0]
    # The background right of the box in frame 1 is behind it in frame 2.
    assert visible[35, 43] == 1
    assert visible[32, 55] == 0
    assert visible[32, 61] == 1


def test_a_shadow_darkens_what_it_passes_over_and_leaves_it_its_flow(textures):
    scenes = still_background(textures)
    lit = compose(scenes, textures, 64, 96)
    shadow, box = scenes.layers[0, 1], scenes.layers[0, 2]
    for layer in (shadow, box):
        layer["radius"], layer["aspect"], layer["softness"], layer["exponent"] = 10, 1, 0.5, 8
        layer["shape"], layer["pose"] = SHAPES.index("superellipse"), (0.5, 0.5, 1, 0)
    shadow["motion"][[2, 5]] = 5, -3  # about (43, 35) in frame 1, (48, 32) in frame 2
    shadow["shade"] = 0.6
    box["pose"][0] = 12.5  # about (60, 32) in both
    dark = compose(scenes, textures, 64, 96)
    for frame, x, y in ((0, 43, 35), (0, 36, 35), (1, 48, 32), (1, 41, 32)):
        expected = 0.4 * lit.frames[frame, 0, y, x]
        torch.testing.assert_close(dark.frames[frame, 0, y, x], expected, rtol=1e-3, atol=1e-4)
    for frame, x, y in ((0, 30, 35), (1, 36, 32)):  # beside it
        torch.testing.assert_close(dark.frames[frame, 0, y, x], lit.frames[frame, 0, y, x])
    assert not dark.flow.any()
    assert dark.visible[0, 35, 43] == 1
    assert dark.visible[0, 32, 48] == 1
    shadow["radius"] = 0
    bare = compose(scenes, textures, 64, 96)
    in_front = 1, 0, 32, 54  # of the shadow, which reaches to x = 58
    torch.testing.assert_close(dark.frames[in_front], bare.frames[in_front])


def test_a_skeleton_is_solid_along_its_struts_as_wide_as_they_are(textures):
    scenes = still_background(textures)
    layers = scenes.layers
    chair = layers[0, 1]
    chair["shape"], chair["radius"], chair["softness"] = SHAPES.index("skeleton"), 20, 0.5
    chair["pose"] = 0.5, 0.5, 1, 0  # its origin is the pixel (48, 32)
    chair["motion"][2] = 1  # whatever shows it moves by 1 px
    chair["struts"] = 0
    chair["struts"][0] = -0.5, 0, 0.5, 0, 0.16  # seat: x from 38 to 58, half 3.2 px high
    chair["struts"][1] = 0.4, 0, 0.4, 1, 0.075  # a leg at x = 56 down to y = 52, half 1.5 px wide
    chair["struts"][2] = -0.4, 0, -0.4, 1, 0.0  # no leg
    flow = compose(scenes, textures, 64, 96).flow[0, 0].round()
    expected = torch.zeros(64, 96)
    y, x = torch.meshgrid(torch.arange(64), torch.arange(96), indexing="ij")
    x = x + 1  # in frame 2
    beyond = (x - x.clamp(38, 58)).square() + (y - 32).square()
    expected[beyond < 3.2**2] = 1
    beyond = (x - 56).square() + (y - y.clamp(32, 52)).square()
    expected[beyond < 1.5**2] = 1
    torch.testing.assert_close(flow, expected, rtol=0, atol=0)


def test_a_scene_larger_than_its_photograph_mirrors_it_at_the_edges(textures):
    scenes = still_background(textures)
    layers = scenes.layers
    back = layers[0, 0]
    back["surface"], back["photo"], back["tint"] = SURFACES.index("photo"), 2, np.eye(3)
    back["texture"] = 1, 0, 0, 0, 1, 0
    frame = compose(scenes, textures, 144, 200).frames[0, 0].numpy()
    expected = np.pad(textures.photos[2, ..., :3], ((32, 32), (50, 50), (0, 0)), "symmetric")
    np.testing.assert_allclose(frame, expected / 255, atol=1e-4)


def test_scenes_are_the_same_for_the_same_seed_and_no_others(textures):
    one, same, other = (scenes_of(textures, seed=seed) for seed in (1, 1, 2))
    assert one.layers.tobytes() == same.layers.tobytes()
    assert one.optics.tobytes() == same.optics.tobytes()
    assert one.layers.tobytes() != other.layers.tobytes()


def test_every_shape_and_surface_occurs_and_motions_spread_from_none_to_large(textures):
    settings = dataclasses.replace(SETTINGS, typical_motion=13.0, layers=8)
    layers = scenes_of(textures, 400, settings=settings).layers
    objects = layers[:, 1:][layers["radius"][:, 1:] > 0]
    assert set(objects["shape"]) == set(range(1, len(SHAPES)))
    assert set(objects["surface"]) == set(range(len(SURFACES)))
    assert (layers["shape"][:, 0] == SHAPES.index("everywhere")).all()
    shift = np.linalg.norm(layers["motion"][:, 0][:, [2, 5]], axis=1)
    assert (shift == 0).mean() > 0.05
    assert ((shift > 0) & (shift < 1)).mean() > 0.05
    assert (shift > 30).mean() > 0.02
    assert shift.max() <= settings.largest_motion


def test_images_are_blue_green_red_and_zeros_in_0_to_1(textures):
    scenes = scenes_of(textures, 2)
    neutral = scenes.optics
    for field in ("shutter", "defocus", "fog", "gray", "noise", "brightness", "spots", "quantum"):
        neutral[field] = 0
    neutral["light"] = 0
    for field in ("gain", "contrast", "gamma"):
        neutral[field] = 1
    composed = compose(scenes, textures, 64, 96)
    images = photograph(composed, scenes)
    assert images.shape == (4, 8, 64, 96)
    rgb = torch.cat((composed.frames[0], composed.frames[1])).permute(0, 3, 1, 2)
    torch.testing.assert_close(images[:, :3], rgb.flip(1).clamp(1e-4, 1), rtol=1e-5, atol=1e-5)
    assert not images[:, 3:].any()


def test_noise_has_the_standard_deviation_asked_for(textures):
    scenes = scenes_of(textures, 1)
    scenes.optics["noise"] = scenes.optics["quantum"] = 0
    quiet = photograph(compose(scenes, textures, 64, 96), scenes)
    scenes.optics["noise"] = 0.02
    noisy = photograph(compose(scenes, textures, 64, 96), scenes)
    inside = (quiet[:, :3] > 0.1) & (quiet[:, :3] < 0.9)
    difference = (noisy[:, :3] - quiet[:, :3])[inside]
    assert float(difference.std()) == pytest.approx(0.02, rel=0.05)
    assert abs(float(difference.mean())) < 0.001


def test_a_highlight_adds_a_soft_blob_and_a_shadow_takes_a_share_each_where_it_is(textures):
    scenes = scenes_of(textures, 1)
    scenes.layers["radius"][:, 1:] = 0
    back = scenes.layers[:, 0]
    back["surface"], back["colours"] = SURFACES.index("stripes"), 0.4  # gray all over
    back["tint"] = np.eye(3)
    neutral = scenes.optics
    for field in ("shutter", "defocus", "fog", "gray", "noise", "brightness", "quantum", "light"):
        neutral[field] = 0
    for field in ("gain", "contrast", "gamma"):
        neutral[field] = 1
    # A highlight of radius 6 px at pixel (30, 20), in frame 2 at (35, 20); a shadow at (70, 40).
    middle = np.array((47.5, 31.5))
    for frame, x in enumerate((30, 35)):
        highlight = (*((x, 20) - middle), 1 / 6, 0.5)
        shadow = (*((70, 40) - middle), 1 / 4, -0.5)
        neutral["spots"][0, frame] = highlight, shadow
    first, second = photograph(compose(scenes, textures, 64, 96), scenes)[:, 1]
    assert float(first[20, 30]) == pytest.approx(0.4 + 0.5, abs=1e-4)
    assert float(first[20, 36]) == pytest.approx(0.4 + 0.5 * np.exp(-0.5), abs=1e-4)
    assert float(second[20, 35]) == pytest.approx(0.4 + 0.5, abs=1e-4)
    assert float(second[20, 30]) == pytest.approx(0.4 + 0.5 * np.exp(-25 / 72), abs=1e-4)
    for frame in (first, second):
        assert float(frame[40, 70]) == pytest.approx(0.4 * 0.5, abs=1e-4)
        assert float(frame[44, 70]) == pytest.approx(0.4 * (1 - 0.5 * np.exp(-0.5)), abs=1e-4)


def test_light_moves_in_some_scenes_and_on_its_own_account(textures):
    optics = scenes_of(textures, 400).optics
    there = (optics["spots"][..., 3] != 0).any(1)
    assert 0.25 < there[:, 0].mean() < 0.45
    moves = (optics["spots"][:, 0, :, :2] != optics["spots"][:, 1, :, :2]).any(-1)
    assert 0.5 < moves[there].mean() < 0.9
    lit = (optics["light"][..., 3] != 0).any((1, 2))
    rolls = (optics["light"][:, 0, :, 2] != optics["light"][:, 1, :, 2]).any(-1)
    assert 0.4 < rolls[lit].mean() < 0.75
    assert 0.15 < (optics["quantum"] > 0).mean() < 0.35


@pytest.mark.parametrize(("typical", "mean"), [(40.0, 40.0), (3.0, 12.0)])
def test_highlights_and_shadows_move_as_far_as_things_do(typical, mean):
    optics = random_optics(np.random.default_rng(1), np.full(4000, typical), SETTINGS)
    shift = np.diff(optics["spots"][..., :2], axis=1)[:, 0]
    length = np.linalg.norm(shift, axis=-1)
    assert length[length > 0].mean() == pytest.approx(mean, rel=0.04)  # of about 5,600, exponential


def test_a_renderer_draws_the_same_pairs_for_the_same_step_and_rank(textures):
    def draw(rank, step):
        renderer = Renderer(
            textures, SETTINGS, batch=1, device=torch.device("cpu"), seed=3, rank=rank
        )
        renderer.load(step)
        return renderer.render()

    one, same, later, elsewhere = draw(0, 7), draw(0, 7), draw(0, 8), draw(1, 7)
    assert torch.equal(one.images, same.images)
    assert torch.equal(one.flow, same.flow)
    assert not torch.equal(one.flow, later.flow)
    assert not torch.equal(one.flow, elsewhere.flow)
    assert one.images.shape == (2, 8, 64, 96)
    assert one.flow.shape == (1, 2, 64, 96)
    assert bool((one.valid == 1).all())


SHARES = {
    **{"procedural": 0.5, "procedural_background": 0.5},
    **{"compressed": 0.0, "glossy": 0.5, "shadowed": 0.7},
}
"""Some of everything, but for the codec: it makes a step of a last-bit difference, and
`test_training_codec` compares it on its own."""


@needs_compiler
def test_the_kernel_that_composes_draws_on_a_processor_what_plain_torch_draws(textures, tmp_path):
    settings = SceneSettings(height=64, width=96, layers=6, **SHARES)
    scenes = scenes_of(textures, 8, settings=settings)
    source = kernel_source("pwcflow.training", "render.cu").replace("#include <cuda_fp16.h>", "")
    kernel = host_kernel(source[: source.index("// Motion blur")], "compose", tmp_path)
    frames = np.zeros((2, 8, 64, 96, 4), np.float32)
    flow, visible = np.zeros((8, 2, 64, 96), np.float32), np.zeros((8, 64, 96), np.float32)
    photos, sprites = textures.photos.numpy(), textures.sprites.numpy()
    stored = np.ascontiguousarray(scenes.layers)
    sizes = photos.shape[1:3]
    pictures = (photos, *sizes, sprites, sprites.shape[1])
    kernel(visible.size, stored, 7, *pictures, frames, flow, visible, 8, 64, 96)
    composed = compose(scenes, textures, 64, 96)
    # Along outlines a last-bit difference may decide for another layer: count, do not compare.
    wrong = np.abs(frames[..., :3] - composed.frames.numpy()).max(-1) > 1e-4
    assert wrong.mean() < 1e-4
    assert (np.abs(flow - composed.flow.numpy()).max(1) > 1e-2).mean() < 1e-4
    assert (visible != composed.visible.numpy()).mean() < 1e-3
    assert (frames[..., 3] == 1).all()


@pytest.mark.gpu
def test_the_kernels_draw_what_plain_torch_draws(textures):
    settings = SceneSettings(height=128, width=192, layers=6, **SHARES)
    renderer = Renderer(textures, settings, batch=24, device=torch.device("cuda"), seed=1)
    wrong_flow, image_errors, wrong_visible = [], [], []
    for step in range(3):
        renderer.load(step)
        batch = renderer.render()
        on_gpu = Textures(textures.photos.cuda(), textures.sprites.cuda())
        composed = compose(renderer._scenes, on_gpu, 128, 192)
        images = photograph(composed, renderer._scenes)
        # Along outlines a last-bit difference may decide for another layer: count, do not compare.
        wrong_flow.append(((batch.flow - composed.flow).abs().amax(1) > 1e-2).float().mean())
        wrong_visible.append((batch.visible[:, 0] != composed.visible).float().mean())
        image_errors.append((batch.images.float() - images).abs())
    assert torch.stack(wrong_flow).max() < 1e-4
    assert torch.stack(wrong_visible).max() < 1e-3
    errors = torch.stack(image_errors)[:, :, :3]
    assert errors.mean() < 5e-4  # float16 has steps of 0.0005 below 1
    assert (errors > 0.01).float().mean() < 1e-3
