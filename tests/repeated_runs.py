"""A run over a folder of frames that is made again, and what it has written."""

import numpy as np

from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs

WIDTH, HEIGHT = 64, 48


def frames_folder(folder, levels):
    folder.mkdir(parents=True)
    for number, level in enumerate(levels):
        write_image(folder / f"{number:04d}.png", np.full((HEIGHT, WIDTH, 3), level, np.uint8))
    return folder


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run(estimator, source, folder, **options):
    return estimate_video(estimator.load, source, VideoOutputs(folder=folder, **options))


def damage(path):
    path.write_bytes(path.read_bytes()[:-1])
