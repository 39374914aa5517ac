"""`pwcflow.json`: what made the flow files of a folder, and how far it came.

It is what a later run needs to know to go on, and a reader to trust the numbers. There is no time
or duration in it: two runs that make the same flows make the same file.
"""

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pwcflow import __version__
from pwcflow.atomic_file import replacing
from pwcflow.errors import OutputError, VideoError, reason_of
from pwcflow.flow_file import FLOW_SUFFIXES
from pwcflow.runs.flow_files import DEFAULT_SUFFIX, number_of
from pwcflow.runs.record_check import fault_of
from pwcflow.video.find import files_of
from pwcflow.weights import Provenance

RECORD_NAME = "pwcflow.json"
_SECONDS_BETWEEN_UPDATES = 5.0

DIRECTION = "forward: from each frame to the next"
UNITS = "pixels, u to the right, v down"

Record: TypeAlias = Mapping[str, Any]
"""What a `pwcflow.json` holds: fields may be missing, but are of the type that `is_record` asks."""


class Maker(Protocol):
    """What computes flows, as far as it decides whether an earlier run may be gone on with."""

    @property
    def weights(self) -> Provenance:
        """What they are."""

    @property
    def precision(self) -> str:
        """`fp32`, `fp16` or `bf16`."""

    @property
    def network_scale(self) -> float:
        """Factor by which frames are resized for the network."""


@dataclass(frozen=True)
class KnownMaker:
    """A `Maker` that is known without loading it."""

    weights: Provenance
    precision: str
    network_scale: float


_SIZE_RULE = (
    "resized bilinearly to network_scale times each axis, up to the next multiple of 64; u and v "
    "scaled back to these pixels"
)


def input_of(video: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies a video file or a folder of frames.

    The fingerprint is of names, sizes and times of change: a file of many gigabytes is not read.
    A camera and standard input have none, as they never show the same again.

    Args:
        video: the file or folder.
        settings: what is taken of it, such as the first frame; empty for all of it.

    Raises:
        VideoError: it is not there, or cannot be read.
    """
    facts = {"path": str(video.absolute()), "settings": dict(settings)}
    try:
        files = files_of(video)
        if files is None:
            return {**facts, "path": str(video), "fingerprint": None}
        states = [(os.fsencode(file.name).hex(), file.stat()) for file in files]
    except FileNotFoundError as error:
        raise VideoError(f"there is no file {video}; check the name and the folder") from error
    except OSError as error:
        raise VideoError(
            f"cannot read {video}: {reason_of(error)}; check it and its permissions"
        ) from error
    digest = hashlib.sha256()
    for name, state in states:
        digest.update(f"{name} {state.st_size} {state.st_mtime_ns}\n".encode())
    total = sum(state.st_size for _, state in states)
    return {**facts, "files": len(files), "bytes": total, "fingerprint": digest.hexdigest()}


def read_record(folder: Path) -> Record | None:
    """Return what the `pwcflow.json` of a folder holds; None when there is none, or a damaged one.

    Raises:
        OutputError: it is there and cannot be read.
    """
    found = record_or_fault(folder)
    return None if isinstance(found, str) else found


def record_or_fault(folder: Path) -> Record | str:
    """Return what the `pwcflow.json` of a folder holds, or what is wrong with it: "is missing".

    Raises:
        OutputError: it is there and cannot be read.
    """
    path = folder / RECORD_NAME
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
            raise OutputError(
                f"cannot read {path}, of an earlier run: it is not a regular file; move it out of "
                f"{folder}, or choose another folder"
            )
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        raise OutputError(
            f"cannot read {path}, of an earlier run: {reason_of(error)}; check its permissions, or "
            "choose another folder"
        ) from error
    except (ValueError, RecursionError):  # lists in lists in lists
        return "is damaged (it is not JSON)"
    fault = fault_of(record)
    return f"is damaged ({fault})" if fault else record


def recorded_suffix(record: Record | None) -> str:
    """Return that of the flow files that a record, or none, is about."""
    suffix = record.get("suffix") if record else None
    return suffix if suffix in FLOW_SUFFIXES else DEFAULT_SUFFIX


def recorded_network_scale(record: Record) -> float:
    """Return that at which the flows of a record were found: 1 before there was a choice."""
    scale: float = record.get("network_scale", 1.0)
    return scale


ReadRecord: TypeAlias = Callable[[Path], Record | None]
"""`read_record`, or what `remembering_record` returns."""


def remembering_record() -> ReadRecord:
    """Return a `read_record` that keeps the last one: it is as long as its folder has flows."""
    return lru_cache(maxsize=1)(read_record)


def provenance_of_flow(path: Path, read: ReadRecord = read_record) -> dict[str, Any]:
    """Return what the record beside a flow file of a run tells of this one; nothing without one."""
    try:
        record = read(path.parent)
    except OutputError:
        return {}
    number = number_of(path)
    if record is None or number is None or path.suffix != recorded_suffix(record):
        return {}
    if number >= record.get("flows", 0):
        return {}
    facts: dict[str, Any] = {"pwcflow": record.get("pwcflow")}
    for name, every in (("frames", "frame_numbers"), ("timestamps_s", "timestamps_s")):
        values = record.get(every) or ()
        if len(values) > number + 1:
            facts[name] = values[number : number + 2]
    names = ("direction", "units", "precision", "network_scale", "device")
    facts |= {name: record.get(name) for name in names}
    facts |= {"input": record.get("input", {}).get("path"), "weights": record.get("weights", {})}
    return {name: value for name, value in facts.items() if value is not None}


def difference(record: Record, video: Record, maker: Maker | None) -> str | None:
    """Return how an earlier run differs from one that is to come; None when it may go on.

    The device may differ: its last bits do not matter to whoever moves to another machine.

    Args:
        record: the earlier run's.
        video: the input of the one to come, from `input_of`.
        maker: what is to compute it; when None, only the inputs are compared.
    """
    before = record.get("input", {})
    if "path" not in before:
        return f"of an input that {RECORD_NAME} does not name"
    settings = before.get("settings", {})
    if settings != video["settings"]:
        return f"with {_shown(settings)}, now with {_shown(video['settings'])}"
    if video["fingerprint"] is None:
        return f"already, and {video['path']} cannot be gone on with"
    if before.get("fingerprint") != video["fingerprint"]:
        if before.get("path") == video["path"]:
            return f"of {before.get('path')} before it changed"
        return f"of another input, {before.get('path')}"
    if maker is None:
        return None
    weights = record.get("weights", {})
    if weights.get("sha256") != maker.weights.sha256:
        return f"with the weights {weights.get('name')}, now {maker.weights.name}" + (
            f" of SHA-256 {str(weights.get('sha256'))[:12]}, now {maker.weights.sha256[:12]}"
            if weights.get("name") == maker.weights.name
            else ""
        )
    if record.get("precision") != maker.precision:
        return f"in {record.get('precision')}, now {maker.precision}"
    scale = recorded_network_scale(record)
    if scale != maker.network_scale:
        return f"at the network scale {scale:.12g}, now {maker.network_scale:.12g}"
    return None


@dataclass
class RunRecord:
    """The record of the run that is going on."""

    folder: Path
    """Where it is written."""
    video: Record
    """From `input_of`."""
    weights: str
    weights_sha256: str
    precision: str
    network_scale: float
    devices: list[str]
    """Those that computed some of the flows."""
    height: int
    width: int
    suffix: str = DEFAULT_SUFFIX
    viz: dict[str, Any] | None = None
    """The colour video, of which the scale is known in the end."""
    source: dict[str, Any] | None = None
    """What read the frames, and how they were selected and resized; known in the end."""
    numbers: list[int] | None = None
    """Those of the frames, counted in the source; known in the end."""
    timestamps: list[float] | None = None
    """Those of the frames in seconds, when the source has them; known in the end."""
    flows: int = 0
    complete: bool = False
    _due: float = 0.0

    def write_now_and_then(self, flows: int) -> None:
        """Write it if that is some seconds ago."""
        self.flows = flows
        if time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Put it on disk, whole.

        Raises:
            OutputError: the disk is full or does not take it.
        """
        lines = (f"{json.dumps(name)}: {json.dumps(it)}" for name, it in self._content().items())
        text = "{\n " + ",\n ".join(lines) + "\n}\n"
        with replacing(self.folder / RECORD_NAME) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
        self._due = time.monotonic() + _SECONDS_BETWEEN_UPDATES

    def _content(self) -> dict[str, Any]:
        frames = self.flows + 1 if self.flows else 0
        return {
            "pwcflow": __version__,
            "complete": self.complete,
            "flows": self.flows,
            "frames": frames,
            "frame_numbers": None if self.numbers is None else self.numbers[:frames],
            "timestamps_s": None if self.timestamps is None else self.timestamps[:frames],
            "suffix": self.suffix,
            "direction": DIRECTION,
            "units": UNITS,
            "width": self.width,
            "height": self.height,
            "size_rule": _SIZE_RULE,
            "input": dict(self.video),
            "reading": self.source,
            "weights": {"name": self.weights, "sha256": self.weights_sha256},
            "precision": self.precision,
            "network_scale": self.network_scale,
            "device": ", ".join(self.devices),
            "viz": self.viz,
        }


def _shown(settings: Record) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "all frames"
