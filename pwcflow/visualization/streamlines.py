"""Style `streamlines`: lines that follow a smooth flow."""

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.color import flow_to_color
from pwcflow.flow_file import Flow, known_pixels
from pwcflow.visualization.arrows import canvas
from pwcflow.visualization.key import Key, WheelKey, bar_length
from pwcflow.visualization.look import Background, Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import COLOR_OPTIONS, Style

_USUAL_BACKGROUND: Background = "black"
_STEPS_PER_SPACING = 6
_HALF_LENGTH = 4.0  # of a line, and all others in this block, in distances of lines
_SHORTEST = 1.0
_CELL = 0.5  # in a cell there is one line at most
_LEAST_SHARE = 0.02  # of the scale: directions of slower vectors are noise
_SUBPIXEL_BITS = 4

_Points = npt.NDArray[np.float32]


def draw(scene: Scene, look: Look, scale_px: float) -> Picture:
    """Return lines along the flow, in its colours, (H, W, 3).

    They lie over the first frame, if there is one, or over the background. Each follows the
    directions of the vectors, both ways, with steps of Heun's method, until it comes near another
    line, to an edge, to unknown pixels, or to vectors below the noise floor and a fiftieth of the
    scale; its arrow head points where the flow goes. Lines of a field are not paths of points over
    time, as the field of the next pair is another.
    """
    code = look.color_code(_USUAL_BACKGROUND)
    height, width = scene.flow.shape[:2]
    spacing = look.spacing_for(height, width)
    flow = np.ascontiguousarray(scene.flow, np.float32)
    if not (known := known_pixels(flow)).all():
        flow = np.where(known[..., None], flow, np.float32(np.nan))
    floor = max(code.noise_floor_px, _LEAST_SHARE * scale_px)
    mask = np.zeros((height, width), np.uint8)
    for line in _apart(_followed(flow, _seeds(height, width, spacing), spacing, floor), spacing):
        _draw_line(mask, line, spacing)
    colors = flow_to_color(scene.flow, scale_px, code)
    below = canvas(scene, code)
    return _mixed(below, colors, mask)


def key(scene: Scene, look: Look, scale_px: float) -> Key:
    """Return what explains the colours of directions."""
    code = look.color_code(_USUAL_BACKGROUND)
    return WheelKey(code, scale_px, bar_length(*scene.flow.shape[:2]))


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
    # OpenCV takes no more than 32767 rows.
    vectors = np.concatenate(
        [
            cv2.remap(
                flow,
                part[:, None, 0],
                part[:, None, 1],
                cv2.INTER_LINEAR,
                None,
                cv2.BORDER_REPLICATE,
            ).reshape(-1, 2)
            for part in np.array_split(at, 1 + len(at) // 30000)
        ]
    )
    length = np.hypot(vectors[:, 0], vectors[:, 1])
    usable = inside & (length > floor)
    return np.where(usable[:, None], vectors / np.where(usable, length, 1)[:, None], np.nan)


def _apart(lines: _Points, spacing: int) -> list[_Points]:
    """Return the parts of lines, from their middle on, that come near no earlier one."""
    cell = max(1.0, _CELL * spacing)
    taken: dict[tuple[int, int], int] = {}
    least = _SHORTEST * _STEPS_PER_SPACING
    kept = []
    with np.errstate(invalid="ignore"):
        cells = np.where(np.isnan(lines), -1, lines / cell).astype(int).tolist()
    middle = lines.shape[1] // 2
    for number, line in enumerate(cells):
        ends = []
        for way in (range(middle, -1, -1), range(middle, len(line))):
            end = None
            for index in way:
                place = tuple(line[index])
                if place[0] < 0 or taken.get(place, number) != number:
                    break
                end = index
            ends.append(end)
        first, last = ends
        if first is None or last is None or last - first < least:
            continue
        for index in range(first, last + 1):
            taken[tuple(line[index])] = number
        kept.append(lines[number, first : last + 1])
    return kept


def _draw_line(mask: npt.NDArray[np.uint8], line: _Points, spacing: int) -> None:
    points = np.rint(line * 2**_SUBPIXEL_BITS).astype(np.int32)
    thick = max(1, round(spacing / 12))
    cv2.polylines(mask, [points], False, 255, thick, cv2.LINE_AA, _SUBPIXEL_BITS)
    at = len(line) // 2
    ahead = line[at + 1] - line[at - 1]
    size = np.hypot(*ahead)
    if size < 1e-3:
        return
    along = ahead / size
    across = np.array([-along[1], along[0]])
    head = max(2.0, 0.3 * spacing)
    tip = line[at] + along * head * 0.6
    back = line[at] - along * head * 0.4
    corners = np.stack([tip, back + across * head * 0.45, back - across * head * 0.45])
    points = np.rint(corners * 2**_SUBPIXEL_BITS).astype(np.int32)
    cv2.fillPoly(mask, [points], 255, cv2.LINE_AA, _SUBPIXEL_BITS)


def _mixed(below: Picture, above: Picture, mask: npt.NDArray[np.uint8]) -> Picture:
    """Return `below` with `above` over it where the mask is 255."""
    share = mask.astype(np.float32)[..., None] / 255
    return (below + share * (above.astype(np.float32) - below) + 0.5).astype(np.uint8)


STREAMLINES = Style(
    shows="lines along a smooth flow, over the frame if there is one",
    draw=draw,
    options=COLOR_OPTIONS | {"background", "spacing"},
    takes=("frame",),
    key=key,
)
