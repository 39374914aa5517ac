"""What a PNG says of itself before it is decoded.

Source: W3C, "Portable Network Graphics", third edition, sections 5 and 11.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pwcflow.errors import FlowFileError
from pwcflow.flow_file.checks import check_deflated, damaged

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GRAY, RGB = 0, 2
_HEADER = struct.Struct(">8sI4sIIBB")  # signature, length, "IHDR", width, height, depth, colour
_HEADER_END = 33
_END = struct.pack(">I4sI", 0, b"IEND", zlib.crc32(b"IEND"))
_CHANNELS = {GRAY: 1, RGB: 3}


class PngHeader(NamedTuple):
    """The kind of picture."""

    width: int
    height: int
    depth: int
    """Bits a channel."""
    colour: int

    @property
    def kind(self) -> str:
        """What to call it in a message."""
        name = "a gray" if self.colour in (0, 4) else "a colour"
        return f"{name} picture with {self.depth} bits a channel"


def header_of(path: Path, start: bytes) -> PngHeader:
    """Return the header in the first bytes of a file; `FlowFileError` if that is no PNG."""
    if start[:8] != SIGNATURE:
        raise FlowFileError(f"{path} is not a PNG file; check where it came from")
    if len(start) < _HEADER.size:
        raise FlowFileError(f"{path} is cut short: it has {len(start)} bytes; write it again")
    return PngHeader(*_HEADER.unpack_from(start)[3:])


def check_size(path: Path, header: PngHeader, size: int) -> None:
    """Raise if a file of `size` bytes cannot hold a picture such as its header claims."""
    row = 1 + (header.width * _CHANNELS[header.colour] * header.depth + 7) // 8
    claim = f"{header.width} x {header.height} pixels"
    check_deflated(path, claim, header.height * row, size)


def check_end(path: Path, file: BinaryIO, size: int) -> None:
    """Raise unless the last chunk of a file of `size` bytes is the one that ends a picture."""
    file.seek(-min(size, len(_END)), os.SEEK_END)
    if file.read() != _END:
        raise damaged(path, "its last bytes are not the end of a PNG")


def texts(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the keyword and the text of each tEXt chunk in a PNG."""
    position = len(SIGNATURE)
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        if kind == b"tEXt":
            keyword, _, text = data[position + 8 : position + 8 + length].partition(b"\0")
            yield keyword.decode("latin-1"), text.decode("latin-1")
        position += 12 + length


def with_text(data: bytes, keyword: str, text: str) -> bytes:
    """Return a PNG with one more tEXt chunk, after its header."""
    body = b"tEXt" + keyword.encode("latin-1") + b"\0" + text.encode("latin-1")
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return data[:_HEADER_END] + chunk + data[_HEADER_END:]
