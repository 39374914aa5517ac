"""What a page is made of, in the order in which it is written: each picture before its flows."""

from collections.abc import Generator
from typing import NamedTuple, TypeAlias

from pwcflow.errors import VideoError
from pwcflow.image_file import Image
from pwcflow.viewer.results import FlowSequence, ShownFlow


class Picture(NamedTuple):
    """A frame."""

    key: str
    """Its name within the page."""
    name: str
    """Where it comes from, for a message."""
    image: Image


class PlacedFlow(NamedTuple):
    """A flow file in a page."""

    place: int
    """Its place among all flows of the page, from 0."""
    flow: ShownFlow
    first: str | None
    """The key of its first picture; None if there is none."""
    second: str | None
    sizes: set[tuple[int, int]]
    """The (width, height) of these two."""


Piece: TypeAlias = Picture | PlacedFlow


def pieces_of(sequences: list[FlowSequence]) -> Generator[Piece, None, None]:
    """Yield pictures and flows, each picture once, and only those that belong to a flow.

    Raises:
        VideoError: the pictures cannot be read, or end before a flow's first one.
    """
    start = 0
    for number, sequence in enumerate(sequences):
        placed = sorted(enumerate(sequence.flows, start), key=lambda item: item[1].frame)
        start += len(placed)
        if sequence.open_pictures is None:
            yield from (PlacedFlow(index, flow, None, None, set()) for index, flow in placed)
            continue
        with sequence.open_pictures() as source:
            wanted = {flow.frame + more for _, flow in placed for more in (0, 1)}
            frames = enumerate(source)
            sizes: dict[int, tuple[int, int]] = {}
            read, ended = 0, False
            for index, flow in placed:
                while read <= flow.frame + 1 and not ended:
                    at, image = next(frames, (read, None))
                    if image is None:
                        ended = True
                        break
                    read = at + 1
                    if at in wanted:
                        sizes[at] = image.shape[1], image.shape[0]
                        yield Picture(f"{number}-{at}", f"frame {at} of {sequence.pictures}", image)
                if flow.frame not in sizes:
                    raise VideoError(
                        f"{sequence.pictures} has {read} frames, so none for {flow.path}, which is "
                        f"the flow from frame {flow.frame} on, counted from 0; give the frames it "
                        "was made of, or --no-frames"
                    )
                pair = [at for at in (flow.frame, flow.frame + 1) if at in sizes]
                keys = [f"{number}-{at}" for at in pair] + [None]
                yield PlacedFlow(index, flow, keys[0], keys[1], {sizes[at] for at in pair})


def check_sizes(placed: PlacedFlow, width: int, height: int) -> None:
    """Raise `VideoError` unless the pictures of a flow show what it does, at whatever scale."""
    for wide, high in placed.sizes:
        # The sides of the smaller of the two were rounded, each by half a pixel at most.
        if abs(wide * height - high * width) > max(wide + high, width + height) / 2:
            raise VideoError(
                f"the frames are {wide} x {high} pixels but {placed.flow.path} is "
                f"{width} x {height}; give the frames it was made of, or --no-frames"
            )
