"""The layout of a TIFF: its pages, their tags, and a file of one page with other tags."""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

# tags
WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
ORIENTATION, SAMPLES, ROWS_PER_STRIP, PLANAR, PREDICTOR = 274, 277, 278, 284, 317
TILE_WIDTH, TILE_HEIGHT, EXTRA_SAMPLES, SAMPLE_FORMAT = 322, 323, 338, 339
BLOCKS = ((273, 279), (324, 325))
"""The tags of the offsets and of the byte counts, of strips and of tiles."""

_SUBFILE, _FILL_ORDER, _COLOR_MAP, _JPEG_TABLES = 254, 266, 320, 347
_FAX_OPTIONS, _YCBCR = (292, 293), (529, 530, 531, 532)
_WANTED = {
    *(WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, ROWS_PER_STRIP, PLANAR, PREDICTOR),
    *(ORIENTATION, TILE_WIDTH, TILE_HEIGHT, EXTRA_SAMPLES, SAMPLE_FORMAT, *BLOCKS[0], *BLOCKS[1]),
    *(_SUBFILE, _FILL_ORDER, _COLOR_MAP, _JPEG_TABLES, *_FAX_OPTIONS, *_YCBCR),
}
_FORMATS = {1: "B", 3: "H", 4: "I", 5: "Q", 7: "B", 13: "I", 16: "Q", 18: "Q"}  # 5: kept as it is
_MAX_VALUES = 1 << 24
_MAX_PAGES = 1 << 16  # a damaged file may say that its pages form a ring
_REDUCED_OR_MASK = 0b101


class Page(NamedTuple):
    """A page's tags, only those that tell how its pixels are stored."""

    order: str  # "<" or ">", as struct takes it
    tags: dict[int, tuple[int, ...]]
    types: dict[int, int]  # of the values of a tag, in TIFF's numbering
    is_first: bool

    @property
    def samples(self) -> int:
        """Channels, colours and others."""
        return self.first(SAMPLES, 1)

    @property
    def bits(self) -> int:
        """Bits of the first channel."""
        return self.first(BITS, 1)

    def first(self, tag: int, default: int = 0) -> int:
        """Return the first value of a tag."""
        return next(iter(self.tags.get(tag, ())), default)

    def blocks(self) -> list[tuple[int, int]]:
        """Return (offset, bytes) of the strips or tiles, in order."""
        return [
            pair
            for offsets, sizes in BLOCKS
            for pair in zip(self.tags.get(offsets, ()), self.tags.get(sizes, ()), strict=False)
        ]


def pages_of(data: bytes) -> Iterator[Page]:
    """Yield the pages; struct.error or OverflowError where one is not all there."""
    order = "<" if data[:2] == b"II" else ">"
    big = data[2:4] in (b"+\0", b"\0+")
    size, count_format = ("Q", "Q") if big else ("I", "H")
    entry_bytes = 20 if big else 12
    (table,) = struct.unpack_from(order + size, data, 8 if big else 4)
    seen: set[int] = set()
    while table and table not in seen and len(seen) < _MAX_PAGES:
        seen.add(table)
        (count,) = struct.unpack_from(order + count_format, data, table)
        start = table + struct.calcsize(order + count_format)
        end = start + count * entry_bytes
        page = Page(order, {}, {}, is_first=len(seen) == 1)
        for entry in range(start, end, entry_bytes):
            tag, kind, length = struct.unpack_from(order + "HH" + size, data, entry)
            if tag not in _WANTED or kind not in _FORMATS or length > _MAX_VALUES:
                continue
            values = f"{order}{length}{_FORMATS[kind]}"
            position = entry + (12 if big else 8)
            if struct.calcsize(values) > struct.calcsize(order + size):
                (position,) = struct.unpack_from(order + size, data, position)
            page.tags[tag] = struct.unpack_from(values, data, position)
            page.types[tag] = kind
        yield page
        (table,) = struct.unpack_from(order + size, data, end)


def pictures_of(data: bytes) -> list[Page]:
    """Return the pages that are pictures of their own: as large as the first, and no previews.

    struct.error or OverflowError where a page is not all there.
    """
    pictures: list[Page] = []
    for page in pages_of(data):
        size = page.first(WIDTH), page.first(HEIGHT)
        preview = page.first(_SUBFILE) & _REDUCED_OR_MASK
        if not pictures:
            first_size = size
        elif preview or size != first_size:
            continue
        pictures.append(page)
    return pictures


def one_page(data: bytes, page: Page, changed: Mapping[int, int | None], planes: slice) -> bytes:
    """Return a TIFF of one page.

    Args:
        data: the file.
        page: one of its pages.
        changed: values that take the place of the page's own; None removes a tag.
        planes: which strips or tiles to take.
    """
    blocks = page.blocks()[planes]
    tiled = BLOCKS[1][0] in page.tags
    offset_tag, size_tag = BLOCKS[tiled]
    entries = {
        tag: (page.types[tag], values)
        for tag, values in page.tags.items()
        if tag not in (*BLOCKS[0], *BLOCKS[1], *changed)
    }
    entries |= {tag: (4, (value,)) for tag, value in changed.items() if value is not None}
    entries[size_tag] = 16, tuple(size for _, size in blocks)
    entries[offset_tag] = 16, (0,) * len(blocks)
    start = 16 + 8 + 20 * len(entries) + 8
    packed = {tag: _packed(page.order, kind, values) for tag, (kind, values) in entries.items()}
    position = start + sum(len(values) for values in packed.values() if len(values) > 8)
    offsets = []
    for _, size in blocks:
        offsets.append(position)
        position += size + size % 2
    packed[offset_tag] = _packed(page.order, 16, offsets)
    table, outside = b"", b""
    for tag in sorted(entries):
        kind, values = entries[tag]
        table += struct.pack(page.order + "HHQ", tag, kind, len(values))
        if len(packed[tag]) <= 8:
            table += packed[tag].ljust(8, b"\0")
        else:
            table += struct.pack(page.order + "Q", start + len(outside))
            outside += packed[tag]
    magic = b"II" if page.order == "<" else b"MM"
    head = magic + struct.pack(page.order + "HHHQQ", 43, 8, 0, 16, len(entries))
    body = (data[at : at + size] + bytes(size % 2) for at, size in blocks)
    return b"".join((head, table, bytes(8), outside, *body))


def _packed(order: str, kind: int, values: tuple[int, ...] | list[int]) -> bytes:
    return struct.pack(f"{order}{len(values)}{_FORMATS[kind]}", *values)
