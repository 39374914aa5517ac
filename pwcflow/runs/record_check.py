"""Whether what was read from a `pwcflow.json` is what a run writes: it may be edited or damaged."""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

_MOST = 10**7
"""Of frames and of pixels a side: more than there are. See also `flow_files.number_of`."""


def fault_of(value: object) -> str | None:
    """Return why a value read from JSON is no record, of this version or an earlier one.

    What a record of an earlier version lacks may be missing, and what is not known is let be.

    Returns:
        a clause; None for a record.
    """
    if not isinstance(value, dict):
        return "it holds no JSON object"
    misfit = _first_misfit(value, _FIELDS)
    return f"its '{misfit}' is not of the kind that a run writes" if misfit else None


def _first_misfit(
    values: Mapping[str, Any], fields: Mapping[str, Callable[[Any], bool]]
) -> str | None:
    misfits = (name for name, fits in fields.items() if name in values and not fits(values[name]))
    return next(misfits, None)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and abs(value) <= _MOST  # not a bool, which Python counts as one


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_path(value: object) -> bool:
    """Return whether the system can be asked for a file of that name."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _is_rate(value: Any) -> bool:
    return _is_number(value) and 1 / _MOST <= value <= _MOST


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _with(fields: Mapping[str, Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and _first_misfit(value, fields) is None


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "complete": lambda value: isinstance(value, bool),
    "flows": _is_count,
    "frames": _is_count,
    "frame_numbers": _or_none(_list_of(_is_count)),
    "timestamps_s": _or_none(_list_of(_is_number)),
    "suffix": _is_text,
    "width": _is_count,
    "height": _is_count,
    "input": _with({"path": _is_path, "settings": _with({}), "fingerprint": _or_none(_is_text)}),
    "weights": _with({"name": _is_text, "sha256": _is_text}),
    "precision": _is_text,
    "network_scale": _is_number,
    "device": _is_text,
    "viz": _or_none(_with({"fps": _is_rate, "max_flow_px": _or_none(_is_number)})),
}
