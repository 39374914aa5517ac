"""Make the example pair: two frames of cut-outs over a landscape, and the exact flow between them.

Usage: python images/make.py PHOTO_FOLDER [OUTPUT_FOLDER]

Every layer is a photograph that moves by an affine map of the frame, q = M p. Frame one shows the
layer's texture at `place^-1 p`, frame two at `place^-1 M^-1 q`, so the flow at a pixel p of frame
one is M p - p of the topmost layer, in closed form. Pixel centres are at integers.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from pwcflow.color import flow_to_color
from pwcflow.flow_file import write_flow

WIDTH, HEIGHT = 1024, 436
SUBSAMPLES = 4  # per axis: each pixel is the mean of 16 bicubic samples

Array = NDArray[np.float64]


def affine(scale: float, degrees: float, shift: tuple[float, float]) -> Array:
    """Return the 3 x 3 matrix that scales, rotates about the origin, then shifts."""
    c, s = scale * np.cos(np.radians(degrees)), scale * np.sin(np.radians(degrees))
    return np.array([[c, -s, shift[0]], [s, c, shift[1]], [0, 0, 1]])


def about(
    centre: tuple[float, float], scale: float, degrees: float, shift: tuple[float, float]
) -> Array:
    """Return the matrix that scales and rotates about `centre`, then shifts."""
    away, back = (affine(1, 0, (sign * centre[0], sign * centre[1])) for sign in (-1, 1))
    return affine(1, 0, shift) @ back @ affine(scale, degrees, (0, 0)) @ away


@dataclass
class Layer:
    """A photograph, where it lies in frame one, how it moves, and hints for its outline."""

    photo: str
    place: Array  # texture pixels to frame one
    motion: Array  # frame one to frame two
    outline: str = ""  # polygon "x,y x,y ..." roughly around the object; none: the whole photo
    inside: str = ""  # polygon that surely is the object
    outside: list[str] = field(default_factory=list)  # polygons that surely are not


LAYERS = [  # from the back to the front
    Layer(
        "endless-sky__valley9.jpg",
        place=affine(1.12, 0, (-26, -50)),
        motion=about((512, 218), 1.008, 0.4, (3.3, -1.7)),
    ),
    Layer(
        "plasma-workspace__Chameleon.jpg",
        place=affine(0.86, 0, (-4, 34)),
        motion=about((180, 436), 1.01, -1.2, (13.4, -7.3)),
        outline="5,495 5,420 50,420 50,277 100,122 166,133 155,44 221,39 454,155 "
        "465,221 354,299 443,288 443,332 321,454 232,495",
        inside="77,476 66,332 122,166 177,144 177,66 244,100 432,166 376,244 "
        "255,288 221,354 199,465",
        outside=[
            "376,280 378,298 332,342 297,348 300,326 345,310",
            "262,462 290,462 300,495 244,495",
        ],
    ),
    Layer(
        "plasma-workspace__Sunflower.jpg",
        place=affine(0.66, 0, (337, 100)),
        motion=about((512, 261), 1.0, 9.0, (-3.2, 6.6)),
        outline="39,66 221,33 365,78 465,199 443,365 266,443 89,421 33,288",
        inside="122,166 255,100 376,210 354,332 221,376 122,288",
        outside=[
            "231,400 239,400 239,495 231,495",
            "248,434 258,434 258,495 248,495",
            "95,395 135,390 150,400 140,430 95,430",
        ],
    ),
    Layer(
        "plasma-workspace__Parrot.jpg",
        place=affine(0.88, 0, (621, 22)),
        motion=about((900, 250), 0.99, 1.5, (-17.6, 5.2)),
        outline="83,122 111,72 188,69 255,89 365,133 495,255 495,495 421,495 "
        "299,495 365,410 310,399 221,288 199,210 122,194 83,177",
        inside="105,122 166,89 232,105 354,155 465,288 443,376 465,465 365,388 244,288 210,188",
    ),
]


def points(polygon: str) -> NDArray[np.int32]:
    """Return the corners of a polygon written as "x,y x,y ...", (N, 2)."""
    return np.array([pair.split(",") for pair in polygon.split()], np.int32)


def cut_out(image: NDArray[np.uint8], layer: Layer) -> NDArray[np.float32]:
    """Return the layer as colour times alpha, and alpha: (H, W, 4), alpha 0..1."""
    colour, alpha = image.astype(np.float32), np.ones(image.shape[:2], np.float32)
    if layer.outline:
        hints = np.full(image.shape[:2], cv2.GC_BGD, np.uint8)
        near = cv2.fillPoly(np.zeros_like(hints), [points(layer.outline)], 1)
        hints[cv2.dilate(near, np.ones((45, 45))) == 1] = cv2.GC_PR_BGD
        hints[near == 1] = cv2.GC_PR_FGD
        cv2.fillPoly(hints, [points(layer.inside)], cv2.GC_FGD)
        for polygon in layer.outside:
            cv2.fillPoly(hints, [points(polygon)], cv2.GC_BGD)
        cv2.setRNGSeed(1)
        models = np.zeros((1, 65)), np.zeros((1, 65))
        cv2.grabCut(image, hints, None, *models, 8, cv2.GC_INIT_WITH_MASK)
        mask = np.isin(hints, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
        _, parts, stats, _ = cv2.connectedComponentsWithStats(mask)
        mask = (parts == 1 + stats[1:, cv2.CC_STAT_AREA].argmax()).astype(np.uint8)
        mask = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((5, 5)))
        _, parts, stats, _ = cv2.connectedComponentsWithStats(1 - mask)
        mask[stats[parts, cv2.CC_STAT_AREA] < 300] = 1  # pinholes
        core = cv2.erode(mask, np.ones((3, 3)), iterations=2)
        # The old background shines through at the edge: take the nearest colour from inside.
        _, nearest = cv2.distanceTransformWithLabels(
            1 - core, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
        )
        of_label = np.zeros((nearest.max() + 1, 3), np.float32)
        of_label[nearest[core == 1]] = colour[core == 1]
        colour = of_label[nearest]
        soft = cv2.erode(mask, np.ones((3, 3))).astype(np.float32)
        alpha = cv2.GaussianBlur(soft, (0, 0), 1.0)
    return np.dstack([colour * alpha[..., None], alpha])


def render(texture: NDArray[np.float32], to_texture: Array) -> Array:
    """Return the texture seen through `to_texture`, antialiased: (HEIGHT, WIDTH, 4)."""
    tensor = torch.from_numpy(texture).double().permute(2, 0, 1)[None]
    height, width = texture.shape[:2]
    total = np.zeros((HEIGHT, WIDTH, 4))
    offsets = (np.arange(SUBSAMPLES) + 0.5) / SUBSAMPLES - 0.5
    for dy in offsets:
        for dx in offsets:
            x, y = transform(to_texture, dx, dy)
            grid = np.stack([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], axis=-1)
            total += (
                torch.nn.functional.grid_sample(
                    tensor, torch.from_numpy(grid)[None], mode="bicubic", align_corners=True
                )[0]
                .permute(1, 2, 0)
                .numpy()
            )
    return np.clip(total / SUBSAMPLES**2, 0, [255, 255, 255, 1])


def transform(matrix: Array, dx: float = 0, dy: float = 0) -> tuple[Array, Array]:
    """Return x and y of every frame pixel, moved by (dx, dy), under `matrix`."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    points = matrix[:2] @ np.stack([x + dx, y + dy, np.ones_like(x)]).reshape(3, -1)
    return points[0].reshape(HEIGHT, WIDTH), points[1].reshape(HEIGHT, WIDTH)


def compose(photos: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float32]]:
    """Return frame one, frame two (BGR, 8 bits) and the flow from one to two, (H, W, 2)."""
    one, two = np.zeros((HEIGHT, WIDTH, 3)), np.zeros((HEIGHT, WIDTH, 3))
    flow = np.zeros((HEIGHT, WIDTH, 2))
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    for layer in LAYERS:
        image = cv2.imread(str(photos / layer.photo), cv2.IMREAD_COLOR)
        if image is None:
            sys.exit(f"error: cannot read {photos / layer.photo}")
        texture = cut_out(image, layer)
        first = render(texture, np.linalg.inv(layer.place))
        second = render(texture, np.linalg.inv(layer.motion @ layer.place))
        one = first[..., :3] + one * (1 - first[..., 3:])
        two = second[..., :3] + two * (1 - second[..., 3:])
        moved = np.stack(transform(layer.motion), axis=-1) - np.stack([x, y], axis=-1)
        flow = np.where(first[..., 3:] > 0.5, moved, flow)
        speed = np.hypot(*moved[first[..., 3] > 0.5].T)
        print(f"{layer.photo}: {speed.min():.1f} to {speed.max():.1f} px")
    frames = (np.clip(frame, 0, 255).round().astype(np.uint8) for frame in (one, two))
    return *frames, flow.astype(np.float32)


def main() -> None:
    """Write one.png, two.png, flow.flo and true.png."""
    photos = Path(sys.argv[1])
    output = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent
    one, two, flow = compose(photos)
    cv2.imwrite(str(output / "one.png"), one, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    cv2.imwrite(str(output / "two.png"), two, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    write_flow(output / "flow.flo", flow)
    colour = cv2.cvtColor(flow_to_color(flow), cv2.COLOR_RGB2BGR)
    cv2.imwrite(str(output / "true.png"), colour, [cv2.IMWRITE_PNG_COMPRESSION, 9])


if __name__ == "__main__":
    main()
