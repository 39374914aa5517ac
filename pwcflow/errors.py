"""Errors a user can cause; each message says what is wrong, why, and what to do.

A programmer's mistake (a wrong shape or type handed to the Python API) is a `ValueError` or
`TypeError` instead.
"""


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
