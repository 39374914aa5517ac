"""A progress bar for whoever watches."""

import sys

from tqdm import tqdm


def progress_bar(total: int, progress: bool, unit: str, label: str = "") -> "tqdm[None]":
    """Return a bar on stderr; `total` 0 is an unknown end. Not shown where no one watches."""
    shown = progress and sys.stderr is not None
    return tqdm(total=total or None, unit=unit, desc=label or None, disable=None if shown else True)
