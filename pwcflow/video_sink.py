"""Where the flows of a video go: flow files, a colour video, and the record of what made them."""

import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pwcflow.errors import OutputError, PwcFlowError, VideoError, reason_of
from pwcflow.flow_file import Flow, read_flow, write_flow
from pwcflow.image_file import Image
from pwcflow.overlap import WriteBehind, Writer
from pwcflow.provenance import RECORD_NAME, RunRecord
from pwcflow.scale import MaxFlow, RunningScale
from pwcflow.video.source import FrameSource
from pwcflow.video_writer import ColorVideoWriter
from pwcflow.visualization import WHEEL, Look, Scene, check_parts, draw, scale_settings, style_of

FOLDER_FPS = 25.0
"""Frames per second of a colour video made from a folder of frames."""
FLOW_FILE_THREADS = 4
# As `flow_file` names them, up to ten million frames: two days of video. Other numbers, such as
# dates, are not ours to remove.
_NUMBERED_FLOW = re.compile(r"([0-9]{6}|[1-9][0-9]{6})\.flo")
_LEFT_BY_A_KILL = re.compile(r"\.[0-9a-f]{16}\.[a-z0-9]+")  # see `atomic_file.replacing`


@dataclass(frozen=True, kw_only=True)
class VideoOutputs:
    """What becomes of the flows of a video."""

    folder: Path | None = None
    """Where the flow files go, `000000.flo` and so on; made with its parents where missing."""
    overwrite: bool = False
    """Whether the numbered flow files that the folder holds already give way to the new ones."""
    viz: Path | None = None
    """The colour video."""
    max_flow: MaxFlow | None = None
    """The magnitude shown fully saturated, in pixels, or how it is found; see `RunningScale`."""
    look: Look = WHEEL
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


class VideoSink:
    """Writes the flows of a video to where they shall go, in threads, a few flows behind.

    Attributes:
        record: what is written beside the flows; to be set before the first one, if at all.
        scale_px: the scale of the last picture; None where each has its own, or none has one.
        needs_frames: whether each flow is to be given with its two frames.
    """

    def __init__(
        self,
        outputs: VideoOutputs,
        source: FrameSource,
        kept: int,
        stack: ExitStack,
    ) -> None:
        """Check style and frame rate; nothing is written, made or removed before the first flow.

        Args:
            outputs: where the flows go.
            source: knows the frame rate.
            kept: how many flow files of an earlier run stay as they are.
            stack: finishes the outputs when it is left.

        Raises:
            ValueError: the style needs what a video does not give.
        """
        style = style_of(outputs.look)
        self._parts = [name for name in ("frame", "second") if name in style.parts]
        check_parts(outputs.look, ("frame", "second"))
        self.needs_frames = bool(outputs.viz and self._parts)
        self._frames: deque[tuple[Image, Image]] = deque()  # of the flows handed over
        self.record: RunRecord | None = None
        self.scale_px: float | None = None
        self._outputs = outputs
        self._kept = kept
        self._is_ready = False
        self._running_scale = RunningScale(
            outputs.max_flow or "sequence", outputs.look.color_code().smallest_scale_px
        )
        writers: list[tuple[Writer, int]] = []
        if outputs.folder:
            writers.append((self._write_file, FLOW_FILE_THREADS))
        if outputs.viz:
            fps = outputs.fps or _frame_rate(source)
            self._video = stack.enter_context(ColorVideoWriter(outputs.viz, fps))
            writers.append((self._write_frame, 1))  # a video and its scale grow in order
        self._behind = stack.enter_context(WriteBehind(writers, self._remove_file))
        if not outputs.viz:
            self._behind.written = kept

    @property
    def flows(self) -> int:
        """How many flows, from the first on, are on disk, those of an earlier run with them."""
        return max(self._kept, self._behind.written)

    def kept_flows(self) -> Iterator[Flow]:
        """Yield the flows that are to be handed over although their files stay."""
        if self._outputs.viz:
            for number in range(self._kept):
                yield read_flow(self._file(number))

    def write(self, flow: Flow, *frames: Image) -> None:
        """Hand a flow over; the error of an earlier one may come up here, or in `finish`.

        Args:
            flow: the next one.
            frames: its first and second, if `needs_frames`.
        """
        self._make_ready()
        if self.needs_frames:
            first, second = frames
            self._frames.append((first, second))
        self._behind.write(flow)
        if self.record:
            self.record.write_now_and_then(self.flows)

    def finish(self) -> None:
        """Wait until every flow handed over is written."""
        if self._kept:
            self._make_ready()
        self._behind.finish()

    def write_record(self, source: FrameSource, *, complete: bool = False) -> None:
        """Say on disk how far it came.

        Args:
            source: knows the times of its frames, if anyone does.
            complete: whether that was to the end; if not, no failure is told here.
        """
        if self.record is None or not self.flows:
            return
        self.record.flows = self.flows
        self.record.source = source.provenance()
        self.record.numbers, self.record.timestamps = source.numbers, source.timestamps
        self.record.complete = complete
        if complete and (viz := self._outputs.viz_settings()):
            scales = [round(scale, 6) for scale in self._running_scale.scales_px]
            of_pictures = {"max_flow_px_of_pictures": scales} if scales else {}
            self.record.viz = {**viz, "max_flow_px": self.scale_px, **of_pictures}
        with nullcontext() if complete else suppress(OutputError):  # another one is on its way
            self.record.write()

    def kept(self) -> str:
        """Return what there is on disk, for the end of a sentence."""
        if self.flows == 0:
            return "nothing was written"
        flows = "1 flow" if self.flows == 1 else f"{self.flows} flows"
        return f"kept what comes before: {flows} in {self._outputs}"

    def kept_for_later(self) -> str:
        """Return what there is on disk, and what can be done with it."""
        record = self.record
        can_go_on = record and record.video["fingerprint"] and self._outputs.folder and self.flows
        return self.kept() + ("; the same command goes on from there" if can_go_on else "")

    def _make_ready(self) -> None:
        """Make room for the first flow: only now is anything of an earlier run removed."""
        if self._is_ready:
            return
        folder = self._outputs.record_folder()
        if folder and self.record:
            if self._outputs.folder or self._outputs.overwrite:  # else flows there are the same
                if not self._kept:  # without a record nobody takes what is left for the new run's
                    _remove(folder / RECORD_NAME)
                for old in numbered_flows(folder)[self._kept :]:
                    _remove(old)
            self.record.write_now_and_then(self._kept)
        for own in self._outputs.folders():
            for name in filter(_LEFT_BY_A_KILL.fullmatch, _names(own)):
                _remove(own / name)
        self._is_ready = True

    def _write_file(self, number: int, flow: Flow) -> None:
        if number >= self._kept:
            write_flow(self._file(number), flow)

    def _write_frame(self, _: int, flow: Flow) -> None:
        look = self._outputs.look
        scale = self._running_scale.update(flow) if style_of(look).has_scale else None
        scene = Scene(flow=flow)
        if self.needs_frames:
            used = dict(zip(("frame", "second"), self._frames.popleft(), strict=True))
            scene = Scene(
                flow=flow,
                frame=used["frame"] if "frame" in self._parts else None,
                second=used["second"] if "second" in self._parts else None,
            )
        self._video.write(draw(scene, look, scale))
        self.scale_px = None if self._outputs.max_flow == "frame" else scale

    def _remove_file(self, number: int) -> None:
        if self._outputs.folder and number >= self._kept:
            with suppress(OSError):  # what failed there has its own message
                self._file(number).unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        assert self._outputs.folder, "flow files have a folder"
        return flow_file(self._outputs.folder, number)


def flow_file(folder: Path, number: int) -> Path:
    """Return the file of a flow, which is numbered by the first of its two frames."""
    return folder / f"{number:06d}.flo"


def numbered_flows(folder: Path) -> list[Path]:
    """Return the flow files of an earlier run, by their numbers."""
    flows = [folder / name for name in _names(folder) if _NUMBERED_FLOW.fullmatch(name)]
    return sorted(flows, key=lambda path: (int(path.stem), path.name))


def usable_flows(folder: Path, height: int, width: int) -> int:
    """Return how many flow files of an earlier run are there from the first on, whole, in a size.

    The first and the last one are read; those between them have to be as long.
    """
    count, size = 0, None
    for path in numbered_flows(folder):
        if path != flow_file(folder, count):
            break
        try:
            if size is None:
                if read_flow(path).shape[:2] != (height, width):
                    break
                size = path.stat().st_size
            if path.stat().st_size != size:
                break
        except (OSError, PwcFlowError):
            break
        count += 1
    while count:
        with suppress(PwcFlowError):
            read_flow(flow_file(folder, count - 1))
            return count
        count -= 1
    return 0


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot remove {path}, of an earlier run: {reason_of(error)}; remove it yourself, or "
            "choose another folder"
        ) from error


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _frame_rate(source: FrameSource) -> float:
    if source.fps:
        return source.fps
    if source.timestamps is None:  # pictures without times: a folder, a pattern, a stack
        return FOLDER_FPS
    raise VideoError(f"{source.path} does not tell its frame rate; add --fps")
