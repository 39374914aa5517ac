"""What is made of the flows of a video, and where it goes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pwcflow.color.scale import MaxFlow
from pwcflow.runs.flow_files import DEFAULT_SUFFIX
from pwcflow.visualization import DEFAULT_LOOK, Look, scale_settings

MADE_OF_VIZ = ("max_flow_px", "fps", "max_flow_px_of_pictures")
"""What the record of a colour video holds beside `VideoOutputs.viz_settings`: how it came out."""


@dataclass(frozen=True, kw_only=True)
class VideoOutputs:
    """What becomes of the flows of a video."""

    folder: Path | None = None
    """Where the flow files go, `000000.flo` and so on; made with its parents where missing."""
    suffix: str = DEFAULT_SUFFIX
    """That of the flow files, which is their format."""
    overwrite: bool = False
    """Whether the numbered flow files that the folder holds already give way to the new ones."""
    viz: Path | None = None
    """The colour video."""
    max_flow: MaxFlow | None = None
    """The magnitude shown fully saturated, in pixels, or how it is found; see `RunningScale`."""
    look: Look = DEFAULT_LOOK
    """The style of the colour video, and what belongs to it."""
    fps: float | None = None
    """Frames per second of the colour video; the source's own when None."""
    own_folders: bool = False
    """Whether `folder`, and that of `viz`, are for this video alone and called after it."""

    def __str__(self) -> str:
        """Return their names, for a sentence."""
        return " and ".join(str(path) for path in (self.folder, self.viz) if path)

    def folders(self) -> list[Path]:
        """Return the folders that are for one process at a time."""
        folders = [self.folder] if self.folder else []
        if self.own_folders and self.viz and self.viz.parent != self.folder:
            folders.append(self.viz.parent)
        return folders

    def record_folder(self) -> Path | None:
        """Return the folder that has the record of what made the flows, if there is one."""
        return next(iter(self.folders()), None)

    def viz_settings(self) -> dict[str, Any] | None:
        """Return what the colour video is made by, for the record."""
        if self.viz is None:
            return None
        rules = {None: "running", "sequence": "running", "percentile": "running percentile"}
        rule = self.max_flow
        scale = rules.get(rule, rule) if isinstance(rule, str | None) else "fixed"
        asked = None if isinstance(rule, str) else rule
        folder = self.folder or self.viz.parent  # so that all of it may be moved
        try:
            name = os.path.relpath(self.viz, folder)
        except ValueError:  # on two drives
            name = str(self.viz.absolute())
        settings = scale_settings(self.look, scale or "")
        return {"file": name, **settings, "asked_px": asked, "asked_fps": self.fps}
