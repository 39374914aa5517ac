"""What a picture is made of: a flow, and what belongs to it."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pwcflow.color.painting import Paint, flow_to_color
from pwcflow.errors import ImageError
from pwcflow.flow_file import Flow
from pwcflow.image_file import Image, eight_bits

Picture = npt.NDArray[np.uint8]
"""(H, W, 3) uint8 RGB."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A flow from a first frame to a second one, all of one size, and what is known beside it."""

    flow: Flow
    """(H, W, 2) float32, in pixels."""
    frame: Image | None = None
    """The first frame, (H, W, 3) RGB: uint8, uint16, or float from 0 to 1."""
    second: Image | None = None
    """The second frame, alike."""
    truth: Flow | None = None
    """The true flow."""
    backward: Flow | None = None
    """The flow from the second frame back to the first."""
    paint: Paint = flow_to_color
    """What gives the flow its colours, for the styles that show those alone."""

    def check(self) -> None:
        """Raise `ImageError` if what there is differs in size."""
        height, width = self.flow.shape[:2]
        for name in PARTS:
            value = getattr(self, name)
            if value is not None and value.shape[:2] != (height, width):
                names = {"frame": "the first frame", "second": "the second frame",
                         "truth": "the true flow", "backward": "the backward flow"}  # fmt: skip
                raise ImageError(
                    f"{names[name]} is {value.shape[1]} x {value.shape[0]} pixels, but the "
                    f"flow is {width} x {height}: give the one that belongs to it"
                )

    def first_picture(self) -> Picture:
        """Return the first frame in 8 bits."""
        assert self.frame is not None, "a style says which frames it needs"
        return eight_bits(self.frame)

    def second_picture(self) -> Picture:
        """Return the second frame in 8 bits."""
        assert self.second is not None, "a style says which frames it needs"
        return eight_bits(self.second)


PARTS = tuple(field.name for field in fields(Scene) if field.name not in ("flow", "paint"))
"""The names of what a scene may hold beside its flow."""
FRAMES = "frame", "second"
"""Those of them that are frames."""
