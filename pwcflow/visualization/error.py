"""Style `error`: how far a flow is from the true one."""

from functools import cache

import cv2
import numpy as np

from pwcflow.color import row_blocks
from pwcflow.evaluation import OUTLIER_PX, OUTLIER_SHARE, Score, score_pair
from pwcflow.flow_file import Flow, known_pixels
from pwcflow.visualization.key import BarKey, Key
from pwcflow.visualization.look import Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import Style

# Their lower bounds in units of what KITTI tolerates are 0 and the powers of 2 from 1/16 to 16.
_COLORS: Picture = np.array(
    [
        (49, 54, 149), (69, 117, 180), (116, 173, 209), (171, 217, 233), (224, 243, 248),
        (254, 224, 144), (253, 174, 97), (244, 109, 67), (215, 48, 39), (165, 0, 38),
    ],
    np.uint8,
)  # fmt: skip
_FRACTION_BITS = 23  # of a float32
_EXPONENT_OF_FIRST = 127 - 5  # that of 1/32 and more; of 1/16 and more is the second


def draw(scene: Scene, look: Look, _: float) -> Picture:
    """Return KITTI's logarithmic error colours, (H, W, 3): blue is right, red is wrong.

    The error is counted in 3 px, or in 5 % of the true length where that is more: below 1 KITTI
    takes a pixel as right, and the colours turn from blue to red. They change at 1/16, 1/8, 1/4,
    1/2, 1, 2, 4, 8 and 16. Where the truth or the flow is unknown is the colour of the unknown.

    Source: Menze, Geiger, "Object Scene Flow for Autonomous Vehicles", CVPR 2015, and its
    development kit (`errorImage` of io_flow.h).
    """
    assert scene.truth is not None, "a style says what it needs"
    image = np.empty((*scene.flow.shape[:2], 3), np.uint8)
    unknown = look.color_code().unknown_color
    for rows in row_blocks(scene.flow):
        flow, truth = (np.asarray(it[rows], np.float32) for it in (scene.flow, scene.truth))
        known = known_pixels(flow) & known_pixels(truth)
        all_known = known.all()
        if not all_known:
            flow, truth = (np.where(known[..., None], it, 0) for it in (flow, truth))
        allowed = np.maximum(OUTLIER_PX, np.float32(OUTLIER_SHARE) * _lengths(truth))
        # The exponent of a float is the logarithm that the colours go by.
        exponent = (_lengths(flow - truth) / allowed).view(np.int32) >> _FRACTION_BITS
        place = np.clip(exponent - _EXPONENT_OF_FIRST, 0, len(_COLORS) - 1)
        image[rows] = cv2.applyColorMap(place.astype(np.uint8), _table())
        if not all_known:
            image[rows][~known] = unknown
    return image


def score_of(scene: Scene) -> Score | None:
    """Return how far the flow of a scene is from its true one, over all pixels that have an error.

    None where there is no such pixel, or no true flow. The flows are of one size.
    """
    if scene.truth is None:
        return None
    known = known_pixels(scene.flow) & known_pixels(scene.truth)
    return score_pair(scene.flow, scene.truth, known) if known.any() else None


def _lengths(flow: Flow) -> Flow:
    u, v = flow[..., 0], flow[..., 1]
    return np.asarray(np.sqrt(u * u + v * v), np.float32)


@cache
def _table() -> Picture:
    table = np.zeros((256, 1, 3), np.uint8)
    table[: len(_COLORS), 0] = _COLORS
    return table


def key(scene: Scene, look: Look, _: float) -> Key:
    """Return the ten colours, with the errors in px between them for vectors up to 60 px."""
    texts = ("0.19", "0.38", "0.75", "1.5", "3", "6", "12", "24", "48")
    ticks = [(index / len(_COLORS), text) for index, text in enumerate(texts, 1)]
    return BarKey(_COLORS[:, None], ticks, "error, px", smooth=False)


ERROR = Style(
    draw=draw,
    options=frozenset({"unknown"}),
    needs=("truth",),
    has_scale=False,
    key=key,
    legend="beside",
)
