"""What `estimate` and `video` do: images in, the estimator, files out.

Nothing here imports torch. The estimator is loaded by a function that is called once the inputs
and outputs were found to be in order, so that a mistake is told at once.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pwcflow.atomic_file import check_writable
from pwcflow.color import flow_to_color, largest_magnitude
from pwcflow.errors import ImageError, OutputError, PwcFlowError, VideoError
from pwcflow.flow_file import Flow, check_flow_suffix, write_flow
from pwcflow.image_file import Image, check_image_suffix, read_image, write_image
from pwcflow.outputs import check_folder, check_nothing_lost, make_folder
from pwcflow.overlap import WriteBehind, Writer, prefetch
from pwcflow.progress import progress_bar
from pwcflow.scale import RunningScale, scale_of
from pwcflow.video import FrameSource, open_frames
from pwcflow.video_writer import ColorVideoWriter, check_video_suffix

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator

LoadEstimator = Callable[[], "FlowEstimator"]
Summary = dict[str, Any]
"""What was done, for a person or `--json`."""

FOLDER_FPS = 25.0
"""Frames per second of a colour video made from a folder of frames."""
_NUMBERED_FLOW = re.compile(r"[0-9]+\.flo")
_FLOW_FILE_THREADS = 4


@dataclass(frozen=True, kw_only=True)
class VideoOutputs:
    """What becomes of the flows of a video."""

    folder: Path | None = None
    """Where the flow files go, `000000.flo` and so on; made with its parents where missing."""
    overwrite: bool = False
    """Whether the numbered flow files that the folder holds already give way to the new ones."""
    viz: Path | None = None
    """The colour video."""
    max_flow: float | None = None
    """The magnitude in pixels shown fully saturated; a running scale when None."""
    fps: float | None = None
    """Frames per second of the colour video; the source's own when None."""

    def __str__(self) -> str:
        """Return their names, for a sentence."""
        return " and ".join(str(path) for path in (self.folder, self.viz) if path)


def estimate_pair(
    load_estimator: LoadEstimator,
    first: Path,
    second: Path,
    *,
    output: Path | None,
    viz: Path | None,
    max_flow: float | None = None,
) -> Summary:
    """Write the flow that carries the image `first` onto the image `second`.

    Args:
        load_estimator: returns the estimator to use.
        first: an image file.
        second: an image file of the same size.
        output: the flow file, in the format of its suffix.
        viz: the colour image of the flow.
        max_flow: the magnitude in pixels shown fully saturated; when None the largest one, but at
            least 1 px.

    Raises:
        PwcFlowError: an image cannot be read, the sizes differ, or an output cannot be written.
    """
    _check_pair_outputs(output, viz, [first, second])
    started = time.monotonic()
    images = _read_pair(first, second)
    estimator = load_estimator()
    flow = estimator(*images)
    if output:
        write_flow(output, flow)
    scale = None
    if viz:
        scale = max_flow or scale_of(flow)
        write_image(viz, flow_to_color(flow, scale))
    return {
        "first": str(first),
        "second": str(second),
        "flow": _text(output),
        "viz": _text(viz),
        "max_flow_px": _rounded(scale),
        "width": flow.shape[1],
        "height": flow.shape[0],
        "largest_motion_px": _rounded(largest_magnitude(flow)),
        **_provenance(estimator, started),
    }


def estimate_video(
    load_estimator: LoadEstimator, video: Path, outputs: VideoOutputs, *, progress: bool = False
) -> Summary:
    """Write the flow between each two consecutive frames of a video.

    Frames are read, encoded once and forgotten one after the other: memory does not grow with the
    length. Threads read a few frames ahead of the network and write its flows behind it. Each flow
    file is named by the number of its pair's first frame, from 0.

    Args:
        load_estimator: returns the estimator to use.
        video: a video file or a folder of frames.
        outputs: what to write.
        progress: show a progress bar on stderr.

    Raises:
        VideoError: the video has fewer than two frames, or a frame or its flow is unusable; what
            came before is kept.
        OutputError: an output cannot be written, or holds flows already.
        KeyboardInterrupt: of an interruption; what was finished is kept, and its text says so.
    """
    _check_video_outputs(outputs, video)
    started = time.monotonic()
    with ExitStack() as stack:
        source = stack.enter_context(open_frames(video))
        frames = _two_or_more(source)
        sink = _VideoSink(outputs, source, stack)  # before there are threads, which it outlives
        frames = stack.enter_context(closing(prefetch(frames)))
        estimator = load_estimator()
        pairs = (source.expected_frames or 1) - 1
        bar = stack.enter_context(progress_bar(pairs, progress, unit="pair"))
        stack.callback(lambda: bar.update(sink.flows - bar.n))  # of the flows written last
        flows = stack.enter_context(closing(estimator.flows(frames, source.expected_frames)))
        try:
            for flow in flows:
                sink.write(flow)
                bar.update(sink.flows - bar.n)
            sink.finish()
        except OutputError:
            raise
        except PwcFlowError as error:
            sink.finish()
            raise VideoError(f"{error}; {sink.kept()}") from error
        except KeyboardInterrupt:
            sink.finish()
            raise KeyboardInterrupt(sink.kept()) from None
    return {
        "video": str(video),
        "frames": sink.flows + 1,
        "flows": sink.flows,
        "flow_folder": _text(outputs.folder),
        "viz": _text(outputs.viz),
        "max_flow_px": _rounded(sink.scale_px),
        "width": flow.shape[1],
        "height": flow.shape[0],
        **_provenance(estimator, started),
    }


class _VideoSink:
    """Writes the flows of a video to where they shall go, in threads, a few flows behind."""

    def __init__(self, outputs: VideoOutputs, source: FrameSource, stack: ExitStack) -> None:
        """Check the frame rate; nothing is written, made or removed before the first flow."""
        self.scale_px: float | None = None  # of the last colour frame
        self._outputs = outputs
        self._folder_is_ready = False
        self._running_scale = RunningScale()
        writers: list[tuple[Writer, int]] = []
        if outputs.folder:
            writers.append((self._write_file, _FLOW_FILE_THREADS))
        if outputs.viz:
            fps = outputs.fps or _frame_rate(source)
            self._video = stack.enter_context(ColorVideoWriter(outputs.viz, fps))
            writers.append((self._write_frame, 1))  # a video and its scale grow in order
        self._behind = stack.enter_context(WriteBehind(writers, self._remove_file))

    @property
    def flows(self) -> int:
        """How many flows, from the first on, are written to wherever they go."""
        return self._behind.written

    def write(self, flow: Flow) -> None:
        """Hand a flow over; the error of an earlier one may come up here, or in `finish`."""
        folder = self._outputs.folder
        if folder and not self._folder_is_ready:
            make_folder(folder)
            for old in _numbered_flows(folder):  # there are none, unless they may go
                old.unlink()
            self._folder_is_ready = True
        self._behind.write(flow)

    def finish(self) -> None:
        """Wait until every flow handed over is written."""
        self._behind.finish()

    def kept(self) -> str:
        if self.flows == 0:
            return "nothing was written"
        flows = "1 flow" if self.flows == 1 else f"{self.flows} flows"
        return f"kept what comes before: {flows} in {self._outputs}"

    def _write_file(self, number: int, flow: Flow) -> None:
        write_flow(self._file(number), flow)

    def _write_frame(self, _: int, flow: Flow) -> None:
        self.scale_px = self._outputs.max_flow or self._running_scale.update(flow)
        self._video.write(flow_to_color(flow, self.scale_px))

    def _remove_file(self, number: int) -> None:
        if self._outputs.folder:
            with suppress(OSError):  # what failed there has its own message
                self._file(number).unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        assert self._outputs.folder, "flow files have a folder"
        return self._outputs.folder / f"{number:06d}.flo"


def _check_pair_outputs(output: Path | None, viz: Path | None, inputs: list[Path]) -> None:
    if output:
        check_flow_suffix(output)
    if viz:
        check_image_suffix(viz)
    check_nothing_lost([output, viz], inputs)
    for path in filter(None, (output, viz)):
        check_writable(path)


def _check_video_outputs(outputs: VideoOutputs, video: Path) -> None:
    folder, viz = outputs.folder, outputs.viz
    if viz:
        check_video_suffix(viz)
    check_nothing_lost([viz], [video])
    if folder:
        check_folder(folder, "flow files go into a folder")
        if not outputs.overwrite and _numbered_flows(folder):
            raise OutputError(
                f"{folder} holds flows already, of an earlier run; give --overwrite to remove "
                "them, or another folder"
            )
    if viz and viz.parent != folder:  # which may have to be made
        check_writable(viz)


def _numbered_flows(folder: Path) -> list[Path]:
    """Return the flow files of an earlier run."""
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if _NUMBERED_FLOW.fullmatch(path.name)]


def _read_pair(first: Path, second: Path) -> tuple[Image, Image]:
    images = read_image(first), read_image(second)
    sizes = [f"{image.shape[1]} x {image.shape[0]}" for image in images]
    if sizes[0] != sizes[1]:
        raise ImageError(
            f"{first} is {sizes[0]} pixels but {second} is {sizes[1]}: flow needs two images of "
            "one size; resize or crop one of them"
        )
    return images


def _two_or_more(source: FrameSource) -> Iterator[Image]:
    """Return the frames of a source, the first two of which are read by now."""
    frames = iter(source)
    first_two = list(islice(frames, 2))
    if len(first_two) < 2:
        raise VideoError(f"{source.path} has one frame only; flow needs two")
    return chain(first_two, frames)


def _frame_rate(source: FrameSource) -> float:
    if source.fps:
        return source.fps
    if source.path.is_dir():
        return FOLDER_FPS
    raise VideoError(f"{source.path} does not tell its frame rate; add --fps")


def _provenance(estimator: "FlowEstimator", started: float) -> Summary:
    return {
        "weights": estimator.weights.name,
        "weights_sha256": estimator.weights.sha256,
        "device": str(estimator.device),
        "precision": estimator.precision,
        "seconds": _rounded(time.monotonic() - started),
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
