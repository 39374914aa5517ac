"""The frames of a video, kept until their flow has come."""

from collections import deque
from collections.abc import Iterator

from pwcflow.errors import VideoError
from pwcflow.image_file import Image


class FramesAtHand:
    """Hands frames on to an estimator, and each flow's two frames to whoever shows the flow.

    It holds the frames that the estimator has taken ahead of the flows that it has given.
    """

    def __init__(self, frames: Iterator[Image]) -> None:
        """Hold the frames, none of which is taken yet."""
        self._frames = frames
        self._held: deque[Image] = deque()

    def beyond(self) -> Iterator[Image]:
        """Yield the frames from the last one of the pairs asked for on; the first, if none was."""
        yield from tuple(self._held)
        for frame in self._frames:
            self._held.append(frame)
            yield frame

    def pair(self) -> tuple[Image, Image]:
        """Return the two frames of the next flow, from the first one on.

        Raises:
            VideoError: there are no more frames.
        """
        while len(self._held) < 2:
            frame = next(self._frames, None)
            if frame is None:
                raise VideoError(
                    "the video ends before its flow files do; move those out that are not of it"
                )
            self._held.append(frame)
        return self._held.popleft(), self._held[0]
