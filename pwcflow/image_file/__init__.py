"""Image files of every kind people have, read as the estimator takes them, and written whole."""

from pwcflow.image_file.depth import eight_bits
from pwcflow.image_file.files import (
    IMAGE_SUFFIXES,
    Image,
    check_image_suffix,
    read_image,
    read_pages,
    read_rgba,
    write_image,
)

__all__ = [
    "IMAGE_SUFFIXES",
    "Image",
    "check_image_suffix",
    "eight_bits",
    "read_image",
    "read_pages",
    "read_rgba",
    "write_image",
]
