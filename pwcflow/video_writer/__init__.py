"""Colour videos and animations on disk: whole files, of every frame handed in, or an error."""

from pwcflow.video_writer.animation import ANIMATION_SUFFIXES, ColorAnimationWriter
from pwcflow.video_writer.video import (
    CODEC_SUFFIXES,
    VIDEO_SUFFIXES,
    ColorVideoWriter,
    check_video_suffix,
    color_writer,
    shows_all,
)
from pwcflow.video_writer.writer import ColorWriter

__all__ = [
    "ANIMATION_SUFFIXES",
    "CODEC_SUFFIXES",
    "VIDEO_SUFFIXES",
    "ColorAnimationWriter",
    "ColorVideoWriter",
    "ColorWriter",
    "check_video_suffix",
    "color_writer",
    "shows_all",
]
