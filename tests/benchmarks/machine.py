"""What a figure was measured on, to stand beside it."""

import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch


def described() -> dict[str, Any]:
    """Return the card, the versions, the date and the commit (PWCFLOW_COMMIT without git)."""
    return {
        "card": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "torch": torch.__version__,
        "cudnn": _cudnn_version(),
        "cupy": _cupy_version(),
        "python": platform.python_version(),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": os.environ.get("PWCFLOW_COMMIT")
        or _output("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"),
    }


def _cudnn_version() -> str | None:
    number = torch.backends.cudnn.version()
    if number is None:
        return None
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _cupy_version() -> str | None:
    try:
        import cupy
    except ImportError:
        return None
    return str(cupy.__version__)


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.splitlines()[0].strip()
