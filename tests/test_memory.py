"""Memory of a run over a long video: as much at its end as soon after its start."""

import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.opencv_log import quiet_codecs

REPOSITORY = Path(__file__).parents[1]
FRAMES, SETTLED = 2000, 300
WIDTH, HEIGHT = 96, 64
FRAME_BYTES = 3 * WIDTH * HEIGHT
# A tenth of what it would be if each frame stayed, and a twenty-seventh if each flow did.
MOST_GROWTH = (FRAMES - SETTLED) * FRAME_BYTES // 10

RUN = """
import os, resource, sys
from pathlib import Path
from pwcflow.frame_selection import FrameSelection, RawFormat
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from tests.fake_estimator import FakeEstimator

source, kind = Path(sys.argv[1]), sys.argv[2]
resident = []

class Watched(FakeEstimator):
    def encode(self, image):
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
        resident.append(pages * resource.getpagesize())
        return super().encode(image)

chosen = {"av": {"reader": "av"}, "raw": {"raw": RawFormat(96, 64, "rgb24")}}.get(kind, {})
outputs = VideoOutputs(folder=Path("flows"), viz=Path("flow.avi"), fps=25)
estimate_video(Watched, source, outputs, selection=FrameSelection(**chosen))
print(*resident)
"""


def frames():
    rng = np.random.default_rng(0)
    texture = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    return (np.roll(texture, number, 1) for number in range(FRAMES))


def make_video(path):
    with quiet_codecs(opening_writer=True):
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*"MJPG"), 25.0,
                                 (WIDTH, HEIGHT))  # fmt: skip
    assert writer.isOpened()
    for frame in frames():
        writer.write(frame)
    writer.release()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells it there")
@pytest.mark.parametrize("kind", ["opencv", "av", "raw"])
def test_memory_is_flat_over_two_thousand_frames(tmp_path, kind):
    if kind == "av":
        pytest.importorskip("av")
    source = tmp_path / "source.avi"
    if kind == "raw":
        with source.open("wb") as file:
            file.writelines(frame.data for frame in frames())
    else:
        make_video(source)
    done = subprocess.run(
        [sys.executable, "-c", RUN, source, kind],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    resident = [int(number) for number in done.stdout.split()]
    assert len(resident) == FRAMES
    assert len(list((tmp_path / "flows").glob("*.flo"))) == FRAMES - 1
    growth = max(resident[SETTLED:]) - resident[SETTLED]
    assert growth < MOST_GROWTH, f"{growth / 1e6:.1f} MB"
    print(f"{kind}: {growth / 1e6:.2f} MB of {MOST_GROWTH / 1e6:.2f}")
