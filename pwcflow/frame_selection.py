"""Which frames of a video are taken, and at what size."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias, cast

Moment: TypeAlias = int | float
"""A place in a video: the number of a frame, from 0, if an int, and seconds if a float."""

Reader: TypeAlias = Literal["auto", "opencv", "av"]
READERS = ("auto", "opencv", "av")

RAW_BYTES: Mapping[str, float] = {
    "rgb24": 3, "bgr24": 3, "gray": 1, "gray16le": 2, "rgb48le": 6, "yuv420p": 1.5,
}  # fmt: skip
"""Layouts of raw frames, by FFmpeg's names, and how many bytes a pixel takes."""

_NUMBER = re.compile(r"[0-9]{1,15}")
_SIZE = re.compile(r"(\d{1,6})[xX](\d{1,6})")
_SECONDS = re.compile(r"(\d+(?:\.\d*)?|\.\d+)s")
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d*)?)")
_KINDS: Mapping[str, tuple[type, ...]] = {
    "start": (str,), "end": (str,), "step": (int,), "size": (str,), "scale": (int, float),
    "max_side": (int,), "raw": (str,), "reader": (str,),
}  # fmt: skip
"""Of what `FrameSelection.settings` returns, as JSON holds it."""
_ROUNDING_S = 1e-6  # 0.12 s, as a container tells it, may be 0.12000000000000001


class RawFormat(NamedTuple):
    """How frames without a header are laid out."""

    width: int
    height: int
    layout: str


@dataclass(frozen=True, kw_only=True)
class FrameSelection:
    """What is taken of a source; `ValueError` for what makes no sense, in one line."""

    start: Moment = 0
    """The first frame taken, or the time from which on frames are."""
    end: Moment | None = None
    """The first frame not taken any more, or its time."""
    step: int = 1
    """1 for every frame, 2 for every other, from the first taken."""
    size: tuple[int, int] | None = None
    """(width, height) that frames are resized to; at most one of the three is given."""
    scale: float | None = None
    """The factor by which both sides are multiplied."""
    max_side: int | None = None
    """Frames with a longer side are shrunk until it has so many pixels."""
    raw: RawFormat | None = None
    """Set when the file or standard input is frames without a header."""
    reader: Reader = "auto"
    """What decodes a video file: OpenCV, PyAV, or OpenCV where it can and else PyAV."""

    def __post_init__(self) -> None:
        """Check the values."""
        for name, moment in (("start", self.start), ("end", self.end)):
            if moment is not None and not (moment >= 0 and math.isfinite(moment)):
                raise ValueError(f"{name} must be a frame number or a time from 0 on, not {moment}")
        if type(self.start) is type(self.end) and self.end is not None and self.end <= self.start:
            start, end = shown(self.start), shown(self.end)
            raise ValueError(f"end {end} leaves no frames: it must come after start {start}")
        if self.step < 1:
            raise ValueError(f"step must be 1 or more, not {self.step}")
        if self.size and min(self.size) < 1:
            raise ValueError("frames cannot be resized to 0 pixels")
        if self.scale is not None and not (self.scale > 0 and math.isfinite(self.scale)):
            raise ValueError(f"scale must be a number above 0, not {self.scale}")
        if self.max_side is not None and self.max_side < 1:
            raise ValueError(f"max-side must be 1 or more, not {self.max_side}")
        if sum(value is not None for value in (self.size, self.scale, self.max_side)) > 1:
            raise ValueError("resize, scale and max-side are three ways to say one thing; give one")
        if self.reader not in READERS:
            raise ValueError(f"reader must be auto, opencv or av, not {self.reader}")

    def settings(self) -> dict[str, Any]:
        """Return what differs from taking everything, by name, as JSON can hold it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        default = {field.name: field.default for field in fields(self)}
        changed = {name: value for name, value in values.items() if value != default[name]}
        for name in ("start", "end"):
            if name in changed:
                changed[name] = shown(changed[name])
        if self.size:
            changed["size"] = "{}x{}".format(*self.size)
        if self.raw:
            changed["raw"] = "{}x{}:{}".format(*self.raw)
        return changed

    @property
    def needs_times(self) -> bool:
        """Whether a moment is in seconds."""
        return isinstance(self.start, float) or isinstance(self.end, float)

    def expected(self, frames: int | None, fps: float | None) -> int | None:
        """Return how many frames are taken of so many, as far as can be told before the reading."""
        start, end = _number(self.start, fps), _number(self.end, fps)
        if start is None or (self.end is not None and end is None):
            return None
        stops = [stop for stop in (frames, end) if stop is not None]
        return len(range(start, min(stops), self.step)) if stops else None

    def target(self, width: int, height: int) -> tuple[int, int]:
        """Return the (width, height) that frames of a size are resized to; 1 pixel at least."""
        if self.size:
            return self.size
        factor = self.scale or 1.0
        if self.max_side:
            factor = min(1.0, self.max_side / max(width, height))
        return _side(width * factor), _side(height * factor)


ALL_FRAMES = FrameSelection()
LONGEST_SIDE = 1 << 20
"""In pixels: what no image has, and a whole number of any size is not."""


def _side(pixels: float) -> int:
    return round(min(max(pixels, 1.0), LONGEST_SIDE))


def selection_of(settings: Mapping[str, Any]) -> FrameSelection:
    """Return the selection of which `FrameSelection.settings` returned these.

    Raises:
        ValueError: it has not returned them.
    """
    if not all(type(value) in _KINDS.get(name, ()) for name, value in settings.items()):
        raise ValueError(f"a selection of frames that is not known: {dict(settings)}")
    parsers: dict[str, Callable[[str], Any]] = {
        "start": parse_moment, "end": parse_moment, "size": parse_size, "raw": parse_raw,
    }  # fmt: skip
    given: dict[str, Any] = {
        name: parsers[name](value) if name in parsers else value for name, value in settings.items()
    }
    return FrameSelection(**given)


def reached(moment: Moment, number: int, seconds: float | None) -> bool:
    """Return whether a frame, with its number and time, is at a moment or after it."""
    if isinstance(moment, int):
        return number >= moment
    return seconds is not None and seconds + _ROUNDING_S >= moment


def shown(moment: Moment) -> str:
    """Return a moment as it is given on the command line."""
    return f"{moment:.15g}s" if isinstance(moment, float) else str(moment)


def parse_moment(text: str) -> Moment:
    """Return the moment meant by `100` (a frame), `12.5s`, `1:30` or `0:01:30.5`.

    Raises:
        ValueError: it is none of these.
    """
    if _NUMBER.fullmatch(text):
        return int(text)
    if match := _SECONDS.fullmatch(text):
        return float(match[1])
    if match := _CLOCK.fullmatch(text):
        hours, minutes, seconds = match.groups(default="0")
        return float(hours) * 3600 + float(minutes) * 60 + float(seconds)
    raise ValueError(f"{text} is neither a frame number, as 100, nor a time, as 12.5s or 1:30")


def parse_size(text: str) -> tuple[int, int]:
    """Return the (width, height) meant by `640x360`; `ValueError` if none is."""
    match = _SIZE.fullmatch(text)
    if not match or 0 in (size := (int(match[1]), int(match[2]))):
        raise ValueError(f"{text} is not a size; write width x height, as 640x360")
    return size


def parse_raw(text: str) -> RawFormat:
    """Return the format meant by `640x360:rgb24`; `ValueError` if none is."""
    size, _, layout = text.partition(":")
    if layout not in RAW_BYTES:
        raise ValueError(
            f"{text} is no raw format; write one as 640x360:rgb24, with one of "
            f"{', '.join(RAW_BYTES)}"
        )
    width, height = parse_size(size)
    if layout == "yuv420p" and (width % 2 or height % 2):
        raise ValueError(f"{text}: frames of yuv420p have even sides")
    return RawFormat(width, height, layout)


def parse_reader(text: str) -> Reader:
    """Return the reader of that name; `ValueError` if there is none."""
    if text not in READERS:
        raise ValueError(f"{text} is not one of auto, opencv and av")
    return cast(Reader, text)


def _number(moment: Moment | None, fps: float | None) -> int | None:
    if isinstance(moment, float):
        return None if fps is None else math.ceil(moment * fps - _ROUNDING_S)
    return moment
