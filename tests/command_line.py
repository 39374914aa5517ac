"""Running the command line, in this process and in one of its own, and inputs for it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pwcflow.cli import app
from pwcflow.flow_file import write_flow
from pwcflow.image_file import write_image
from pwcflow.opencv_log import quiet_codecs

COMMANDS = ["estimate", "video", "visualize", "train"]
SIDE = 64
RECORD = "pwcflow.json"
PROVENANCE = {"weights", "weights_sha256", "device", "precision", "network_scale", "seconds"}


def picture(shift=0):
    """Smooth waves, moved to the right."""
    y, x = np.mgrid[:SIDE, :SIDE] / 5.0
    waves = np.stack([np.sin(x - shift / 5), np.cos(y), np.sin(x - shift / 5 + y)], -1)
    return ((waves + 1) * 127).astype(np.uint8)


def make_video(path, frames):
    with quiet_codecs(opening_writer=True):
        fourcc = cv2.VideoWriter.fourcc(*("MJPG" if path.suffix == ".avi" else "mp4v"))
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, 25.0, (SIDE, SIDE))
    assert writer.isOpened()
    for index in range(frames):
        writer.write(picture(index % 16))
    writer.release()
    return path


def touch(*names):
    """Make empty files, with their folders."""
    for name in map(Path, names):
        name.parent.mkdir(parents=True, exist_ok=True)
        name.touch()


def half(path, source):
    data = source.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def make_inputs():
    """Put good inputs and every kind of bad one here; outputs go to `out`."""
    Path("out").mkdir()
    write_image(Path("1.png"), picture(0))
    write_image(Path("2.png"), picture(2))
    write_image(Path("wide.png"), np.zeros((48, 80, 3), np.uint8))
    write_flow(Path("flow.flo"), np.full((4, 6, 2), 2, np.float32))
    half(Path("half.png"), Path("1.png"))
    half(Path("half.flo"), Path("flow.flo"))
    Path("empty").touch()
    for suffix in (".png", ".mp4", ".flo"):
        Path(f"empty{suffix}").touch()
        Path(f"text{suffix}").write_text("not what its name says\n")
    Path("folder").mkdir()
    Path("flows").mkdir()
    write_flow(Path("flows/000000.flo"), np.full((4, 6, 2), 2, np.float32))
    make_video(Path("one.mp4"), 1)
    make_video(Path("three.mp4"), 3)
    half(Path("half.mp4"), make_video(Path("twenty.mp4"), 20))
    frames = Path("frames")
    frames.mkdir()
    for index in range(3):
        write_image(frames / f"{index}.png", picture(index))
    torch.save({"layer.weight": torch.zeros(3, 3)}, "other.pt")


def invoke(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def assert_one_error_line(stderr, *texts):
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert stderr.endswith("\n")
    for text in texts:
        assert text in stderr


def start(*args, **options):
    """Start the command line as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pwcflow", *map(str, args)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        **options,
    )


def process(*args, **options):
    with start(*args, **options) as running:
        stdout, stderr = running.communicate(timeout=120)
    return running.returncode, stdout, stderr


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


def wait_for(path, running, pattern=None):
    """Wait until a process has made a file, or in a folder one that fits a pattern."""
    deadline = time.monotonic() + 100
    while not (any(path.glob(pattern)) if pattern else path.exists()):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
