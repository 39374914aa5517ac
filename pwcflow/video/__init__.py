"""Frames of videos, folders, patterns, stacks, cameras and standard input, one at a time."""

from pwcflow.video.open import (
    DEFAULT_FPS,
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
    "DEFAULT_FPS",
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
