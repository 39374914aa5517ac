"""Reading the tensors of a checkpoint file, whatever wrote it, without running any of its code.

The format is told by the file's first bytes, not by its name: people rename checkpoints, and
servers answer with a page where a file was asked for.
"""

import argparse
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from pwcflow.errors import WeightsError, reason_of

_HEAD_BYTES = 64
_ZIP_MAGIC = b"PK\x03\x04"
_LEGACY_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""How every file of torch.save before PyTorch 1.6 begins: its magic number, pickled."""
_PICKLE_MAGIC = b"\x80"
_LFS_MAGIC = b"version https://git-lfs"
_WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Where training programs put the network among their other things."""
_HARMLESS_TYPES: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,
    (dict, "pytorch_lightning.utilities.parsing.AttributeDict"),
    (dict, "lightning.pytorch.utilities.parsing.AttributeDict"),
    (PurePosixPath, "pathlib.PosixPath"),
    (PureWindowsPath, "pathlib.WindowsPath"),
]
"""Types of training options beside the tensors: they hold values and run nothing when loaded."""


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint by the names in the file, on the CPU.

    Args:
        path: a file of torch.save, of either format, or a safetensors file.

    Raises:
        WeightsError: the file is missing, damaged, not a checkpoint, or holds Python objects that
            could run code when loaded.
    """
    head = _read_head(path)
    if head.startswith(_ZIP_MAGIC):
        _check_archive(path)
        content = _torch_load(path)
    elif head.startswith(_LEGACY_MAGIC):
        content = _torch_load(path)
    elif head[8:9] == b"{" or path.suffix == ".safetensors":
        content = _load_safetensors(path)
    elif _LEGACY_MAGIC.startswith(head) or _ZIP_MAGIC.startswith(head):
        raise _damaged(path, f"it ends after {len(head)} bytes")
    elif head.startswith(_PICKLE_MAGIC):
        raise _not_a_checkpoint(path, "it is a Python pickle, but not one that torch.save wrote")
    else:
        raise _not_a_checkpoint(path, "its first bytes are of no format known")
    return _network_in(content, path)


def is_web_page(head: bytes) -> bool:
    """Return whether data that begins like this is HTML or XML."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")


def _read_head(path: Path) -> bytes:
    """Return the first bytes of a file, having refused what is plainly no checkpoint."""
    try:
        if path.is_dir():
            raise WeightsError(f"{path} is a folder, not a checkpoint; give the file in it")
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise WeightsError(f"{path} does not exist; check the path of the weights") from None
    except OSError as error:
        raise WeightsError(
            f"{path} cannot be read: {reason_of(error)}; check the path and its permissions"
        ) from error
    if not head:
        raise WeightsError(f"{path} is empty; get the checkpoint again")
    if is_web_page(head):
        raise _not_a_checkpoint(path, "it is a web page, so its link led to a page about it")
    if head.startswith(_LFS_MAGIC):
        raise _not_a_checkpoint(path, "it only points to one in Git LFS; run: git lfs pull")
    return head


def _check_archive(path: Path) -> None:
    """Refuse a ZIP file that torch.save did not write, or that has lost its end, with its table.

    torch.save compresses nothing, so whatever would grow when read is not its work.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
        size = path.stat().st_size
    except MemoryError:
        raise
    except Exception as error:  # zipfile raises nearly anything for broken bytes
        raise _damaged(path, "its end is missing or broken") from error
    names = [PurePosixPath(entry.filename).name for entry in entries]
    if "constants.pkl" in names:
        raise _not_a_checkpoint(path, "it is a TorchScript program; save its state_dict instead")
    if "data.pkl" not in names:
        raise _not_a_checkpoint(path, "it is a ZIP archive of other files; unpack it first")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise _not_a_checkpoint(path, "it is compressed, which torch.save never does")
    if sum(entry.file_size for entry in entries) > size:
        raise _damaged(path, "its parts are larger than the whole")


def _torch_load(path: Path) -> object:
    """Return what torch.save wrote, if it holds nothing but tensors and plain values."""
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(_HARMLESS_TYPES):
            warnings.simplefilter("ignore")  # about the pickle's age; the outcome is checked here
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if culprit := re.search(r"GLOBAL ([\w.]+)", str(error)):
            raise WeightsError(
                f"{path} holds Python objects beside its tensors ({culprit[1]}), which could run "
                "code when loaded, so it is not loaded; save the network's state_dict alone"
            ) from error
        raise _damaged(path, "its list of tensors cannot be read") from error
    except MemoryError:
        raise
    except Exception as error:  # torch raises nearly anything for broken bytes
        raise _damaged(path, "its data end early or are broken") from error


def _load_safetensors(path: Path) -> object:
    try:
        return load(path.read_bytes())  # `load_file` takes no name that is not UTF-8
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise _damaged(path, f"safetensors says: {error}".splitlines()[0]) from error


def _network_in(content: object, path: Path) -> dict[str, Tensor]:
    """Return the tensors in what a file holds, taken out of what training wrapped round them."""
    for _ in _WRAPPERS:  # not until there is none: a dictionary can hold itself
        if isinstance(content, Mapping):
            inner = (content.get(key) for key in _WRAPPERS)
            content = next((value for value in inner if isinstance(value, Mapping)), content)
    if not isinstance(content, Mapping) or not content:
        raise _not_a_checkpoint(path, f"it holds {_described(content)}, not tensors by name")
    for key, value in content.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            raise _not_a_checkpoint(
                path, f"under '{key}' it holds {_described(value)}, not a tensor"
            )
    return dict(content)


def _described(value: object) -> str:
    if isinstance(value, Mapping) and not value:
        return "nothing"
    return f"a value of type {type(value).__name__}"


def _damaged(path: Path, reason: str) -> WeightsError:
    return WeightsError(f"{path} is damaged: {reason}; get the checkpoint again")


def _not_a_checkpoint(path: Path, reason: str) -> WeightsError:
    return WeightsError(
        f"{path} is not a checkpoint: {reason}; give a .pth, .pt, .ckpt, .pytorch "
        "or .safetensors file of PWC-Net"
    )
