"""The state of a run in a file, and the weights that come out of it.

Tensors have the names and shapes of `PwcNet` there, whatever the device computed with: a run may go
on elsewhere, and `load_weights` takes the file for its averaged weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile, ZipFile

import torch
from safetensors.torch import save
from torch import Tensor

from pwcflow.aligned import align_state, unalign_state
from pwcflow.errors import WeightsError, reason_of
from pwcflow.locks import replacing_alone
from pwcflow.training.optimizer import COUNTERS, SLOTS, State
from pwcflow.training.settings import ImageCounts
from pwcflow.weights.layouts import expected_shapes

FORMAT = "pwcflow training 4"
"""What the file says it is; a change of its content changes the number."""
_READABLE = ("pwcflow training 1", "pwcflow training 2", "pwcflow training 3", FORMAT)
"""In 1 there were no weights to keep a share of, and no errors; before 3 no counts of images and no
motion; before 4 it was not told what a run was begun with."""

EXPORTED = torch.float16
"""The dtype of the weights that come out of a run."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs in order to go on as if it had never stopped."""

    optimizer: State
    """Of `FlatAdamW`, for an `AlignedPwcNet`."""
    step: int
    """Steps done."""
    pairs: int
    """Pairs seen, by all devices."""
    seconds: float
    """How long the run has lasted."""
    settings: dict[str, Any]
    """Of the run that wrote it, as plain values."""
    kept: dict[str, Tensor] | None = None
    """Weights of an `AlignedPwcNet` that the run keeps a share of, if it does."""
    errors_before: dict[str, float] = field(default_factory=dict)
    """Mean end-point error in pixels before the first step, by validation set of these images."""
    images: ImageCounts = field(default_factory=dict)
    """Those that the pairs were made of."""
    begun_with: dict[str, str] | None = None
    """The `name` and the `sha256` of the initial weights, of which the settings do not tell any
    more once a run went on without naming them; empty for a run from nothing, None if unknown."""


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, which appears whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    slots = {slot: unalign_state(checkpoint.optimizer[slot]) for slot in SLOTS}
    content = {
        "format": FORMAT,
        "state_dict": slots.pop("average"),  # a name that `load_weights` looks for
        "slots": slots,
        "counters": checkpoint.optimizer["counters"],
        "step": checkpoint.step,
        "pairs": checkpoint.pairs,
        "seconds": checkpoint.seconds,
        "settings": checkpoint.settings,
        # Called so since once only a share of the initial weights could be kept.
        "initial": None if checkpoint.kept is None else unalign_state(checkpoint.kept),
        "errors_before": checkpoint.errors_before,
        "images": checkpoint.images,
        "begun_with": checkpoint.begun_with,
    }
    data = BytesIO()  # a full disk under torch.save is an error about positions in the file
    torch.save(content, data)
    with replacing_alone(path) as temporary:
        temporary.write_bytes(data.getbuffer())


def load_checkpoint(path: Path) -> Checkpoint:
    """Read what `save_checkpoint` wrote.

    Raises:
        WeightsError: the file is missing, damaged, or something else, or may not be read.
    """
    if not path.is_file():
        raise WeightsError(f"there is no checkpoint {path} to go on from; start without resuming")
    try:
        data = BytesIO(path.read_bytes())
    except OSError as error:
        raise WeightsError(
            f"{path} cannot be read: {reason_of(error)}; check its permissions"
        ) from error
    try:
        with ZipFile(data) as archive:  # whose checksums torch.load does not look at
            damaged = archive.testzip()
        if damaged:
            raise BadZipFile(damaged)
        data.seek(0)
        content = torch.load(data, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # torch raises nearly anything for broken bytes
        raise WeightsError(
            f"{path} is damaged: its data cannot be read; start in another folder, from the "
            "weights beside it or others"
        ) from error
    if not isinstance(content, dict) or content.get("format") not in _READABLE:
        raise WeightsError(
            f"{path} is not the state of a training run; to start from its weights, give it as "
            "initial weights"
        )
    slots = {"average": content["state_dict"], **content["slots"]}
    kept = content.get("initial")
    checked = slots if kept is None else {**slots, "kept weights": kept}
    _check(path, checked, content["counters"])
    return Checkpoint(
        optimizer={slot: align_state(slots[slot]) for slot in SLOTS}
        | {"counters": content["counters"]},
        step=content["step"],
        pairs=content["pairs"],
        seconds=content["seconds"],
        settings=content["settings"],
        kept=None if kept is None else align_state(kept),
        errors_before=content.get("errors_before", {}),
        images=content.get("images", {}),
        begun_with=content.get("begun_with"),
    )


def peek(path: Path, name: Literal["settings", "begun_with"]) -> dict[str, Any] | None:
    """Return one of the tables of a checkpoint, its tensors unread; None if it has none.

    Nor has a file that is missing or damaged: `load_checkpoint` tells of that.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        table = content.get(name)
    except Exception:  # torch raises nearly anything for broken bytes
        return None
    return table if isinstance(table, dict) else None


def export_weights(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write weights of an `AlignedPwcNet` as a float16 safetensors file for `PwcNet`.

    Raises:
        OutputError: the file cannot be written.
    """
    with replacing_alone(path) as temporary:
        temporary.write_bytes(exported(weights))  # `save_file` would let nobody else read it


def exported(weights: Mapping[str, Tensor]) -> bytes:
    """Return the content of the file that `export_weights` writes."""
    plain = unalign_state(weights)
    return save({name: plain[name].to(EXPORTED).contiguous() for name in expected_shapes()})


def are_finite(weights: Mapping[str, Tensor]) -> bool:
    """Return whether weights are finite as `export_weights` writes them."""
    return all(bool(tensor.to(EXPORTED).isfinite().all()) for tensor in weights.values())


def _check(path: Path, slots: Mapping[str, Mapping[str, Tensor]], counters: object) -> None:
    expected = expected_shapes()
    for slot, tensors in slots.items():
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        if shapes != expected:
            raise WeightsError(f"{path} does not fit the network: its {slot} have other shapes")
    assert isinstance(counters, dict), f"{FORMAT} has them"
    assert set(counters) == set(COUNTERS), f"{FORMAT} has these"
