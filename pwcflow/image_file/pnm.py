"""PBM, PGM, PPM, PAM and PFM, which OpenCV reads in part: not all text, and PAM as BGR."""

import re
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from pwcflow.errors import ImageError
from pwcflow.image_file.damage import check_size, cut_short
from pwcflow.image_file.opencv import Decoded

SIGNATURE = re.compile(rb"P[1-6Ff](?:[\s#]|$)|P7\n")

_GAP = rb"(?:\s|#[^\n]*\n)+"
_HEADER = re.compile(rb"P([1-6])" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})")
_MAXIMUM = re.compile(_GAP + rb"(\d{1,5})")
_PFM_HEADER = re.compile(rb"P([Ff])\s+(\d{1,9})\s+(\d{1,9})\s+([-+.\deE]{1,40})\s")
_PAM_HEADER = re.compile(rb"P7\n(.*?)ENDHDR\n", re.DOTALL)
_PAM_FIELD = re.compile(rb"^(WIDTH|HEIGHT|DEPTH|MAXVAL)\s+(\d{1,9})\s*$", re.MULTILINE)
_COMMENT = re.compile(rb"#[^\n]*")
_TEXT, _BITS, _COLOR = "123", "14", "36"


class _Layout(NamedTuple):
    width: int
    height: int
    channels: int
    maximum: int
    start: int  # of the pixels


def decode_pnm(path: Path, data: bytes) -> Decoded:
    """Return the first picture of a file, (H, W, 3) RGB: uint8, uint16, or float32 of a PFM.

    A maximum of, say, 4095 becomes that of the type, as other formats are stored.

    Raises:
        ImageError: the file is damaged, cut short or too large.
    """
    if data[1:2] in b"Ff":
        return _decode_pfm(path, data)
    kind, layout = chr(data[1]), _pam_layout(data) if data[1:2] == b"7" else _layout(data)
    if layout is None or 0 in layout[:4] or layout.maximum > 65535:
        _refuse(path, "its header makes no sense")
    check_size(path, layout.width, layout.height)
    values = _text if kind in _TEXT else _packed_bits if kind in _BITS else _binary
    pixels = values(path, data, layout, kind)
    dtype: type[np.uint8 | np.uint16] = np.uint8 if layout.maximum < 256 else np.uint16
    full = int(np.iinfo(dtype).max)
    if layout.maximum != full:
        pixels = np.rint(pixels * (full / layout.maximum)).clip(0, full)
    colors = 3 if layout.channels > 2 else 1
    image: Decoded = pixels[..., :colors].astype(dtype)
    return image if colors == 3 else np.repeat(image, 3, axis=2)


def _layout(data: bytes) -> _Layout | None:
    if not (match := _HEADER.match(data)):
        return None
    kind, maximum, end = match[1].decode(), 1, match.end()
    if kind not in _BITS:
        if not (found := _MAXIMUM.match(data, end)):
            return None
        maximum, end = int(found[1]), found.end()
    channels = 3 if kind in _COLOR else 1
    return _Layout(int(match[2]), int(match[3]), channels, maximum, end + 1)


def _pam_layout(data: bytes) -> _Layout | None:
    match = _PAM_HEADER.match(data)
    fields = {key: int(value) for key, value in _PAM_FIELD.findall(match[1])} if match else {}
    if match is None or len(fields) < 4:
        return None
    width, height, depth, maximum = (
        fields[key] for key in (b"WIDTH", b"HEIGHT", b"DEPTH", b"MAXVAL")
    )
    return _Layout(width, height, depth, maximum, match.end())


def _binary(path: Path, data: bytes, layout: _Layout, _: str) -> npt.NDArray[Any]:
    dtype = np.dtype(np.uint8 if layout.maximum < 256 else ">u2")
    shape = layout.height, layout.width, layout.channels
    return _numbers(path, data, layout.start, dtype, shape)


def _packed_bits(path: Path, data: bytes, layout: _Layout, _: str) -> npt.NDArray[Any]:
    shape = layout.height, -(-layout.width // 8), 1
    rows = _numbers(path, data, layout.start, np.dtype(np.uint8), shape)
    return 1 - np.unpackbits(rows[..., 0], axis=1, count=layout.width)[..., None]  # 1 is black


def _text(path: Path, data: bytes, layout: _Layout, kind: str) -> npt.NDArray[Any]:
    text = _COMMENT.sub(b" ", data[layout.start - 1 :])
    shape = layout.height, layout.width, layout.channels
    count = layout.height * layout.width * layout.channels
    # the digits of a PBM may stand without spaces
    words = re.findall(rb"[01]", text) if kind in _BITS else text.split(None, count)[:count]
    if len(words) < count:
        raise cut_short(path, "PNM", f"it has {len(words)} of {count} numbers")
    try:
        numbers = np.array(words[:count], dtype="S10").astype(np.int64).reshape(shape)
    except ValueError:
        _refuse(path, "a pixel is no number")
    return 1 - numbers if kind in _BITS else np.minimum(numbers, layout.maximum)


def _decode_pfm(path: Path, data: bytes) -> npt.NDArray[np.float32]:
    match = _PFM_HEADER.match(data)
    try:
        scale = float(match[4]) if match else 0.0
    except ValueError:
        scale = 0.0
    if match is None or not scale or not int(match[2]) or not int(match[3]):
        _refuse(path, "its header makes no sense")
    width, height = int(match[2]), int(match[3])
    check_size(path, width, height)
    dtype = np.dtype("<f4" if scale < 0 else ">f4")
    shape = height, width, 3 if match[1] == b"F" else 1
    rows = _numbers(path, data, match.end(), dtype, shape)[::-1].astype(np.float32)
    return rows if match[1] == b"F" else np.repeat(rows, 3, axis=2)


def _numbers(
    path: Path, data: bytes, start: int, dtype: np.dtype[Any], shape: tuple[int, int, int]
) -> npt.NDArray[Any]:
    count = shape[0] * shape[1] * shape[2]
    needed = start + count * dtype.itemsize
    if needed > len(data):
        raise cut_short(path, "PNM", f"it needs {needed} bytes, it has {len(data)}")
    return np.frombuffer(data, dtype, count, start).reshape(shape)


def _refuse(path: Path, reason: str) -> NoReturn:
    raise ImageError(f"{path} is damaged: {reason}; make or copy the PNM file again")
