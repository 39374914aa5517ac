"""Frames of one gray each, as images and videos, what becomes of them, and how to look at it."""

import struct

import cv2
import numpy as np

from pwcflow.flow_file import read_flow
from pwcflow.image_file import read_image, write_image
from pwcflow.opencv_log import quiet_codecs
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs

WIDTH, HEIGHT = 64, 48
NEAR = 5.0  # what MPEG-4 and Motion JPEG make of a gray, in levels


def gray(level, height=HEIGHT, width=WIDTH):
    return np.full((height, width, 3), level, np.uint8)


def frames_folder(folder, levels, name="frame{}.png"):
    """Frames in a folder: frame1.png and so on, each of one gray."""
    folder.mkdir()
    for number, level in enumerate(levels, 1):
        write_image(folder / name.format(number), gray(level))
    return folder


def video_file(path, levels, fps=12.5, codec="mp4v"):
    with quiet_codecs(opening_writer=True):
        fourcc = cv2.VideoWriter.fourcc(*codec)
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, fps, (WIDTH, HEIGHT))
    assert writer.isOpened()
    # The noise, of mean 0, makes frames so large that a cut hits the pixels, not the tables.
    noise = np.random.default_rng(0).choice([-12, 12], (HEIGHT, WIDTH, 1))
    for level in levels:
        writer.write((gray(level) + noise).clip(0, 255).astype(np.uint8))
    writer.release()
    return path


def cut_in_frame(path, index):
    """Cut a Motion JPEG AVI in the middle of a frame."""
    data = path.read_bytes()
    start = data.index(b"movi")
    for _ in range(index + 1):
        start = data.index(b"00dc", start) + 8
    (length,) = struct.unpack_from("<I", data, start - 4)
    path.write_bytes(data[: start + length // 2])
    return path


def run(estimator, source, **options):
    return estimate_video(estimator.load, source, VideoOutputs(**options))


def frames_of(path):
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    assert capture.isOpened()
    fps, frames = capture.get(cv2.CAP_PROP_FPS), []
    while (frame := capture.read()[1]) is not None:
        frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    return fps, frames


def left(picture, height=HEIGHT, width=WIDTH):
    """The level of the frame beside its flow, in a picture of the style `side`."""
    assert picture.shape == (height, 2 * width, 3)
    return picture[:, : width * 7 // 8].mean()


def lefts(folder, height=HEIGHT, width=WIDTH):
    pictures = map(read_image, sorted(folder.rglob("*.png")))
    return [left(picture, height, width) for picture in pictures]


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def flows_in(folder):
    """The names of what is in a folder beside the record, which has to be there."""
    names = names_in(folder)
    names.remove("pwcflow.json")
    return names


def means_of(folder):
    flows = [read_flow(path) for path in sorted(folder.glob("*.flo"))]
    return [tuple(float(mean) for mean in flow.mean((0, 1))) for flow in flows]
