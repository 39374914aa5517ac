"""What all readers check before they take memory, and how they say it."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file.field import Size

Metadata: TypeAlias = dict[str, Any]
"""Whatever JSON holds, by name: how a flow came about."""

MAX_SIDE = 99999  # the limit in the Middlebury code (flowIO.cpp)
DEFLATE_RATIO = 1032
"""How many bytes one byte can become at most; source: zlib.net, "zlib Technical Details"."""


def size_of(file: BinaryIO) -> int:
    """Return the length of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def cut_short(path: Path, needed: str, size: int) -> FlowFileError:
    """Return the error of a file that ends too early: `needed` tells what is missing."""
    return FlowFileError(f"{path} is cut short: {needed}, but the file has {size}; write it again")


def damaged(path: Path, why: object) -> FlowFileError:
    """Return the error of a file that contradicts itself, or that its decoder rejects."""
    return FlowFileError(f"{path} is damaged: {why}; copy or write it again")


def check_sides(path: Path, width: int, height: int) -> None:
    """Raise unless both sides have 1 to 99999 pixels."""
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise FlowFileError(
            f"{path} is damaged: its header says {width} x {height} pixels, "
            f"and a side has 1 to {MAX_SIDE}; write it again"
        )


def check_size(path: Path, size: Size, expected: Size) -> None:
    """Raise unless the flow in a file is of the expected height and width."""
    if size != expected:
        height, width = size
        raise FlowFileError(
            f"{path} is {width} x {height} pixels, not {expected[1]} x {expected[0]}; use the file "
            "of a flow of that size"
        )


def check_length(path: Path, claim: str, expected: int, size: int) -> None:
    """Raise unless the file has exactly the bytes its header claims; nothing is allocated yet."""
    if size == expected:
        return
    fault = "is cut short" if size < expected else "is too long"
    raise FlowFileError(
        f"{path} {fault}: its header says {claim}, which needs {expected} bytes, "
        f"but the file has {size}; write it again"
    )


def check_deflated(path: Path, claim: str, raw: int, packed: int) -> None:
    """Raise if so few bytes cannot hold, however well compressed, what the header claims."""
    if raw > DEFLATE_RATIO * packed:
        raise damaged(
            path,
            f"its header says {claim}, {raw} bytes, which the {packed} compressed ones cannot hold",
        )


def check_package(path: Path, package: str, extra: str) -> None:
    """Raise `OutputError` if an optional package is not here, or is broken."""
    try:
        import_module(package)
    except ImportError as error:
        raise OutputError(
            f"cannot write {path}: {_how_to_install(package, extra)} ({error})"
        ) from error


def import_package(path: Path, package: str, extra: str) -> Any:
    """Return an optional package, or raise `FlowFileError` with how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise FlowFileError(
            f"{path} cannot be opened: {_how_to_install(package, extra)} ({error})"
        ) from error


def _how_to_install(package: str, extra: str) -> str:
    return f"this needs the package {package}; run: pip install 'pwcflow[{extra}]'"
