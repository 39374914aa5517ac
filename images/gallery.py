"""Draw the pictures of the README's gallery: every style, from the example pair.

Usage: python images/gallery.py [OUTPUT_FOLDER]

The frames are scaled down first, so that letters and arrows are drawn for the size in which the
pictures are seen. The flow is that of the default weights.
"""

import sys
from pathlib import Path

import cv2
import numpy as np

from pwcflow import FlowEstimator, read_flow, read_image
from pwcflow.visualization import Look, Picture, Scene, draw, scale_for

IMAGES = Path(__file__).parent
WIDTH, HEIGHT = 720, 306
JPEG_QUALITY = 93

LOOKS = {
    "wheel": Look(legend="inside"),
    "black": Look(background="black", gamma=1.5, legend="inside"),
    "colorblind": Look(palette="colorblind", legend="inside"),
    "overlay": Look(style="overlay", legend="inside"),
    "arrows": Look(style="arrows", legend="inside"),
    "streamlines": Look(style="streamlines", legend="inside"),
    "heat": Look(style="heat"),
    "error": Look(style="error"),
    "occlusion": Look(style="occlusion"),
    "side": Look(style="side"),
    "warp": Look(style="warp"),
}
"""The pictures, by the names of their files."""


def example_scene() -> Scene:
    """Return the example pair, scaled down, with its flow both ways and the true flow."""
    one, two = (
        cv2.resize(read_image(IMAGES / name), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        for name in ("one.png", "two.png")
    )
    truth = read_flow(IMAGES / "flow.flo")
    scale = np.float32([WIDTH / truth.shape[1], HEIGHT / truth.shape[0]])
    truth = cv2.resize(truth, (WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST) * scale
    estimator = FlowEstimator(device="cpu")
    return Scene(
        flow=estimator(one, two),
        frame=one,
        second=two,
        truth=truth,
        backward=estimator(two, one),
    )


def pictures(scene: Scene) -> dict[str, Picture]:
    """Return the pictures of the gallery; those of several frames in half their size."""
    drawn = {
        name: draw(scene, look, scale_for(scene.flow, None, look)) for name, look in LOOKS.items()
    }
    for name in ("side", "warp"):
        half = cv2.resize(drawn[name], None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        drawn[name] = np.asarray(half, np.uint8)
    return drawn


def main() -> None:
    """Write the pictures as JPEG."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES / "gallery"
    output.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures(example_scene()).items():
        path = output / f"{name}.jpg"
        quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY, cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
                   cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]  # fmt: skip
        _, data = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), quality)
        path.write_bytes(data.tobytes())
        print(f"{path}: {picture.shape[1]} x {picture.shape[0]}, {len(data) // 1000} kB")


if __name__ == "__main__":
    main()
