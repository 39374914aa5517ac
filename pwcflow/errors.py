"""Errors a user can cause; each message says what is wrong, why, and what to do.

A programmer's mistake (a wrong shape or type handed to the Python API) is a `ValueError` or
`TypeError` instead.
"""

import re

# How PyTorch's allocators and libraries say it: on a GPU, on a CPU, on Windows, in cuDNN.
_OUT_OF_MEMORY = re.compile("out of memory|allocate memory|not enough memory|alloc_failed", re.I)


class PwcFlowError(Exception):
    """A user's input or environment cannot be used; `str(error)` is one line for a person."""


class ImageError(PwcFlowError):
    """An image file cannot be read, or two images do not belong together."""


class FlowFileError(PwcFlowError):
    """A flow file is damaged, or its format is unknown."""


class VideoError(PwcFlowError):
    """A video or a folder of frames cannot be read, or stops before its end."""


class WeightsError(PwcFlowError):
    """A checkpoint is missing, damaged, of another network, or cannot be downloaded."""


class DeviceError(PwcFlowError):
    """The requested device does not exist here."""


class OutputError(PwcFlowError):
    """A result cannot be written."""


def reason_of(error: OSError) -> str:
    """Return why the system refused, in its words, to stand inside a sentence."""
    return (error.strerror or str(error)).lower()


def memory_shortage(error: MemoryError | RuntimeError) -> str | None:
    """Return what to tell the user when memory ran out, in one line; None for another error."""
    if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(str(error)):
        return None
    if "cuda" in str(error).lower():
        return "the GPU has not enough memory for this size; use smaller images or --device cpu"
    return "there is not enough memory for this size; use smaller images"
