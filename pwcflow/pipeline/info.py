"""What a flow file holds: needs no torch."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from pwcflow.flow_file import Direction, kind_of, known_pixels, pair, read_flow, read_metadata
from pwcflow.runs.provenance import ReadRecord, provenance_of_flow, read_record

_HASH = re.compile(r"[0-9a-f]{64}")
_DIGITS_OF_A_HASH = 8


def describe(
    path: Path, *, bound: float | None = None, read: ReadRecord = read_record
) -> dict[str, Any]:
    """Return the kind, size and range of a flow file, for a person or `--json`.

    Args:
        path: the flow file, or the u half of a pair of 8-bit pictures.
        bound: the motion in pixels that is white in a pair which does not record it.
        read: reads the record beside the flow; of many flows in a folder it need not do so for
            each.

    Returns:
        "file", "kind", "bytes", "width" and "height" in pixels, "unit" (always "px"), "directions"
        (of an .exr; the figures are of the first), "valid" (the share of pixels that are known, 0
        to 1), "u", "v" and "magnitude" (each "min" and "max", and of the last the "mean", over the
        known pixels; None where there are none), "bound" of a pair in pixels, else None, and
        "metadata": what the file tells of itself, or the record of a run beside it.

    Raises:
        FlowFileError: the file cannot be read.
    """
    kind = kind_of(path)
    only_back = kind.directions == ("backward",)
    direction: Direction = "backward" if only_back else "forward"
    flow = read_flow(path, bound=bound, direction=direction)
    is_pair = kind.name == pair.KIND
    files = [path, pair.other_half(path)] if is_pair else [path]
    known = known_pixels(flow)
    vectors = flow[known].astype(np.float64)
    return {
        "file": str(path),
        "kind": kind.name,
        "bytes": sum(file.stat().st_size for file in files),
        "width": flow.shape[1],
        "height": flow.shape[0],
        "unit": "px",
        "directions": list(kind.directions),
        "valid": float(known.mean()),
        "u": _range(vectors[:, 0]),
        "v": _range(vectors[:, 1]),
        "magnitude": _range(np.hypot(*vectors.T), mean=True),
        "bound": (kind.bound or bound) if is_pair else None,
        "metadata": read_metadata(path) or provenance_of_flow(path, read),
    }


def sentence_of(told: dict[str, Any]) -> str:
    """Return a line for a person from what `describe` returned."""
    parts = [told["kind"], f"{told['width']} x {told['height']} pixels", f"{told['bytes']} bytes"]
    parts.append(f"{_percent(told['valid'])} valid")
    if told["magnitude"]:
        parts += [
            f"{name} {told[name]['min']:.6g} to {told[name]['max']:.6g} px" for name in ("u", "v")
        ]
        least, mean, most = (told["magnitude"][name] for name in ("min", "mean", "max"))
        parts.append(f"magnitude {least:.6g} to {most:.6g} px, on average {mean:.6g} px")
    if "backward" in told["directions"]:
        parts.append(f"directions {' and '.join(told['directions'])}")
    if told["bound"]:
        parts.append(f"bound {told['bound']:g} px")
    parts += [f"{name} {_text(value)}" for name, value in told["metadata"].items()]
    return f"{told['file']}: {', '.join(parts)}"


def _range(values: "np.ndarray[Any, np.dtype[np.float64]]", *, mean: bool = False) -> Any:
    if not values.size:
        return None
    told = {"min": float(values.min()), "max": float(values.max())}
    return {**told, "mean": float(values.mean())} if mean else told


def _percent(share: float) -> str:
    """Return a share of which all and none are told only where that is exact."""
    rounded = f"{100 * share:.2f}"
    if rounded in ("100.00", "0.00"):
        rounded = {1.0: "100", 0.0: "0"}.get(share, f"{100 * share:.6f}")
    return f"{rounded} %"


def _text(value: Any) -> str:
    """Return a value of the metadata as short as a person wants it; `--json` has all of it."""
    match value:
        case str() if _HASH.fullmatch(value):
            return value[:_DIGITS_OF_A_HASH]
        case str():
            return value
        case dict():
            return " ".join(map(_text, value.values()))
        case [int() | float() as first, int() | float() as last]:
            return f"{first} to {last}"
    return json.dumps(value)
