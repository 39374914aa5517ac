"""Where downloaded checkpoints are kept."""

import os
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


def _platform_cache() -> str:
    if sys.platform == "win32":
        return f"{os.environ.get('LOCALAPPDATA') or '~/AppData/Local'}/pwcflow/Cache"
    if sys.platform == "darwin":
        return "~/Library/Caches/pwcflow"
    return f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/pwcflow"
