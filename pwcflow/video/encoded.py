"""What the readers of video files share: names, rates, and what they say of damage."""

import math
import os
from pathlib import Path

from pwcflow.errors import PwcFlowError
from pwcflow.video.container import index_is_missing

HIGHEST_FPS = 1000
"""Read or written: time bases such as 90000 turn up as a rate, and no encoder takes them."""

DECODING_THREADS = 4
"""Enough to be ahead of the network. FFmpeg's own choice, one for each processor, keeps as many
frames at work: where there are many, that takes memory, and time, as frames leave the caches."""

_MOST_FRAMES = 2**31  # an unknown count turns up as -1, 0 or about -9e18


def opencv_name(path: Path, action: str, kind: type[PwcFlowError]) -> str:
    """Return the name that OpenCV takes for a file, whatever the locale: it crashes unless UTF-8.

    Raises:
        PwcFlowError: of `kind`, beginning with `action`: the name is not UTF-8.
    """
    try:
        # An absolute path, so that "a:b.mp4" is not taken for a protocol called "a".
        return os.fsencode(path.absolute()).decode()
    except UnicodeDecodeError as error:
        raise kind(
            f"{action}: its name or its folder's is not UTF-8, which OpenCV cannot open; rename it"
        ) from error


def sensible_fps(fps: float) -> float | None:
    """Return a rate that a container tells, if it can be one."""
    return fps if math.isfinite(fps) and 0 < fps <= HIGHEST_FPS else None


def sensible_count(frames: float) -> int | None:
    """Return a number of frames that a container tells, if it can be one."""
    return int(frames) if 0 < frames < _MOST_FRAMES else None


def broken(path: Path, index: int, announced: int | None) -> str:
    """Return the sentence about a video that cannot be decoded from a frame on."""
    of = f" of {announced}" if announced and announced > index else ""
    return (
        f"{path} breaks at frame {index}{of} (counted from 0), which cannot be "
        "decoded: the file is damaged or cut off; copy, download or encode it again"
    )


def no_frame(path: Path) -> str:
    """Return the sentence about a video without a single frame."""
    return (
        f"{path} has no frame that can be decoded; it is cut off or damaged, or holds no pictures"
    )


def why_not_a_video(path: Path, file: Path) -> str:
    """Return the sentence about a file without pictures, named `path` and found at `file`."""
    if index_is_missing(file):
        return (
            f"{path} is cut off: the index that belongs to its pictures is missing; copy, "
            "download or record it again"
        )
    return (
        f"{path} holds no pictures that OpenCV can decode: it is not a video, has sound only, is "
        "damaged, or uses an unknown codec; convert it with ffmpeg or give a folder of frames"
    )
