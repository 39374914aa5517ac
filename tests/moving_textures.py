"""Images and frames of a texture that moves as is known, and estimators that are made once."""

from itertools import pairwise

import numpy as np

from pwcflow import FlowEstimator

_loaded = {}


def estimator(device="cpu", precision="fp32", network_scale=1.0):
    key = device, precision, network_scale
    if key not in _loaded:
        _loaded[key] = FlowEstimator(
            device=device, precision=precision, network_scale=network_scale
        )
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
    level_1 = model._network.plain.pyramid.levels["1"]
    handle = level_1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    for image in images:
        model.encode(image)
    handle.remove()
    return seen


def video(count, height=64, width=64):
    """Return frames of one texture, each moved by its own number of pixels from the one before."""
    big = texture(height + 16, width + 16)
    places = np.random.default_rng(5).integers(0, 16, (count, 2))
    return [np.ascontiguousarray(big[y : y + height, x : x + width]) for y, x in places]


def one_by_one(frames):
    return [estimator()(first, second) for first, second in pairwise(frames)]


def broken(frames, error):
    yield from frames
    raise error
