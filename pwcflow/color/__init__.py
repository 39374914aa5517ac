"""Flow as colours: `flow_to_color`, its `ColorCode` and palettes, and the scales of pictures."""

from pwcflow.color.code import SMALLEST_SCALE_PX, ColorCode
from pwcflow.color.painting import drawable_scale, flow_over_image, flow_to_color
from pwcflow.color.palette import color_wheel
from pwcflow.color.vectors import largest_magnitude, row_blocks

__all__ = [
    "SMALLEST_SCALE_PX",
    "ColorCode",
    "color_wheel",
    "drawable_scale",
    "flow_over_image",
    "flow_to_color",
    "largest_magnitude",
    "row_blocks",
]
