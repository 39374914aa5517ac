"""Frames that are images: of a folder, of a pattern, of a TIFF's pages, of an animation."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from glob import glob, has_magic
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np

from pwcflow.errors import ImageError, VideoError
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.image_file import IMAGE_SUFFIXES, Image, read_image, read_pages
from pwcflow.image_file.damage import check_layout
from pwcflow.opencv_log import quietly
from pwcflow.video.source import Frame, FrameSource

_NUMBER = re.compile(r"%(0\d+)?d")
_WEBP_ANIMATION = 0x02


class ImageFiles(FrameSource):
    """Image files in a given order."""

    def __init__(
        self, path: Path, files: Sequence[Path], selection: FrameSelection = ALL_FRAMES
    ) -> None:
        """Hold the names; each file is read when its turn comes."""
        self._files = files
        super().__init__(path, None, len(files), has_times=False, selection=selection)

    def _frames(self) -> Iterator[Frame]:
        for file in self._files:
            yield Frame(str(file), None, partial(read_image, file))


class Pages(FrameSource):
    """The pages of a TIFF, as microscopes write them."""

    def __init__(
        self, path: Path, count: int, pages: Iterable[Image], selection: FrameSelection = ALL_FRAMES
    ) -> None:
        """Hold the pages, decoded as they are asked for."""
        self._pages = pages
        super().__init__(path, None, count, has_times=False, selection=selection)

    def _frames(self) -> Iterator[Frame]:
        for number, page in enumerate(self._pages):
            yield Frame(f"page {number} of {self.path}", None, partial(_same, page))


class Animation(FrameSource):
    """An animated WebP or AVIF, which OpenCV decodes in one go."""

    def __init__(self, path: Path, selection: FrameSelection = ALL_FRAMES) -> None:
        """Decode it.

        Raises:
            VideoError: it is damaged, or OpenCV is too old.
        """
        self._pictures, durations = _animation(path)
        starts = list(accumulate(durations, initial=0.0))
        self._starts = starts[: len(self._pictures)]
        fps = len(durations) / starts[-1] if starts[-1] > 0 else None
        super().__init__(path, fps, len(self._pictures), has_times=True, selection=selection)

    def _frames(self) -> Iterator[Frame]:
        for number, (picture, start) in enumerate(zip(self._pictures, self._starts, strict=True)):
            yield Frame(f"frame {number} of {self.path}", start, partial(_rgb, picture))


def folder_source(path: Path, selection: FrameSelection) -> FrameSource:
    """Return the images of a folder in natural order; other files and sub-folders are ignored."""
    files = frames_in(path)
    if not files:
        raise VideoError(
            f"{path} holds no images; a folder of frames needs files named "
            f"{' '.join(sorted(IMAGE_SUFFIXES))}"
        )
    return ImageFiles(path, files, selection)


def is_pattern(path: Path) -> bool:
    """Return whether a name stands for several, as `frame%04d.png` and `*.png` do."""
    return bool(_NUMBER.search(path.name)) or has_magic(str(path))


def pattern_source(path: Path, selection: FrameSelection) -> FrameSource:
    """Return the images that a pattern stands for, in natural order.

    With `%d` or `%04d` numbers may be left out, and the frame after the gap follows the one before.
    """
    parts = _NUMBER.split(path.name)  # text, width or None, text, ...
    if len(parts) > 1:
        texts = map(re.escape, parts[::2])
        widths = (int(width or 1) for width in parts[1::2])
        digits = (rf"(?:\d{{{width}}}|[1-9]\d{{{width},}})" for width in widths)  # no 007 for %d
        name = re.compile("".join(text + number for text, number in _paired(texts, digits)))
        try:
            entries = list(path.parent.iterdir())
        except OSError:
            entries = []
        found = [entry for entry in entries if name.fullmatch(entry.name)]
    else:
        found = [Path(entry) for entry in glob(str(path), recursive=True)]  # noqa: PTH207
    files = sorted(filter(is_frame, found), key=natural_path_key)
    if not files:
        why = "the files it matches are no images" if found else "no file matches it"
        raise VideoError(f"{path} stands for no frames: {why}; check the pattern and the folder")
    return ImageFiles(path, files, selection)


def pages_source(path: Path, selection: FrameSelection) -> FrameSource | None:
    """Return the pages of a TIFF; None if it is one picture."""
    count, pages = read_pages(path)
    return Pages(path, count, pages, selection) if count > 1 else None


def is_animation(start: bytes) -> bool:
    """Return whether an image file that begins so is an animated WebP or AVIF."""
    if start.startswith(b"RIFF") and start[8:16] == b"WEBPVP8X":
        return bool(start[20:21]) and bool(start[20] & _WEBP_ANIMATION)
    return start[4:12] == b"ftypavis"


def is_frame(path: Path) -> bool:
    """Return whether a file is one of those that a folder of frames consists of."""
    visible = not path.name.startswith(".")  # copies from a Mac bring "._frame1.png" along
    return visible and path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()


def frames_in(folder: Path) -> list[Path]:
    """Return the files that a folder of frames consists of, in natural order."""
    return sorted(filter(is_frame, folder.iterdir()), key=natural_key)


def natural_key(path: Path) -> tuple[list[str | int], str]:
    """Return a key that sorts frame2 before frame10."""
    parts = re.split(r"(\d+)", path.name)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], path.name


def natural_path_key(path: Path) -> list[tuple[list[str | int], str]]:
    """Return a key that sorts every part of a path so."""
    return [natural_key(Path(part)) for part in path.parts]


def _paired(texts: Iterable[str], numbers: Iterable[str]) -> Iterator[tuple[str, str]]:
    rest = iter(numbers)
    for text in texts:
        yield text, next(rest, "")


def _animation(path: Path) -> tuple[list[Any], list[float]]:
    """Return the pictures of an animation, as OpenCV has them, and how long each is shown."""
    decode: Callable[..., Any] | None = getattr(cv2, "imdecodeanimation", None)
    if decode is None:
        raise VideoError(f"{path} is an animation, which takes OpenCV 4.11; update opencv-python")
    data = path.read_bytes()
    check_layout(path, data)

    def decoded() -> Any:
        try:
            done, animation = decode(np.frombuffer(data, np.uint8)[None])  # a row for OpenCV 4
        except cv2.error:
            return None
        return animation if done else None

    animation, _ = quietly(decoded)
    if not animation or not len(animation.frames):
        raise VideoError(f"{path} cannot be decoded: it is damaged or cut short; make it again")
    return list(animation.frames), [int(duration) / 1000 for duration in animation.durations]


def _rgb(picture: Any) -> Image:
    """Return OpenCV's gray, BGR or BGRA as RGB; alpha is dropped."""
    channels = 1 if picture.ndim == 2 else picture.shape[2]
    codes = {1: cv2.COLOR_GRAY2RGB, 3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGB}
    if channels not in codes or picture.dtype not in (np.uint8, np.uint16):
        raise ImageError(f"an animation of {channels} channels of {picture.dtype} is not known")
    return cast(Image, cv2.cvtColor(picture, codes[channels]))


def _same(image: Image) -> Image:
    return image
