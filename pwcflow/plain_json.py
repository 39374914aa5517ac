"""JSON that any parser reads: Python's own would hold NaN and infinities, which JSON has not."""

import json
import math
from typing import Any


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value of dicts, lists and plain values as JSON; NaN and infinities become null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(it) for name, it in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(it) for it in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
