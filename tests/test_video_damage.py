"""Damaged videos of every container: their good frames and a sentence, no crash and no block."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.damage import MUTATIONS
from tests.test_frame_files import animation
from tests.video_samples import CODECS, picture, write_video

REPOSITORY = Path(__file__).parents[1]
ANIMATIONS = (".gif", ".png", ".webp")
STREAMS = (".y4m", ".tif")
KINDS = [
    *((suffix, "opencv") for suffix in CODECS),
    *((suffix, "auto") for suffix in (*ANIMATIONS, *STREAMS)),
    *((suffix, "av") for suffix in (".mp4", ".mkv", ".avi")),
]
MOST_MEMORY = 2 << 30


def sample(folder, suffix):
    """Return a small file of a kind."""
    path = folder / f"sample{suffix}"
    if suffix in CODECS:
        return write_video(path, frames=6)
    if suffix in ANIMATIONS:
        assert cv2.imwriteanimation(str(path), animation(range(4), [40] * 4))
    elif suffix == ".tif":
        cv2.imwritemulti(str(path), [picture(index) for index in range(4)])
    else:
        head = b"YUV4MPEG2 W16 H8 F25:1 C420jpeg\n"
        pixels = np.arange(16 * 8 * 3 // 2, dtype=np.uint8)
        path.write_bytes(head + b"".join(b"FRAME\n" + np.roll(pixels, i).data for i in range(4)))
    return path


def limited():
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited so on Linux")
@pytest.mark.parametrize(("suffix", "reader"), KINDS)
def test_damaged_videos_are_read_or_refused(tmp_path, suffix, reader):
    if reader == "av":
        pytest.importorskip("av")
    path = sample(tmp_path, suffix)
    count = MUTATIONS // len(KINDS) + 1
    seed = KINDS.index((suffix, reader))
    done = subprocess.run(
        [sys.executable, "-m", "tests.damage", path, str(count), str(seed), reader],
        cwd=REPOSITORY,
        preexec_fn=limited,
        capture_output=True,
        text=True,
        timeout=120 + 2 * count,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= 0
