"""Two gray 8-bit pictures, u and v, as action recognition keeps flow: JPEG or PNG.

A value is round((flow + bound) / (2 * bound) * 255), clipped to 0 and 255. The two are told apart
by x and y in their names: flow_x_00001.jpg and flow_y_00001.jpg, or NAME_x.png and NAME_y.png. The
bound is recorded in both, as a JPEG comment or PNG text; others' files have none, and then it must
be given. Source: `convertFlowToImage` of github.com/yjxiong/dense_flow, used for Wang et al.,
"Temporal Segment Networks", ECCV 2016, with a bound of 20.
"""

import math
import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError, ImageError, OutputError
from pwcflow.flow_file import png
from pwcflow.flow_file.checks import cut_short, damaged
from pwcflow.flow_file.field import Flow, known_pixels
from pwcflow.image_file import read_image
from pwcflow.image_file.opencv import encode

KIND = "pair of 8-bit pictures"
JPEG_SUFFIXES = (".jpg", ".jpeg")
SUFFIXES = (*JPEG_SUFFIXES, ".png")
_HALF = re.compile(r"(?P<before>.*_)(?P<axis>[xy])(?P<after>(?:_\d+)?)")
_NUMBERED = re.compile(r"(?:(?P<before>.+)_)?(?P<number>\d+)")
_KEYWORD = "pwcflow flow bound in px"
_LARGEST = 255
_JPEG_QUALITY = 95
_MAX_PIXELS_A_BYTE = 1024  # a progressive JPEG takes a bit or less for each 8 x 8 pixels
_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_COMMENT, _SCAN = 0xFE, 0xDA


def is_half(path: Path, axis: str) -> bool:
    """Return whether a file is called as the "x" or "y" half of a pair is."""
    match = _HALF.fullmatch(path.stem)
    return bool(match and match["axis"] == axis and path.suffix.lower() in SUFFIXES)


def other_half(path: Path) -> Path:
    """Return where the v half of a u half lies, or the u half of a v half."""
    match = _HALF.fullmatch(path.stem)
    if not match:
        raise ValueError(f"{path} is not the half of a pair")
    axis = "y" if match["axis"] == "x" else "x"
    return path.with_name(f"{match['before']}{axis}{match['after']}{path.suffix}")


def stem_of(path: Path) -> str:
    """Return the name that a pair has in common: flow_x_00001.jpg gives flow_00001."""
    match = _HALF.fullmatch(path.stem)
    if not match:
        raise ValueError(f"{path} is not the half of a pair")
    return f"{match['before'].removesuffix('_')}{match['after']}"


def half_of(stem: str) -> str:
    """Return the name of the u half: 00001 gives flow_x_00001, a_1 gives a_x_1, a gives a_x."""
    if match := _NUMBERED.fullmatch(stem):
        return f"{match['before'] or 'flow'}_x_{match['number']}"
    return f"{stem}_x"


def is_gray(path: Path) -> bool:
    """Return whether a PNG holds 8 bits of gray, as a half does and a KITTI flow does not."""
    with path.open("rb") as file:
        start = file.read(33)
    if len(start) < 33 or not start.startswith(png.SIGNATURE):
        return False
    header = png.header_of(path, start)
    return (header.depth, header.colour) == (8, png.GRAY)


def holds_half(path: Path) -> bool:
    """Return whether a file is there and is a half of a pair, and not a KITTI flow called so."""
    if not (is_half(path, "x") or is_half(path, "y")) or not path.is_file():
        return False
    return path.suffix.lower() in JPEG_SUFFIXES or is_gray(path)


def files_of_flow(path: Path) -> list[Path]:
    """Return the files that a flow is read from: of a pair both halves."""
    return [path, other_half(path)] if holds_half(path) else [path]


def recorded_bound(path: Path) -> float | None:
    """Return the bound in pixels that a half records; None where it records none."""
    data = path.read_bytes()
    is_png = data.startswith(png.SIGNATURE)
    texts = png.texts(data) if is_png else _jpeg_texts(path, data)
    for keyword, text in texts:
        if keyword == _KEYWORD:
            try:
                bound = float(text)
            except ValueError:
                bound = math.nan
            if not (bound > 0 and math.isfinite(bound)):
                raise damaged(path, f"the bound that it records is {text[:20]!r}")
            return bound
    return None


def read(path: Path, bound: float | None) -> Flow:
    """Return the flow of a pair, (H, W, 2), known everywhere.

    Args:
        path: the u half.
        bound: that of the pair in pixels, where it records none; None to need a record.
    """
    if path.is_file() and is_half(path, "y"):
        raise FlowFileError(f"{path} holds v only; name the half with u, {other_half(path)}")
    halves = path, other_half(path)
    if path.is_file() and not halves[1].is_file():
        raise FlowFileError(f"{path} holds u only, and there is no {halves[1]} with v; copy it too")
    bounds = {recorded_bound(half) for half in halves}
    if len(bounds) > 1:
        raise FlowFileError(
            f"{path} and {halves[1]} do not record one bound, so they are not of one flow; "
            "write both again"
        )
    recorded = bounds.pop()
    if bound and recorded and bound != recorded:
        raise FlowFileError(
            f"{path} records a bound of {recorded:g} px, and not of {bound:g} px; leave it away"
        )
    scale = recorded or bound
    if not scale:
        raise FlowFileError(
            f"{path} does not record which motion its black and white mean; give --bound PX, "
            "most often 20"
        )
    u, v = map(_read_gray, halves)
    if u.shape != v.shape:
        raise FlowFileError(
            f"{path} and {halves[1]} differ in size, so they are not of one flow; write both again"
        )
    values = np.stack([u, v], -1).astype(np.float64)
    return (values * (2 * scale / _LARGEST) - scale).astype(np.float32)


def write(path: Path, flow: Flow, bound: float) -> int:
    """Write both halves; returns how many pixels are beyond the bound, and so clipped, or unknown.

    Args:
        path: the u half.
        flow: (H, W, 2) in pixels; unknown pixels become no motion, as a half cannot mark them.
        bound: the motion in pixels that is white; minus that is black.
    """
    check_half(path)
    known = known_pixels(flow)
    values = np.where(known[..., None], flow, 0).astype(np.float64)
    scaled = np.rint((values + bound) / (2 * bound) * _LARGEST)
    lost = ~known | (np.abs(values) > bound).any(-1)
    encoded = scaled.clip(0, _LARGEST).astype(np.uint8)
    with ExitStack() as stack:  # both are written before either is renamed
        for axis, half in enumerate((path, other_half(path))):
            temporary = stack.enter_context(replacing(half))
            data = _encoded(path, encoded[..., axis])
            temporary.write_bytes(_with_bound(data, repr(float(bound))))
    return int(lost.sum())


def check_half(path: Path) -> None:
    """Raise `OutputError` unless a pair can have this name."""
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(
            f"cannot write {path}: --bound is for a pair of 8-bit pictures; "
            f"use {' '.join(SUFFIXES)}"
        )
    if not is_half(path, "x"):
        raise OutputError(
            f"cannot write {path}: u and v go into two pictures; name the first one "
            f"{half_of(path.stem)}{path.suffix}"
        )


def _read_gray(path: Path) -> npt.NDArray[np.uint8]:
    try:
        data = path.read_bytes()
        if data.startswith(png.SIGNATURE):
            header = png.header_of(path, data[:33])
            if (header.depth, header.colour) != (8, png.GRAY):
                raise FlowFileError(
                    f"{path} is {header.kind}, not half a flow (8-bit gray); "
                    "use the flow file it was made from"
                )
            png.check_size(path, header, len(data))
        image = read_image(path)
    except ImageError as error:
        raise FlowFileError(str(error)) from error
    if image.dtype != np.uint8 or (image != image[..., :1]).any():
        raise FlowFileError(
            f"{path} is a colour picture, not half a flow (8-bit gray), and a picture cannot be "
            "turned back into flow; use the flow file it was made from"
        )
    return image[..., 0].astype(np.uint8, copy=False)


def _encoded(path: Path, gray: npt.NDArray[np.uint8]) -> bytes:
    suffix = path.suffix.lower()
    options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY] if suffix in JPEG_SUFFIXES else []
    data = encode(suffix, np.ascontiguousarray(gray), options)
    if data is None:
        raise OutputError(
            f"cannot write {path}: {suffix} cannot hold {gray.shape[1]} x {gray.shape[0]} pixels; "
            "use .npz"
        )
    return data


def _with_bound(data: bytes, bound: str) -> bytes:
    if data.startswith(png.SIGNATURE):
        return png.with_text(data, _KEYWORD, bound)
    comment = f"{_KEYWORD}: {bound}".encode()
    (length,) = struct.unpack_from(">H", data, 4)  # of the first segment, which has to stay first
    end = 4 + length
    return data[:end] + struct.pack(">BBH", 0xFF, _COMMENT, 2 + len(comment)) + comment + data[end:]


def _jpeg_texts(path: Path, data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the comments before the pixels, split at the colon; checks the size on the way.

    Source: ITU-T T.81, annex B.
    """
    if data[:2] != b"\xff\xd8":
        raise FlowFileError(f"{path} is neither JPEG nor PNG; check where it came from")
    position = 2
    while position + 4 <= len(data):
        mark, marker, length = struct.unpack_from(">BBH", data, position)
        if mark != 0xFF:
            raise damaged(path, f"at byte {position} a marker is to be")
        body = data[position + 4 : position + 2 + length]
        if marker in _SIZES and len(body) >= 5:
            height, width = struct.unpack_from(">HH", body, 1)
            if height * width > _MAX_PIXELS_A_BYTE * len(data):
                raise damaged(
                    path,
                    f"its header says {width} x {height} pixels, which {len(data)} bytes "
                    "cannot hold",
                )
        if marker == _COMMENT:
            keyword, _, text = body.decode("latin-1").partition(": ")
            yield keyword, text
        if marker == _SCAN:
            return
        position += 2 + max(length, 2)
    raise cut_short(path, "its pixels begin later", len(data))
