"""Tells from the layout of a video file whether its tail is missing, or a part of it damaged."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pwcflow.image_file.animation import gif_pictures

_MP4_FIRST_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot")
_EBML = b"\x1a\x45\xdf\xa3"
_SEGMENT = b"\x18\x53\x80\x67"
_CLUSTER = b"\x1f\x43\xb6\x75"
_PNG = b"\x89PNG\r\n\x1a\n"
_LONGEST_PAYLOAD = 2**16  # only the beginning of a table of samples is of interest


def first_lost_frame(path: Path, frames: int, last: float, expected: int | None) -> int | None:
    """Return the index of the first frame that a file lost with its tail; None if it is whole.

    Where frames between those decoded are missing it is the number of these.

    The figure OpenCV gives for the number of frames cannot decide it: for Matroska it is
    duration x rate, where the duration may be that of the sound; for MP4 it is the sample table's,
    which also counts what an edit list hides, both fields of an interlaced frame and empty
    samples. Hence these rules, which the cut videos, tails of zeros and edit lists of
    tests/test_video_cut.py hold:

    - MP4, MOV: fewer frames than samples, and either a box reaches past the end of the file or
      the last frame is over well before the track is (its edit list's end, if it has one).
    - AVI: a chunk reaches past the end of the file or is zeros, and fewer frames than announced;
      a file that lost only the index at its end is complete. The last frame is whole if no more
      frames were decoded than there are whole pictures.
    - Matroska, WebM: an element reaches past the end of the file or is zeros, or a cluster is not
      elements to its end: FFmpeg passes over what it then cannot find. The last frame is whole,
      since FFmpeg does not hand out a part of a block; in an MP4 it is not.
    - GIF, animated PNG: the end mark is missing. The frames before are whole if what belongs to
      them is.
    - Others have nothing to judge by.

    Args:
        path: the file.
        frames: how many frames were decoded.
        last: time of the last of them, in seconds.
        expected: the number of frames OpenCV announces.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        start = file.read(12)
        if start[4:8] in _MP4_FIRST_BOXES:
            return frames - 1 if _mp4_is_cut(file, size, frames, last, expected) else None
        if start[:4] == b"RIFF":
            short = expected is None or frames < expected
            if short and _avi_is_cut(file, size):
                return frames - (frames > _avi_whole_pictures(file, size))
        if start[:4] == _EBML:
            return frames if _matroska_is_damaged(file, size) else None
        if start.startswith(b"GIF8"):
            _, whole, ended = gif_pictures(file)
            return None if ended else min(frames, whole)
        if start.startswith(_PNG):
            whole, ended = _png_pictures(file)
            return None if ended else min(frames, whole)
    return None


def index_is_missing(path: Path) -> bool:
    """Return whether an MP4 or MOV lost the index of its pictures, or a part of it."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        boxes = list(_boxes(file, 0, size))
    is_mp4 = bool(boxes) and boxes[0].kind in _MP4_FIRST_BOXES
    return is_mp4 and not any(box.kind == b"moov" and box.end <= size for box in boxes)


class _Box(NamedTuple):
    kind: bytes
    start: int  # of the payload
    end: int


class _Track(NamedTuple):
    """The picture track of an MP4."""

    samples: int
    seconds: float  # all of it
    shown: float  # what its edit list leaves, in seconds


def _mp4_is_cut(file: BinaryIO, size: int, frames: int, last: float, expected: int | None) -> bool:
    boxes = list(_boxes(file, 0, size))
    cut = not boxes or boxes[-1].end > size
    movie = next((box for box in boxes if box.kind == b"moov"), None)
    if movie is None:
        return True
    tracks = [track for track in _picture_tracks(file, movie) if track.samples == expected]
    if not tracks or any(box.kind == b"moof" for box in boxes):
        return cut
    track = tracks[0]
    # Half of an interlaced frame or an empty sample makes the frames fewer, not the last earlier.
    duration = max(track.seconds / track.samples, last / max(frames - 1, 1))
    over = last + 1.5 * duration >= min(track.seconds, track.shown)
    return frames < track.samples and (cut or not over)


def _boxes(file: BinaryIO, start: int, end: int) -> Iterator[_Box]:
    """Yield the boxes between two offsets; the last may claim to end further on."""
    while start + 8 <= end:
        head = _read(file, start, 16)
        length, kind, payload = int.from_bytes(head[:4], "big"), head[4:8], start + 8
        if length == 1:
            length, payload = int.from_bytes(head[8:16], "big"), start + 16
        elif length == 0:
            length = end - start
        if length < payload - start:  # zeros, or not a box
            return
        yield _Box(kind, payload, start + length)
        start += length


def _picture_tracks(file: BinaryIO, movie: _Box) -> Iterator[_Track]:
    for trak in _boxes(file, movie.start, movie.end):
        if trak.kind != b"trak":
            continue
        media = _box(file, trak, b"mdia")
        handler = _payload(file, media, b"hdlr")
        if handler[8:12] != b"vide":
            continue
        table = _box(file, _box(file, media, b"minf"), b"stbl")
        sizes = _payload(file, table, b"stsz") or _payload(file, table, b"stz2")
        scale, duration = _scale_and_duration(_payload(file, media, b"mdhd"))
        movie_scale, _ = _scale_and_duration(_payload(file, movie, b"mvhd"))
        edits = _payload(file, _box(file, trak, b"edts"), b"elst")
        if scale and movie_scale and len(sizes) >= 12:
            seconds = duration / scale
            shown = _edited_duration(edits) / movie_scale or seconds
            yield _Track(int.from_bytes(sizes[8:12], "big"), seconds, shown)


def _box(file: BinaryIO, parent: _Box, kind: bytes) -> _Box:
    """Return the first child of that kind; an empty box if there is none."""
    children = _boxes(file, parent.start, parent.end)
    return next((box for box in children if box.kind == kind), _Box(kind, 0, 0))


def _payload(file: BinaryIO, parent: _Box, kind: bytes) -> bytes:
    box = _box(file, parent, kind)
    return _read(file, box.start, min(box.end - box.start, _LONGEST_PAYLOAD))


def _scale_and_duration(header: bytes) -> tuple[int, int]:
    """Return (units per second, duration in units) of an mvhd or mdhd box; zeros if damaged."""
    wide = header[:1] == b"\x01"
    format_, start = (">IQ", 20) if wide else (">II", 12)
    if len(header) < start + struct.calcsize(format_):
        return 0, 0
    scale, duration = struct.unpack_from(format_, header, start)
    return int(scale), int(duration)


def _edited_duration(edits: bytes) -> int:
    """Return how long the edits of an elst box show the track, in movie units; 0 for all of it."""
    entry = struct.Struct(">Qq4x" if edits[:1] == b"\x01" else ">Ii4x")
    whole = (len(edits) - 8) // entry.size * entry.size
    entries = list(entry.iter_unpack(edits[8 : 8 + max(whole, 0)]))
    shown = [int(duration) for duration, media_time in entries if media_time != -1]
    return sum(shown) if all(shown) else 0  # 0 in a fragmented file: to the end


def _avi_is_cut(file: BinaryIO, size: int) -> bool:
    start = 0
    while start + 12 <= size:
        kind, length = _chunk(file, start)
        if kind != b"RIFF":  # padding after the end
            return False
        end = start + 8 + length
        if 0 < length < 2**32 - 1 and end > size + 8:  # some writers count the header too
            return True
        inside = start + 12
        while inside + 8 <= min(end, size):
            kind, length = _chunk(file, inside)
            if kind == bytes(4):
                return True
            inside += 8 + length + length % 2
        start = max(end + end % 2, start + 12)
    return False


def _avi_whole_pictures(file: BinaryIO, size: int) -> int:
    """Return how many pictures of a cut AVI are there to their last byte."""
    pictures = start = last_byte = 0
    while start + 8 < size:
        kind, length = _chunk(file, start)
        if kind == bytes(4):  # the zeros may have begun within the picture before
            return pictures - (_read(file, last_byte, 1) == b"\0")
        if kind in (b"RIFF", b"LIST"):
            start += 12
            continue
        end = start + 8 + length
        if kind[2:] in (b"dc", b"db") and length and end <= size:
            pictures, last_byte = pictures + 1, end - 1
        start = end + length % 2
    return pictures


def _chunk(file: BinaryIO, start: int) -> tuple[bytes, int]:
    head = _read(file, start, 8)
    return head[:4], int.from_bytes(head[4:8], "little")


def _matroska_is_damaged(file: BinaryIO, size: int) -> bool:
    start, end = 0, size
    while start < end:
        identity, length, payload = _element(file, start)
        if length is None and identity != _SEGMENT:  # a live recording: to the end
            return False
        stop = size if length is None else payload + length
        if not identity or stop > size:
            return True
        if identity == _CLUSTER and not _is_elements(file, payload, stop):
            return True
        start, end = (payload, stop) if identity == _SEGMENT else (stop, end)
    return False


def _is_elements(file: BinaryIO, start: int, end: int) -> bool:
    """Return whether a cluster of known length is elements to its end."""
    while start < end:
        identity, length, payload = _element(file, start)
        if not identity or length is None:  # which none but segments and clusters may leave open
            return False
        start = payload + length
    return start == end


def _element(file: BinaryIO, start: int) -> tuple[bytes, int | None, int]:
    """Return (id, length or None if unknown, start of the payload) of an EBML element.

    The id is empty where there is no element.
    """
    head = _read(file, start, 12)
    id_bytes = 9 - head[0].bit_length()
    if id_bytes > 4 or len(head) <= id_bytes:
        return b"", 0, start
    size_bytes = 9 - head[id_bytes].bit_length()
    number = head[id_bytes : id_bytes + size_bytes]
    if size_bytes > 8 or len(number) < size_bytes:
        return b"", 0, start
    length = int.from_bytes(number, "big") & ((1 << 7 * size_bytes) - 1)
    unknown = length == (1 << 7 * size_bytes) - 1
    return head[:id_bytes], None if unknown else length, start + id_bytes + size_bytes


def _png_pictures(file: BinaryIO) -> tuple[int, bool]:
    """Return (animated pictures that are there to their last byte, whether the end mark is)."""
    started, position = 0, len(_PNG)
    size = file.seek(0, os.SEEK_END)
    while position + 12 <= size:
        head = _read(file, position, 8)
        position += 12 + int.from_bytes(head[:4], "big")
        if position > size:
            break
        if head[4:] == b"IEND":
            return started, True
        started += head[4:] == b"fcTL"  # which is before a picture
    return max(started - 1, 0), False


def _read(file: BinaryIO, start: int, length: int) -> bytes:
    file.seek(start)
    return file.read(length)
