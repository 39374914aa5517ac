"""Where downloaded checkpoints are kept, and what they were when they came."""

import os
import re
import sys
from pathlib import Path

from pwcflow.errors import WeightsError


def cache_folder() -> Path:
    """Return the folder downloads are kept in: PWCFLOW_CACHE, else the platform's usual place.

    Raises:
        WeightsError: it is in a home folder, and that is unknown.
    """
    folder = os.environ.get("PWCFLOW_CACHE") or _platform_cache()
    expanded = os.path.expanduser(folder)  # noqa: PTH111 - leaves an unknown home be
    if expanded.startswith("~"):
        raise WeightsError(
            f"cannot keep weights in the cache {folder}: this home folder is unknown; "
            "set PWCFLOW_CACHE to a folder with room that can be written"
        )
    return Path(expanded)


def checksum_file(path: Path) -> Path:
    """Return the file that keeps the SHA-256 of a download, as `sha256sum --check` reads it."""
    return path.with_name(f"{path.name}.sha256")


def sha256_when_downloaded(path: Path) -> str:
    """Return the SHA-256 that a file had when it was downloaded; empty if that was not kept."""
    try:
        text = checksum_file(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    kept = re.match("[0-9a-f]{64} ", text)
    return kept[0].strip() if kept else ""


def _platform_cache() -> str:
    if sys.platform == "win32":
        return f"{os.environ.get('LOCALAPPDATA') or '~/AppData/Local'}/pwcflow/Cache"
    if sys.platform == "darwin":
        return "~/Library/Caches/pwcflow"
    return f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/pwcflow"
