"""Turns what a user calls a device into one that exists here."""

import re

import torch

from pwcflow.errors import DeviceError


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
