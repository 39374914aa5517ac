"""Frames that arrive one after the other in a pipe: raw, YUV4MPEG2, JPEG or PNG pictures in a row.

A file of raw frames is read in the same way.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.errors import VideoError
from pwcflow.frame_selection import RAW_BYTES, FrameSelection, RawFormat
from pwcflow.image_file import Image
from pwcflow.opencv_log import quietly
from pwcflow.video.source import Frame, FrameSource

_JPEG, _PNG, _Y4M = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"YUV4MPEG2 "
HEAD_BYTES = 10
"""How many bytes tell which of these a stream is."""

_Y4M_LAYOUTS = re.compile(r"420(?:jpeg|mpeg2|paldv)?|mono")  # 8 bits
_LONGEST_LINE = 4096
_LONGEST_PICTURE = 1 << 30
_JPEG_SCAN, _JPEG_END = 0xDA, 0xD9
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL)  # in a scan: no FF 00, no restarts
_CHUNK = 1 << 16

Bytes = npt.NDArray[np.uint8]


class Pipe:
    """Reads exact numbers of bytes, as a pipe hands out fewer."""

    def __init__(self, file: IO[bytes]) -> None:
        """Wrap an open file."""
        self._file = file
        self._waiting = b""

    def peek(self, count: int) -> bytes:
        """Return the next bytes, which stay; fewer at the end."""
        while len(self._waiting) < count and (more := self._file.read(count - len(self._waiting))):
            self._waiting += more
        return self._waiting[:count]

    def read(self, count: int) -> bytes:
        """Return the next bytes; fewer only at the end."""
        parts = [self._waiting[:count]]
        self._waiting = self._waiting[count:]
        missing = count - len(parts[0])
        while missing and (more := self._file.read(missing)):
            parts.append(more)
            missing -= len(more)
        return b"".join(parts)

    def some(self) -> bytes:
        """Return what there is of the next bytes, which stay; nothing only at the end."""
        if not self._waiting:
            self._waiting = getattr(self._file, "read1", self._file.read)(_CHUNK)
        return self._waiting

    def line(self) -> bytes | None:
        """Return the bytes before the next line feed; None at the end, or where none comes."""
        line = bytearray()
        while len(line) < _LONGEST_LINE:
            byte = self.read(1)
            if not byte:
                return None
            if byte == b"\n":
                return bytes(line)
            line += byte
        return None


class FrameStream(FrameSource):
    """Frames out of a pipe. Without a header that tells the rate, they have no times."""

    def __init__(
        self, path: Path, fps: float | None, frames: Iterator[Frame], selection: FrameSelection
    ) -> None:
        """Hold the frames."""
        super().__init__(path, fps, None, has_times=fps is not None, selection=selection)
        self._pictures = frames

    def _frames(self) -> Iterator[Frame]:
        number = 0
        for number, frame in enumerate(self._pictures, 1):  # noqa: B007
            yield frame
        if not number:
            raise VideoError(f"{self.path} has no frame")


def stream_source(path: Path, pipe: Pipe, selection: FrameSelection) -> FrameStream | None:
    """Return the frames of a stream; None if it is none of those that are told above."""
    if selection.raw:
        return FrameStream(path, None, _raw_frames(path, pipe, selection.raw), selection)
    head = pipe.peek(HEAD_BYTES)
    if head.startswith(_Y4M):
        fps, form = _y4m_header(path, pipe)
        return FrameStream(path, fps, _y4m_frames(path, pipe, form, fps), selection)
    for signature, next_picture in ((_JPEG, _next_jpeg), (_PNG, _next_png)):
        if head.startswith(signature):
            return FrameStream(path, None, _pictures(path, pipe, next_picture), selection)
    return None


def _raw_frames(path: Path, pipe: Pipe, form: RawFormat) -> Iterator[Frame]:
    size, number = _frame_bytes(form), 0
    while data := pipe.read(size):
        if len(data) < size:
            raise VideoError(
                f"{path} ends inside frame {number} (counted from 0): {len(data)} of the {size} "
                f"bytes that {form.width} x {form.height} pixels of {form.layout} take"
            )
        yield Frame(f"frame {number} of {path}", None, partial(_raw_image, data, form))
        number += 1


def _frame_bytes(form: RawFormat) -> int:
    if form.layout == "yuv420p":  # chroma of odd sides is rounded up
        return form.width * form.height + 2 * (-(-form.width // 2) * -(-form.height // 2))
    return int(form.width * form.height * RAW_BYTES[form.layout])


def _raw_image(data: bytes, form: RawFormat) -> Image:
    width, height, layout = form
    if layout == "yuv420p":
        return _from_yuv420(np.frombuffer(data, np.uint8), width, height)
    kind = "<u2" if layout.endswith("le") else np.uint8
    pixels = np.frombuffer(data, kind).reshape(height, width, -1)
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.uint16)
    if layout == "bgr24":
        pixels = pixels[..., ::-1]
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    return cast(Image, np.ascontiguousarray(pixels))


def _from_yuv420(data: Bytes, width: int, height: int) -> Image:
    """Return RGB of planes with halved chroma, by BT.601 in the range 16 to 235."""
    if width % 2 == 0 and height % 2 == 0:
        planes = data.reshape(height * 3 // 2, width)
        return cast(Image, cv2.cvtColor(planes, cv2.COLOR_YUV2RGB_I420))
    rows, columns = -(-height // 2), -(-width // 2)
    luma = data[: width * height].reshape(height, width)
    blue, red = data[width * height :].reshape(2, rows, columns)
    even = [
        np.pad(luma, ((0, height % 2), (0, width % 2)), "edge").ravel(),
        *(blue.ravel(), red.ravel()),
    ]
    return _from_yuv420(np.concatenate(even), 2 * columns, 2 * rows)[:height, :width].copy()


def _y4m_header(path: Path, pipe: Pipe) -> tuple[float | None, RawFormat]:
    line = (pipe.line() or b"").decode("latin-1")
    fields = {word[0]: word[1:] for word in line.split()[1:]}
    width, height, layout = fields.get("W", ""), fields.get("H", ""), fields.get("C", "420")
    if not (width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise VideoError(f"{path} is damaged: its YUV4MPEG2 header tells no size")
    if not _Y4M_LAYOUTS.fullmatch(layout):
        raise VideoError(
            f"{path} is YUV4MPEG2 of the kind {layout}; only 8 bits of 420 and mono are known, "
            "which ffmpeg writes with -pix_fmt yuv420p"
        )
    frames, _, seconds = fields.get("F", "").partition(":")
    rate = None
    if frames.isdecimal() and seconds.isdecimal() and int(frames) and int(seconds):
        rate = int(frames) / int(seconds)
    form = "gray" if layout == "mono" else "yuv420p"
    return rate, RawFormat(int(width), int(height), form)


def _y4m_frames(path: Path, pipe: Pipe, form: RawFormat, fps: float | None) -> Iterator[Frame]:
    size, number = _frame_bytes(form), 0
    while pipe.peek(1):
        line = pipe.line()
        data = pipe.read(size) if line is not None and line.startswith(b"FRAME") else b""
        if len(data) < size:
            raise _broken(path, number)
        seconds = number / fps if fps else None
        yield Frame(f"frame {number} of {path}", seconds, partial(_y4m_image, data, form))
        number += 1


def _y4m_image(data: bytes, form: RawFormat) -> Image:
    if form.layout == "yuv420p":
        return _raw_image(data, form)
    # as gray, 16 is black and 235 white here, unlike in a raw stream
    luma = (np.frombuffer(data, np.uint8).astype(np.float32) - 16) * np.float32(255 / 219)
    image = luma.round().clip(0, 255).astype(np.uint8).reshape(form.height, form.width, 1)
    return cast(Image, np.repeat(image, 3, axis=2))


def _pictures(
    path: Path, pipe: Pipe, next_picture: Callable[[Pipe], bytes | None]
) -> Iterator[Frame]:
    number = 0
    while pipe.peek(1):
        data = next_picture(pipe)
        if data is None:
            raise _broken(path, number)
        yield Frame(f"frame {number} of {path}", None, partial(_decoded, path, number, data))
        number += 1


def _decoded(path: Path, number: int, data: bytes) -> Image:

    def decoded() -> Any:
        try:
            flags = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION
            return cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error:
            return None

    image, complaints = quietly(decoded)
    if image is None or complaints:
        raise _broken(path, number)
    return cast(Image, cv2.cvtColor(image, cv2.COLOR_BGR2RGB))


def _next_png(pipe: Pipe) -> bytes | None:
    parts = [pipe.read(len(_PNG))]
    if parts[0] != _PNG:
        return None
    while True:
        head = pipe.read(8)
        length = int.from_bytes(head[:4], "big") + 4  # with the checksum
        if len(head) < 8 or length > _LONGEST_PICTURE:
            return None
        body = pipe.read(length)
        parts += head, body
        if len(body) < length:
            return None
        if head[4:] == b"IEND":
            return b"".join(parts)


def _next_jpeg(pipe: Pipe) -> bytes | None:
    """Return the next JPEG, by its segments: a preview inside has an end of its own."""
    data = bytearray(pipe.read(2))
    if data != b"\xff\xd8":
        return None
    while len(data) < _LONGEST_PICTURE:
        while pipe.peek(2) == b"\xff\xff":  # fillers
            pipe.read(1)
        marker = pipe.read(2)
        data += marker
        if len(marker) < 2 or marker[0] != 0xFF:
            return None
        if marker[1] == _JPEG_END:
            return bytes(data)
        length = pipe.read(2)
        segment = pipe.read(max(int.from_bytes(length, "big") - 2, 0))
        data += length + segment
        if marker[1] == _JPEG_SCAN and not _copy_scan(pipe, data):
            return None
    return None


def _copy_scan(pipe: Pipe, data: bytearray) -> bool:
    """Append what comes before the next marker that is one; False if there is none."""
    while chunk := pipe.some():
        if marker := _MARKER.search(chunk):
            data += pipe.read(marker.start())
            return True
        if chunk != b"\xff":
            data += pipe.read(len(chunk) - chunk.endswith(b"\xff"))  # a marker may be cut in two
        elif len(pipe.peek(2)) < 2:
            return False
        elif not _MARKER.match(pipe.peek(2)):
            data += pipe.read(1)
    return False


def _broken(path: Path, number: int) -> VideoError:
    return VideoError(
        f"{path} breaks at frame {number} (counted from 0), which cannot be decoded: the stream is "
        "damaged or was cut off"
    )
