"""The files that a picture of flow is made of: a flow file, and those that belong to it."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pwcflow.counted import counted
from pwcflow.errors import FlowFileError, ImageError, reason_of
from pwcflow.flow_file import Flow, files_of_flow, is_flow_name, kind_of, read_flow
from pwcflow.image_file import read_image
from pwcflow.video import frames_in
from pwcflow.visualization.scene import Scene


@dataclass(frozen=True, kw_only=True)
class SceneFiles:
    """The files of a `Scene`, or the folders of them."""

    frame: Path | None = None
    second: Path | None = None
    truth: Path | None = None
    backward: Path | None = None

    def given(self) -> dict[str, Path]:
        """Return those that there are, by name."""
        return {name: path for name, path in vars(self).items() if path is not None}

    def files(self) -> list[Path]:
        """Return every file that `read` opens."""
        return [file for path in self.given().values() for file in files_of_flow(path)]

    def only(self, names: Collection[str]) -> "SceneFiles":
        """Return those of these names."""
        return SceneFiles(**{name: path for name, path in self.given().items() if name in names})

    def read(self, flow: Flow, flow_file: Path) -> Scene:
        """Return the scene of a flow, which was read from `flow_file`.

        A file for the flow back that is `flow_file`, or holds both directions, has it as the
        backward one; in any other it is the only one.

        Raises:
            PwcFlowError: a file cannot be read.
        """
        return Scene(
            flow=flow,
            frame=read_image(self.frame) if self.frame else None,
            second=read_image(self.second) if self.second else None,
            truth=read_flow(self.truth) if self.truth else None,
            backward=_read_backward(self.backward, flow_file) if self.backward else None,
        )


def own_parts(flow_file: Path) -> tuple[str, ...]:
    """Return the fields of a `Scene` that a flow file holds itself: `backward` in some .exr.

    Raises:
        FlowFileError: it cannot be read.
    """
    if flow_file.suffix.lower() != ".exr" or not flow_file.is_file():
        return ()
    return ("backward",) if "backward" in kind_of(flow_file).directions else ()


def scenes_of(
    folder: Path,
    flow_files: Sequence[Path],
    beside: SceneFiles,
    without_frames: Collection[Path] = (),
) -> Mapping[Path, SceneFiles]:
    """Return what belongs to each flow file of a folder, by the flow file.

    Args:
        folder: that of the flows.
        flow_files: those in it, at any depth, in natural order.
        beside: folders with the same folders in them. In those of `frame` are the frames of a
            video, one more than there are flows, and in the same order: each flow goes from one to
            the next. `truth` and `backward` hold flows of the same names, with any suffix.
        without_frames: folders of flows whose frames are not to be found.

    Raises:
        ImageError: the frames are not as many.
        FlowFileError: a true or a backward flow is missing.
    """
    found: dict[Path, SceneFiles] = {}
    for parent, paths in by_folder(flow_files).items():
        place = parent.relative_to(folder)
        frames: list[Path | None] = [None] * (len(paths) + 1)
        if beside.frame and parent not in without_frames:
            frames = _frames(beside.frame / place, paths)
        others = {
            name: _alike(root / place, paths)
            for name, root in beside.given().items()
            if name in ("truth", "backward")
        }
        for index, path in enumerate(paths):
            flows = {name: of_these[index] for name, of_these in others.items()}
            found[path] = SceneFiles(frame=frames[index], second=frames[index + 1], **flows)
    return found


def by_folder(flow_files: Iterable[Path]) -> dict[Path, list[Path]]:
    """Return flow files by their folder, in the order in which they come."""
    found: dict[Path, list[Path]] = {}
    for path in flow_files:
        found.setdefault(path.parent, []).append(path)
    return found


def check_count(source: Path, frames: int, what: str, flows: Sequence[Path]) -> None:
    """Raise `ImageError` unless there is one frame more than there are flows, of one folder.

    Args:
        source: where the frames are, a folder or a video.
        frames: how many.
        what: one of them, in a message.
        flows: those between them.
    """
    if frames != len(flows) + 1:
        raise ImageError(
            f"{source} has {counted(frames, what)}, but the {counted(len(flows), 'flow')} of "
            f"{flows[0].parent} need {len(flows) + 1}; name just the frames that they were made of"
        )


def _read_backward(path: Path, flow_file: Path) -> Flow:
    own = os.path.realpath(path) == os.path.realpath(flow_file) or own_parts(path)
    return read_flow(path, direction="backward" if own else "forward")


def _frames(folder: Path, flows: Sequence[Path]) -> list[Path | None]:
    try:
        frames = frames_in(folder)
    except OSError as error:
        raise ImageError(
            f"cannot list {folder}, for the frames of {flows[0].parent}: {reason_of(error)}; name "
            "a folder of frames, or a video"
        ) from error
    check_count(folder, len(frames), "image", flows)
    return list(frames)


def _alike(folder: Path, flows: Sequence[Path]) -> list[Path]:
    """Return the flow in a folder that is called as each of these."""
    try:
        there = {path.stem: path for path in folder.iterdir() if is_flow_name(path)}
    except OSError as error:
        raise FlowFileError(
            f"cannot list {folder}, for the flows of {flows[0].parent}: {reason_of(error)}; name a "
            "folder of flows"
        ) from error
    for path in flows:
        if path.stem not in there:
            raise FlowFileError(f"{folder} has no flow called as {path}; the names must be alike")
    return [there[path.stem] for path in flows]
