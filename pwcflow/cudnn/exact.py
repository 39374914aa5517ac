"""Makes cuDNN's convolutions repeatable and exact, for as long as a block runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_lock = threading.Lock()
_inside = 0
_before: list[tuple[Any, str, Any]] = []


@contextmanager
def exact_convolutions() -> Iterator[None]:
    """Keep cuDNN from rounding float32 to TF32 and from summing in a changing order in here.

    A GPU shall agree with a CPU, and a result with itself. PyTorch has no switches for it of a
    narrower reach than the process. Blocks may overlap in threads: the first one in sets them, the
    last one out puts back what the program around us had chosen.
    """
    global _inside
    with _lock:
        if _inside == 0:
            for owner, name, value in _switches():
                _before.append((owner, name, getattr(owner, name)))
                setattr(owner, name, value)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            while _inside == 0 and _before:
                setattr(*_before.pop())


def _switches() -> list[tuple[Any, str, Any]]:
    """Return each switch as its object, its attribute, and the value it shall have.

    PyTorch 2.9 brought a switch for the precision of each operator. A program that uses it makes
    the older one unreadable; one that uses the older must find that again, so it comes first.
    """
    cudnn: Any = torch.backends.cudnn
    repeatable = (cudnn, "deterministic", True)
    try:
        cudnn.allow_tf32  # noqa: B018 - reading it is the question
    except RuntimeError:
        return [repeatable, (cudnn.conv, "fp32_precision", "ieee")]
    return [repeatable, (cudnn, "allow_tf32", False)]
