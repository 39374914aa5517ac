"""Whether the header of a PNG or WebP announces alpha: most are without, and decoded as RGB."""

_PNG_COLOUR_TYPE, _PNG_WITH_ALPHA = 25, 4
_WEBP_FLAGS = {b"VP8X": 20, b"VP8L": 24}  # where they stand, by the first chunk
_WEBP_WITH_ALPHA = 0x10  # the same bit in both


def announces_alpha(data: bytes) -> bool:
    """Return whether a PNG or WebP announces alpha; False for others, and for a header cut short.

    Sources: W3C, "Portable Network Graphics Specification", IHDR and tRNS; developers.google.com,
    "WebP Container Specification", VP8X, and "WebP Lossless Bitstream Specification", the header.
    """
    if data.startswith(b"\x89PNG"):
        transparent = data.find(b"tRNS", 0, data.find(b"IDAT")) > 0
        return transparent or _is_set(data, _PNG_COLOUR_TYPE, _PNG_WITH_ALPHA)
    place = _WEBP_FLAGS.get(data[12:16]) if data[8:12] == b"WEBP" else None
    return place is not None and _is_set(data, place, _WEBP_WITH_ALPHA)


def _is_set(data: bytes, place: int, flag: int) -> bool:
    return any(byte & flag for byte in data[place : place + 1])
