"""What figures are measured on: the GPU, the processor, and how many threads use it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

_NAMELESS = ("", "-", "unknown")  # what kernels and lscpu say where they know no name


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What figures were measured on; None for what is not there, or is unknown."""

    device: str
    gpu: str | None
    """Its name; None for figures of a CPU."""
    cpu: str | None
    """The model of the processor, which also feeds a GPU."""
    cpu_threads: int
    """Those of one operation of PyTorch."""
    torch: str


def described(device: torch.device) -> Machine:
    """Return what the figures of a device are measured on."""
    return Machine(
        device=str(device),
        gpu=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        cpu=processor_name(),
        cpu_threads=torch.get_num_threads(),
        torch=str(torch.__version__),
    )


def processor_name() -> str | None:
    """Return the model of the processor, as "Apple M2"; None where the system tells none."""
    try:
        if sys.platform == "win32":
            import winreg

            place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
                return _tidy(str(winreg.QueryValueEx(key, "ProcessorNameString")[0]))
        if sys.platform == "darwin":
            return _tidy(_output("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"))
        # The kernel knows x86 processors by name, lscpu Arm's too.
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        return model_in(cpuinfo) or model_in(_output("lscpu"))
    except OSError:
        return None


def model_in(text: str) -> str | None:
    """Return the first model name in lines of "key : value", as /proc/cpuinfo has them."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() == "model name":
            return _tidy(value)
    return None


def _tidy(name: str) -> str | None:
    words = " ".join(name.split())
    return None if words.lower() in _NAMELESS else words


def _output(*command: str) -> str:
    """Return what a command prints, in English; nothing if it fails."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )
    return done.stdout if done.returncode == 0 else ""
