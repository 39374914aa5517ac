"""Style `streamlines`: lines that follow a smooth flow."""

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.color import row_blocks
from pwcflow.color.palette import Rgb
from pwcflow.flow_file import Flow, known_pixels
from pwcflow.visualization.below import canvas, direction_colors, example_key, ink_below, spacing_of
from pwcflow.visualization.key import Key
from pwcflow.visualization.look import Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import COLOR_OPTIONS, Style

_LINES_ACROSS = 32  # in the longer side
_STEPS_PER_SPACING = 6
_HALF_LENGTH = 4.0  # of a line, and all others in this block, in distances of lines
_SHORTEST = 1.0
_CELL = 0.5  # in a cell there is one line at most
_LEAST_SHARE = 0.02  # of the scale: directions of slower vectors are noise
_SUBPIXEL_BITS = 4
_POINTS_AT_ONCE = 30_000  # OpenCV takes no more than 32767 rows
_THIN, _THICK = 0.06, 0.16  # width of lines, and the size of heads, in distances of lines
_HEAD = 0.5

_Points = npt.NDArray[np.float32]


def draw(scene: Scene, look: Look, scale_px: float) -> Picture:
    """Return lines along the flow, (H, W, 3), over the first frame or over the background.

    Their colour is the direction, their width the speed, up to the scale. Each follows the
    directions of the vectors, both ways, with steps of Heun's method, until it comes near another
    line, to an edge, to unknown pixels, or to vectors below the noise floor and a fiftieth of the
    scale; its arrow head points where the flow goes. Lines of a field are not paths of points over
    time, as the field of the next pair is another.
    """
    code = look.color_code()
    height, width = scene.flow.shape[:2]
    spacing = spacing_of(scene, look, _LINES_ACROSS)
    flow = np.ascontiguousarray(scene.flow, np.float32)
    known = np.empty((height, width), bool)
    for rows in row_blocks(flow):
        known[rows] = known_pixels(flow[rows])
    if not known.all():
        flow = np.where(known[..., None], flow, np.float32(np.nan))
    floor = max(code.noise_floor_px, _LEAST_SHARE * scale_px)
    image = canvas(scene, code)
    inside, rim = np.zeros((2, height, width), np.uint8)
    seeds = _seeds(height, width, spacing)
    for line in _apart(_followed(flow, seeds, spacing, floor), spacing):
        vectors = _sampled(flow, line)
        met = ~np.isnan(vectors[:, 0])  # the last step may lead to an unknown pixel
        line, vectors = line[met], vectors[met]
        shares = np.minimum(np.hypot(vectors[:, 0], vectors[:, 1]) / scale_px, 1)
        _draw_line(inside, rim, line, shares, spacing)
    inside[~known] = rim[~known] = 0
    ink = np.array([ink_below(scene, code)], np.uint8)
    for rows in row_blocks(flow):
        _mix(image[rows], ink, rim[rows])
        at = inside[rows].nonzero()
        _mix(image[rows], direction_colors(flow[rows][at], code), inside[rows])
    return image


def key(scene: Scene, look: Look, scale_px: float) -> Key:
    """Return a line as wide as the widest."""
    return example_key(_draw_example, scene, look, scale_px, _LINES_ACROSS)


def _seeds(height: int, width: int, spacing: int) -> _Points:
    """Return where lines begin, (N, 2) as (x, y): a grid, whose points are taken far apart."""
    step = max(1, spacing)
    y, x = np.meshgrid(
        np.arange(min(step // 2, height // 2), height, step),
        np.arange(min(step // 2, width // 2), width, step),
        indexing="ij",
    )
    seeds = np.stack([x.ravel(), y.ravel()], 1).astype(np.float32)
    return seeds[np.random.default_rng(0).permutation(len(seeds))]


def _followed(flow: Flow, seeds: _Points, spacing: int, floor: float) -> _Points:
    """Return the points of all lines, (N, 2 K + 1, 2), NaN where they have ended."""
    step = spacing / _STEPS_PER_SPACING
    count = round(_HALF_LENGTH * _STEPS_PER_SPACING)
    halves = []
    for sign in (-step, step):
        points, half = seeds, []
        for _ in range(count):
            first = _direction(flow, points, floor)
            ahead = _direction(flow, points + np.float32(sign) * first, floor)
            points = points + np.float32(sign / 2) * (first + ahead)
            half.append(points)
        halves.append(half)
    line = [*halves[0][::-1], np.where(np.isnan(_direction(flow, seeds, floor)), np.nan, seeds)]
    return np.stack([*line, *halves[1]], 1)


def _direction(flow: Flow, points: _Points, floor: float) -> _Points:
    """Return the unit vectors of a flow at points (N, 2), NaN where there is none."""
    height, width = flow.shape[:2]
    x, y = points[:, 0], points[:, 1]
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)  # false for NaN
    at = np.where(inside[:, None], points, 0)
    vectors = _sampled(flow, at)
    length = np.hypot(vectors[:, 0], vectors[:, 1])
    usable = inside & (length > floor)
    return np.where(usable[:, None], vectors / np.where(usable, length, 1)[:, None], np.nan)


def _sampled(flow: Flow, points: _Points) -> _Points:
    """Return a flow at points (N, 2) inside it, bilinearly."""
    parts = [
        cv2.remap(flow, x, y, cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE).reshape(-1, 2)
        for x, y in (
            (part[:, None, 0], part[:, None, 1])
            for part in np.array_split(points, 1 + len(points) // _POINTS_AT_ONCE)
        )
    ]
    return np.concatenate(parts).astype(np.float32, copy=False)


def _apart(lines: _Points, spacing: int) -> list[_Points]:
    """Return the parts of lines, from their middle on, that come near no earlier one."""
    cell = max(1.0, _CELL * spacing)
    least = _SHORTEST * _STEPS_PER_SPACING
    taken: dict[tuple[float, ...], int] = {}
    # In two lattices of cells, one between the other: in one alone, lines on both sides of a border
    # may touch.
    places = np.concatenate([lines // cell, (lines + cell / 2) // cell + 0.5], axis=2)
    middle = lines.shape[1] // 2
    kept = []
    for number, line in enumerate(np.where(np.isnan(places), -1, places).tolist()):
        keys = [(tuple(place[:2]), tuple(place[2:])) for place in line]
        free = [
            pair[0][0] >= 0 and all(taken.get(key, number) == number for key in pair)
            for pair in keys
        ]
        if not free[middle]:
            continue
        first = last = middle
        while first > 0 and free[first - 1]:
            first -= 1
        while last + 1 < len(free) and free[last + 1]:
            last += 1
        if last - first >= least:
            taken.update((key, number) for pair in keys[first : last + 1] for key in pair)
            kept.append(lines[number, first : last + 1])
    return kept


def _draw_line(
    inside: npt.NDArray[np.uint8],
    rim: npt.NDArray[np.uint8],
    line: _Points,
    shares: npt.NDArray[np.floating],
    spacing: float,
) -> None:
    """Draw a line into a mask, and into another one a little wider.

    Args:
        inside: is changed.
        rim: is changed.
        line: points (x, y) in pixels, (K, 2).
        shares: their speeds, in parts of the scale, (K,).
        spacing: the distance of lines in pixels.
    """
    points = np.rint(line * 2**_SUBPIXEL_BITS).astype(int).tolist()
    around = 2 * max(1, round(spacing / 30))
    widths = np.maximum(1, np.rint(spacing * (_THIN + shares * (_THICK - _THIN)))).astype(int)
    for first, second, width in zip(points[:-1], points[1:], widths.tolist(), strict=False):
        cv2.line(inside, first, second, 255, width, cv2.LINE_AA, _SUBPIXEL_BITS)
        cv2.line(rim, first, second, 255, width + around, cv2.LINE_AA, _SUBPIXEL_BITS)
    at = len(line) // 2
    ahead = line[at + 1] - line[at - 1]
    along = ahead / max(float(np.hypot(*ahead)), 1e-6)
    across = np.array([-along[1], along[0]])
    size = spacing * (_HEAD / 2 + shares[at] * _HEAD / 2)
    back = line[at] - along * size * 0.4
    corners = [line[at] + along * size * 0.6, back + across * size / 2, back - across * size / 2]
    head = np.rint(np.stack(corners) * 2**_SUBPIXEL_BITS).astype(np.int32)
    cv2.fillPoly(inside, [head], 255, cv2.LINE_AA, _SUBPIXEL_BITS)
    cv2.polylines(rim, [head], True, 255, around + 1, cv2.LINE_AA, _SUBPIXEL_BITS)


def _draw_example(
    image: Picture, middle: tuple[float, float], spacing: float, color: Rgb, ink: Rgb
) -> None:
    x = np.linspace(-0.7 * spacing, 0.7 * spacing, 9, dtype=np.float32) + np.float32(middle[0])
    line = np.stack([x, np.full_like(x, middle[1])], 1)
    inside, rim = np.zeros((2, *image.shape[:2]), np.uint8)
    _draw_line(inside, rim, line, np.ones(len(line)), spacing)
    for fill, mask in ((ink, rim), (color, inside)):
        _mix(image, np.array([fill], np.uint8), mask)


def _mix(image: Picture, colors: Picture, mask: npt.NDArray[np.uint8]) -> None:
    """Put colours, (N, 3) or (1, 3), over the pixels at which a mask is not 0, by its share."""
    at = mask.nonzero()
    below = image[at].astype(np.float32)
    share = mask[at].astype(np.float32)[:, None] / 255
    image[at] = below + share * (colors.astype(np.float32) - below) + np.float32(0.5)


STREAMLINES = Style(
    draw=draw,
    scale_tells="widest at",
    options=COLOR_OPTIONS | {"background", "spacing"},
    takes=("frame",),
    key=key,
)
