"""Turns what a user calls a device or a precision into one that exists here."""

import logging
import re
from functools import cache

import torch

from pwcflow.errors import DeviceError

logger = logging.getLogger(__name__)


def find_device(name: str) -> torch.device:
    """Return the device called `auto`, `cpu`, `cuda` or `cuda:INDEX`.

    `auto` is the current CUDA device where there is one, else the CPU.

    Raises:
        DeviceError: another name, or a CUDA device that is not here.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name, re.ASCII):
        raise DeviceError(f"device {name!r} is unknown; use auto, cpu, cuda or cuda:INDEX")
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = torch.version.cuda is not None
        why = "none is found" if built else "this PyTorch is built without CUDA"
        raise DeviceError(f"device {name!r} needs an NVIDIA GPU, but {why}; use --device cpu")
    count = torch.cuda.device_count()
    index = int(name[5:]) if name.startswith("cuda:") else torch.cuda.current_device()
    if index >= count:
        there = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise DeviceError(f"device {name!r} does not exist here; there is {there}")
    return torch.device("cuda", index)


def find_precision(name: str, device: torch.device) -> str:
    """Return the precision called `auto` on a device, or `name` itself.

    `auto` is the fastest that the device computes in hardware: float16 on a GPU, bfloat16 on a CPU
    that has it, else float32.
    """
    if name != "auto":
        return name
    if device.type == "cuda":
        return "fp16"
    # Without such hardware PyTorch computes bfloat16 as float32, and converts all the time.
    in_hardware = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if in_hardware else "fp32"


def tell_if_slow(precision: str, device: torch.device) -> None:
    """Log a warning, the first time only, of a precision that a device computes in software.

    Args:
        precision: from `find_precision`.
        device: the device.
    """
    if precision == "fp16" and device.type == "cpu":
        _say_slow()


@cache  # one sentence, however many estimators there are
def _say_slow() -> None:
    logger.warning(
        "float16 is far slower than float32 on most CPUs, which lack hardware for it; "
        "--precision fp32 or auto is faster"
    )
