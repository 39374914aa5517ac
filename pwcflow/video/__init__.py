"""Frames of videos, folders, patterns, stacks, cameras and standard input, one at a time."""

from pwcflow.video.open import (
    HIGHEST_FPS,
    STDIN,
    FrameSource,
    count_frames,
    is_frame,
    natural_key,
    natural_path_key,
    open_frames,
    opencv_name,
)

__all__ = [
    "HIGHEST_FPS",
    "STDIN",
    "FrameSource",
    "count_frames",
    "is_frame",
    "natural_key",
    "natural_path_key",
    "open_frames",
    "opencv_name",
]
