"""Flow fields on disk: `read_flow` and `write_flow`, with one small module a format.

A flow is (H, W, 2) float32 in pixels: [..., 0] = u to the right, [..., 1] = v down, from the first
image to the second. Where it is unknown it is NaN, infinite or above 1e9; see `known_pixels`.
"""

from pwcflow.flow_file.checks import Metadata
from pwcflow.flow_file.field import UNKNOWN_ABOVE, Flow, Mask, known_pixels
from pwcflow.flow_file.files import (
    FLOW_SUFFIXES,
    Direction,
    Kind,
    check_flow_suffix,
    check_written,
    is_flow_name,
    kind_of,
    read_flow,
    read_metadata,
    write_flow,
)
from pwcflow.flow_file.pair import files_of_flow

__all__ = [
    "FLOW_SUFFIXES",
    "UNKNOWN_ABOVE",
    "Direction",
    "Flow",
    "Kind",
    "Mask",
    "Metadata",
    "check_flow_suffix",
    "check_written",
    "files_of_flow",
    "is_flow_name",
    "kind_of",
    "known_pixels",
    "read_flow",
    "read_metadata",
    "write_flow",
]
