"""Where the flows of a video go: flow files, a colour video, and the record of what made them."""

import re
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from types import TracebackType

from pwcflow.color.painting import Paint, flow_to_color
from pwcflow.color.scale import RunningScale
from pwcflow.counted import counted
from pwcflow.errors import FlowFileError, OutputError, VideoError, reason_of
from pwcflow.flow_file import Flow, read_flow, write_flow
from pwcflow.image_file import Image
from pwcflow.locks import remove_leftovers
from pwcflow.overlap import WriteBehind, Writer
from pwcflow.runs.flow_files import flow_file, numbered_flows
from pwcflow.runs.provenance import RECORD_NAME, RunRecord, read_record, recorded_suffix
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video import DEFAULT_FPS, FrameSource
from pwcflow.video_writer import color_writer
from pwcflow.visualization import Picture, Scene, check_parts, draw, picture_size, style_of

FLOW_FILE_THREADS = 4
_LEFT_BY_A_KILL = re.compile(r"\.[0-9a-f]{16}\.[a-z0-9]+")  # see `atomic_file.replacing`


class VideoSink(AbstractContextManager["VideoSink"]):
    """Writes the flows of a video to where they shall go, in threads, a few flows behind.

    A context manager: leaving it finishes the outputs. It outlives whatever makes the flows.

    Attributes:
        record: what is written beside the flows; to be set before the first one, if at all.
        paint: what gives flows their colours; to be set before the first one, or `flow_to_color`.
        scale_px: the scale of the last picture; None where each has its own, or none has one.
        needs_frames: whether each flow is to be given with its two frames.
    """

    def __init__(
        self, outputs: VideoOutputs, source: FrameSource, kept: int, height: int, width: int
    ) -> None:
        """Check style and frame rate; nothing is written, made or removed before the first flow.

        Args:
            outputs: where the flows go.
            source: knows the frame rate, and about how many frames there are.
            kept: how many flow files of an earlier run stay as they are.
            height: of the flows, in pixels.
            width: of the flows, in pixels.

        Raises:
            ValueError: the style needs what a video does not give.
            OutputError: the colour video cannot have this rate, size or length, or its pictures
                have no room for the legend.
            VideoError: nobody knows the rate.
        """
        check_parts(outputs.look, ("frame", "second"))
        parts = style_of(outputs.look).parts
        self._parts = [name for name in ("frame", "second") if name in parts]
        self.needs_frames = bool(outputs.viz and self._parts)
        self._frames: deque[tuple[Image | None, Image | None]] = deque()  # of flows handed over
        self.record: RunRecord | None = None
        self.paint: Paint = flow_to_color
        self.scale_px: float | None = None
        self._outputs = outputs
        self._kept = kept
        self._size = height, width
        self._is_ready = False
        self._running_scale = RunningScale(
            outputs.max_flow or "sequence", outputs.look.color_code().smallest_scale_px
        )
        self._finish = ExitStack()
        self._video = None
        writers: list[Writer] = []
        if outputs.folder:
            writers.append([(self._write_file, FLOW_FILE_THREADS)])
        if outputs.viz:
            self._video = color_writer(outputs.viz, outputs.fps or _frame_rate(source))
            expected = source.expected_frames
            size = picture_size(outputs.look, height, width)
            self._video.check_size(*size, None if expected is None else expected - 1)
            # One thread for each: a video and its scale grow in order.
            writers.append([(self._draw, 1), (self._write_frame, 1)])
        self._behind = WriteBehind(writers, self._remove_file)
        if not outputs.viz:
            self._behind.written = kept

    def __enter__(self) -> "VideoSink":
        """Hold the colour video and prepare it; to be entered before there are threads."""
        if self._video:
            self._finish.enter_context(self._video)
        self._finish.enter_context(self._behind)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for the threads, then finish the colour video."""
        self._finish.__exit__(kind, error, traceback)

    @property
    def flows(self) -> int:
        """How many flows, from the first on, are on disk, those of an earlier run with them."""
        return max(self._kept, self._behind.written)

    @property
    def kept(self) -> int:
        """How many flow files of an earlier run stay; known for good after `kept_flows`."""
        return self._kept

    def kept_flows(self) -> Iterator[Flow]:
        """Yield the flows that are to be handed over although their files stay.

        Only now are all of them read: from the first one on that is damaged, none stays.
        """
        if self._outputs.viz:
            for number in range(self._kept):
                try:
                    flow = read_flow(self._file(number))
                except FlowFileError:
                    flow = None
                if flow is None or flow.shape[:2] != self._size:
                    self._kept = number
                    return
                yield flow

    def write(self, flow: Flow, *frames: Image) -> None:
        """Hand a flow over; the error of an earlier one may come up here, or in `finish`.

        Args:
            flow: the next one.
            frames: its first and second, if `needs_frames`.
        """
        self._make_ready()
        if self.needs_frames:
            at_hand = zip(("frame", "second"), frames, strict=True)
            frame, second = (image if name in self._parts else None for name, image in at_hand)
            self._frames.append((frame, second))
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
        if complete and self._video and (viz := self._outputs.viz_settings()):
            self.record.viz = {**viz, "max_flow_px": self.scale_px, "fps": self._video.fps}
            if scales := self._running_scale.scales_px:
                of_pictures = [round(scale, 6) for scale in scales]
                self.record.viz["max_flow_px_of_pictures"] = of_pictures
        with nullcontext() if complete else suppress(OutputError):  # another one is on its way
            self.record.write()

    def what_is_kept(self) -> str:
        """Return what there is on disk, for the end of a sentence."""
        if self.flows == 0:
            return "nothing was written"
        return f"kept what comes before: {counted(self.flows, 'flow')} in {self._outputs}"

    def kept_for_later(self) -> str:
        """Return what there is on disk, and what can be done with it."""
        record = self.record
        can_go_on = record and record.video["fingerprint"] and self._outputs.folder and self.flows
        return self.what_is_kept() + ("; the same command goes on from there" if can_go_on else "")

    def _make_ready(self) -> None:
        """Make room for the first flow: only now is anything of an earlier run removed."""
        if self._is_ready:
            return
        folder = self._outputs.record_folder()
        if folder and self.record:
            if self._outputs.folder or self._outputs.overwrite:  # else flows there are the same
                old = numbered_flows(folder, self._outputs.suffix)[self._kept :]
                if not self._kept:
                    recorded = recorded_suffix(read_record(folder))
                    old += numbered_flows(folder, recorded)
                    # without a record nobody takes what is left for the new run's
                    _remove(folder / RECORD_NAME)
                for path in old:
                    _remove(path)
            self.record.write_now_and_then(self._kept)
        for own in self._outputs.folders():
            remove_leftovers(own)
            for name in filter(_LEFT_BY_A_KILL.fullmatch, _names(own)):
                _remove(own / name)
        self._is_ready = True

    def _write_file(self, number: int, flow: Flow) -> None:
        if number >= self._kept:
            write_flow(self._file(number), flow)

    def _draw(self, _: int, flow: Flow) -> tuple[Picture, float | None]:
        look = self._outputs.look
        scale = self._running_scale.update(flow) if style_of(look).has_scale else None
        frame, second = self._frames.popleft() if self.needs_frames else (None, None)
        scene = Scene(flow=flow, frame=frame, second=second, paint=self.paint)
        return draw(scene, look, scale), scale

    def _write_frame(self, _: int, drawn: tuple[Picture, float | None]) -> None:
        assert self._video, "frames have a video"
        picture, scale = drawn
        self._video.write(picture)
        self.scale_px = None if self._outputs.max_flow == "frame" else scale

    def _remove_file(self, number: int) -> None:
        if self._outputs.folder and number >= self._kept:
            with suppress(OSError):  # what failed there has its own message
                self._file(number).unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        assert self._outputs.folder, "flow files have a folder"
        return flow_file(self._outputs.folder, number, self._outputs.suffix)


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
        return DEFAULT_FPS
    raise VideoError(f"{source.path} does not tell its frame rate; add --fps")
