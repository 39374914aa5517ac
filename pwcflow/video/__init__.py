"""Frames of videos, folders, patterns, stacks, cameras and standard input, one at a time."""

from pwcflow.video.encoded import HIGHEST_FPS, opencv_name
from pwcflow.video.frame_files import frames_in, natural_key, natural_path_key
from pwcflow.video.open import STDIN, count_frames, open_frames
from pwcflow.video.source import DEFAULT_FPS, FrameSource, LoadImage

__all__ = [
    "DEFAULT_FPS",
    "HIGHEST_FPS",
    "STDIN",
    "FrameSource",
    "LoadImage",
    "count_frames",
    "frames_in",
    "natural_key",
    "natural_path_key",
    "open_frames",
    "opencv_name",
]
