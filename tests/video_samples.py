"""Videos whose pictures tell their number, and others as phones and cameras write them."""

import struct

import cv2
import numpy as np

from pwcflow.opencv_log import quiet_codecs

CODECS = {".mp4": "mp4v", ".mov": "mp4v", ".avi": "MJPG", ".mkv": "mp4v", ".webm": "VP80"}
WIDTH, HEIGHT, FRAMES = 128, 96, 40


def picture(index, width=WIDTH, height=HEIGHT):
    """Eight columns, black or white: the bits of the index, the highest one first."""
    bits = np.array([index >> bit & 1 for bit in range(7, -1, -1)], np.uint8) * 255
    columns = bits[np.arange(width) * 8 // width]
    return np.ascontiguousarray(np.broadcast_to(columns[None, :, None], (height, width, 3)))


def index_of(frame):
    middles = (np.arange(8) * 2 + 1) * frame.shape[1] // 16
    return sum(int(bit) << 7 - i for i, bit in enumerate(frame[:, middles].mean((0, 2)) > 127))


def write_video(path, frames=FRAMES, codec=None, fps=25.0, draw=picture):
    fourcc = cv2.VideoWriter.fourcc(*(codec or CODECS[path.suffix]))
    noise = np.random.default_rng(0).integers(0, 60, (HEIGHT, WIDTH, 3), np.uint8)
    with quiet_codecs(opening_writer=True):
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, fps, (WIDTH, HEIGHT))
    assert writer.isOpened()
    for index in range(frames):  # the noise makes frames large, so that a cut hits pictures
        writer.write(cv2.add(draw(index), np.roll(noise, index, 1)))
    writer.release()
    return path


def boxes(data):
    start = 0
    while start < len(data):
        length = struct.unpack_from(">I", data, start)[0]
        yield data[start + 4 : start + 8], data[start : start + length]
        start += length


def index_in_front(path):
    """Move the moov box before the pictures, as files made for streaming have it."""
    parts = dict(boxes(path.read_bytes()))
    moov = bytearray(parts.pop(b"moov"))
    table = moov.index(b"stco") + 8
    for entry in range(struct.unpack_from(">I", moov, table)[0]):
        offset = table + 4 + 4 * entry
        old = struct.unpack_from(">I", moov, offset)[0]
        struct.pack_into(">I", moov, offset, old + len(moov))
    path.write_bytes(parts.pop(b"ftyp") + moov + b"".join(parts.values()))
    return path


def cut(path, share):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def patch(path, old, new, after=b""):
    data = path.read_bytes()
    start = data.index(old, data.index(after))
    path.write_bytes(data[:start] + new + data[start + len(old) :])


def quadrants(_):
    """Red top left, green top right, blue bottom left, black bottom right, in BGR."""
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[: HEIGHT // 2, : WIDTH // 2] = (0, 0, 190)
    image[: HEIGHT // 2, WIDTH // 2 :] = (0, 190, 0)
    image[HEIGHT // 2 :, : WIDTH // 2] = (190, 0, 0)
    return image


def corner_colours(frame):
    """Name the brightest channel near each corner: top left, top right, bottom left, right."""
    height, width = frame.shape[:2]
    names = ""
    for rows in (slice(10, height // 4), slice(-height // 4, -10)):
        for columns in (slice(10, width // 4), slice(-width // 4, -10)):
            mean = frame[rows, columns].mean((0, 1))
            names += "rgb"[int(mean.argmax())] if mean.max() > 110 else "."
    return names


def rotated_video(path, matrix, frames):
    """A video of quadrants with the matrix (a, b, c, d) in its header, as a phone writes it."""
    write_video(path, frames=frames, draw=quadrants)
    a, b, c, d = (value * 0x10000 for value in matrix)
    upright = struct.pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    rotated = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 0x40000000)
    patch(path, upright, rotated, after=b"tkhd")
    return path


def interlaced_video(path, first=0):
    """An MPEG-2 video whose headers say of pictures, from one on, that they are interlaced."""
    write_video(path, codec="mpg2", frames=6)
    data = bytearray(path.read_bytes())
    place, pictures = -1, 0
    while (place := data.find(b"\0\0\1\xb5", place + 1)) >= 0:
        kind = data[place + 4] >> 4
        if kind == 1:  # of the sequence: progressive_sequence
            data[place + 5] &= ~0x08
        if kind == 8:  # of a picture: progressive_frame
            data[place + 8] &= ~0x80 if pictures >= first else 0xFF
            pictures += 1
    path.write_bytes(data)
    return path
