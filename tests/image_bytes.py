"""Image files made by hand or by OpenCV, and what is said of one that is refused."""

import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.errors import ImageError
from pwcflow.image_file import read_image


def gradient(height: int = 40, width: int = 56) -> np.ndarray:
    """An RGB picture whose quarters all differ, smooth enough for JPEG."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 4, y * 6, (x + y) * 2], -1).astype(np.uint8)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(depth: int, colour: int, size: tuple[int, int], rows: list[bytes], *extra: bytes) -> bytes:
    """Encode a PNG by hand; every row is packed, filter 0."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + pixels + chunk(b"IEND", b"")


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def encoded(suffix: str, image: np.ndarray, options: tuple[int, ...] = ()) -> bytes:
    done, data = cv2.imencode(suffix, image[..., ::-1] if image.ndim == 3 else image, options)
    assert done
    return data.tobytes()


def message_of(path: Path) -> str:
    with pytest.raises(ImageError) as caught:
        read_image(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message
