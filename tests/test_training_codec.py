"""The codec: against block transforms written out in numpy, and its kernel against plain torch."""

import numpy as np
import pytest
import torch

from pwcflow.training.codec_reference import compress
from pwcflow.training.render import Renderer
from pwcflow.training.render_reference import Textures
from pwcflow.training.scene import SceneSettings


def cosines():
    """The orthonormal cosine basis of 8 samples (Ahmed, Natarajan and Rao 1974)."""
    matrix = np.empty((8, 8))
    for u in range(8):
        for x in range(8):
            matrix[u, x] = np.cos((2 * x + 1) * u * np.pi / 16) * np.sqrt((1 if u == 0 else 2) / 8)
    return matrix


def coded(rgb, quantum):
    """Return an image (H, W, 3) of whole blocks, each through the transform and back."""
    basis = cosines()
    assert basis @ basis.T == pytest.approx(np.eye(8))
    to_ycc = np.array(
        [(0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312)]
    )
    planes = rgb @ to_ycc.T  # JFIF's YCbCr
    for top in range(0, rgb.shape[0], 8):
        for left in range(0, rgb.shape[1], 8):
            for c in range(3):
                block = planes[top : top + 8, left : left + 8, c]
                coefficients = basis @ block @ basis.T
                for v in range(8):
                    for u in range(8):
                        step = quantum * (1 + u + v) * (1 if c == 0 else 2)
                        coefficients[v, u] = np.rint(coefficients[v, u] / step) * step
                block[:] = basis.T @ coefficients @ basis
    return (planes @ np.linalg.inv(to_ycc).T).clip(0, 1)


def smooth_image(seed, height=24, width=40):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    k = rng.normal(size=(2, 3)) * 0.3
    waves = np.sin(k[0] * x[..., None] + k[1] * y[..., None] + rng.random(3) * 6)
    return 0.5 + 0.3 * waves + 0.05 * rng.normal(size=(height, width, 3))


def as_images(rgb):
    """Return (1, 8, H, W) as the renderer has them: blue, green, red, zeros."""
    images = torch.zeros(1, 8, *rgb.shape[:2])
    images[0, :3] = torch.from_numpy(rgb[..., ::-1].copy()).permute(2, 0, 1)
    return images


@pytest.mark.parametrize("quantum", [0.01, 0.06])
def test_blocks_lose_what_numpy_says_they_lose(quantum):
    rgb = smooth_image(0)
    result = compress(as_images(rgb), torch.tensor([quantum]))
    expected = coded(rgb, quantum)
    assert np.abs(expected - rgb).mean() > 0.1 * quantum
    got = result[0, :3].permute(1, 2, 0).numpy()[..., ::-1]
    # Rounding decides otherwise for a coefficient in the middle between two steps: allow a few.
    assert (np.abs(got - expected) > 1e-3).mean() < 0.02
    assert not result[:, 3:].any()


def test_a_gray_block_keeps_the_nearest_multiple_of_an_eighth_of_the_quantum():
    # The first coefficient of 8 x 8 pixels of 0.37 is 8 * 0.37 = 2.96, nearest to 7 * 0.4 = 2.8.
    result = compress(as_images(np.full((8, 16, 3), 0.37)), torch.tensor([0.4]))
    torch.testing.assert_close(result[:, :3], torch.full((1, 3, 8, 16), 2.8 / 8), rtol=0, atol=1e-5)


def test_without_a_quantum_an_image_stays_as_it_is_and_scenes_do_not_mix():
    images = torch.cat([as_images(smooth_image(seed)) for seed in range(2)])
    result = compress(images, torch.tensor([0.0, 0.05]))
    assert torch.equal(result[0], images[0])
    assert torch.equal(result[1], compress(images[1:], torch.tensor([0.05]))[0])
    assert not torch.equal(result[1], images[1])


def test_blocks_over_the_edge_repeat_the_last_pixels():
    rgb = smooth_image(1, 13, 21)
    padded = np.pad(rgb, ((0, 3), (0, 3), (0, 0)), mode="edge")
    quantum = torch.tensor([0.03])
    whole = compress(as_images(padded), quantum)
    torch.testing.assert_close(compress(as_images(rgb), quantum), whole[..., :13, :21])


@pytest.mark.gpu
@pytest.mark.parametrize(("height", "width"), [(128, 192), (61, 83)])
def test_the_kernel_compresses_as_plain_torch_does(height, width):
    rng = np.random.default_rng(0)
    coarse = torch.from_numpy(rng.integers(0, 256, (2, 4, 10, 14), np.uint8)).float()
    photos = torch.nn.functional.interpolate(coarse, (160, 220), mode="bilinear")
    sprites = torch.full((1, 16, 16, 4), 255, dtype=torch.uint8)
    textures = Textures(photos.byte().permute(0, 2, 3, 1).contiguous(), sprites)
    pairs = []
    for share in (0.0, 1.0):
        settings = SceneSettings(height=height, width=width, layers=4, compressed=share)
        renderer = Renderer(textures, settings, batch=12, device=torch.device("cuda"), seed=1)
        renderer.load(0)
        pairs.append(renderer.render().images.clone())
    plain, kernel = pairs
    quantum = torch.from_numpy(renderer._scenes.optics["quantum"]).cuda().repeat(2)
    assert (quantum > 0).all()
    expected = compress(plain.float(), quantum)
    assert (plain - kernel).abs().mean() > 1e-3
    errors = (kernel.float() - expected).abs()
    assert (errors > 1e-3).float().mean() < 2e-3  # halves have steps of 5e-4; few ties in rounding
    assert not kernel[:, 3:].any()
