"""Pairs of images with a known motion, to measure on: no zeros, which can run faster than truth."""

import cv2
import numpy as np

from pwcflow.image_file import Image

SHIFT = (7, -3)
"""Pixels to the right and down by which everything in the second image has moved."""
_COARSEST = 64  # pixels between the values of the coarsest noise; each finer one has half of it
_CONTRAST = 45.0  # levels of 255: few are clipped


def textured_pairs(batch: int, height: int, width: int, *, seed: int = 0) -> tuple[Image, Image]:
    """Return first and second images, (N, H, W, 3) uint8, of texture that moved by `SHIFT`."""
    rng = np.random.default_rng(seed)
    right, down = SHIFT
    canvas = height + abs(down), width + abs(right)
    top, left = max(down, 0), max(right, 0)
    first = np.empty((batch, height, width, 3), np.uint8)
    second = np.empty_like(first)
    for index in range(batch):
        texture = _texture(rng, *canvas)
        first[index] = texture[top:, left:][:height, :width]
        second[index] = texture[top - down :, left - right :][:height, :width]
    return first, second


def _texture(rng: np.random.Generator, height: int, width: int) -> Image:
    """Return noise of every size: each octave has as much contrast as the next."""
    total = np.zeros((height, width, 3), np.float32)
    step, octaves = _COARSEST, 0
    while step > 1:
        grid = (height // step + 2, width // step + 2, 3)
        noise = rng.standard_normal(grid, np.float32)
        total += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
        step, octaves = step // 2, octaves + 1
    levels = 127.5 + total * (_CONTRAST / np.sqrt(octaves))
    texture: Image = levels.clip(0, 255).astype(np.uint8)
    return texture
