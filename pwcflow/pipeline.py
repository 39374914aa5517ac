"""What `estimate` and `video` do: images in, the estimator, files out.

Nothing here imports torch. The estimator is loaded by a function that is called once the inputs
and outputs were found to be in order, so that a mistake is told at once.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pwcflow.atomic_file import check_writable
from pwcflow.color import largest_magnitude
from pwcflow.earlier_run import EarlierRun, find_earlier_run
from pwcflow.errors import ImageError, OutputError, PwcFlowError, VideoError
from pwcflow.flow_file import check_flow_suffix, read_flow, write_flow
from pwcflow.folder_lock import locked_folder
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.frames_at_hand import FramesAtHand
from pwcflow.image_file import Image, check_image_suffix, read_image, write_image
from pwcflow.outputs import check_folder, check_nothing_lost
from pwcflow.overlap import prefetch
from pwcflow.progress import progress_bar
from pwcflow.provenance import Record
from pwcflow.scale import MaxFlow, name_of_rule
from pwcflow.video import FrameSource, open_frames
from pwcflow.video_sink import VideoOutputs, VideoSink
from pwcflow.video_writer import check_video_suffix
from pwcflow.visualization import (
    WHEEL,
    Look,
    Scene,
    check_parts,
    draw,
    scale_for,
    scale_settings,
    style_of,
)

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator

LoadEstimator = Callable[[], "FlowEstimator"]
Summary = dict[str, Any]
"""What was done, for a person or `--json`."""


def estimate_pair(
    load_estimator: LoadEstimator,
    first: Path,
    second: Path,
    *,
    output: Path | None,
    viz: Path | None,
    max_flow: MaxFlow | None = None,
    look: Look = WHEEL,
    truth: Path | None = None,
) -> Summary:
    """Write the flow that carries the image `first` onto the image `second`.

    Args:
        load_estimator: returns the estimator to use.
        first: an image file.
        second: an image file of the same size.
        output: the flow file, in the format of its suffix.
        viz: the picture of the flow.
        max_flow: the magnitude shown fully saturated, in pixels, or how it is found; when None the
            largest one, but at least 1 px.
        look: the style of the picture, and what belongs to it. For one that needs the backward
            flow, this is estimated too.
        truth: the file of the true flow, for a style that needs it.

    Raises:
        ValueError: options do not go together.
        PwcFlowError: an image cannot be read, the sizes differ, or an output cannot be written.
    """
    style = style_of(look)
    check_parts(look, [*("frame", "second", "backward"), *(["truth"] if truth else [])])
    _check_pair_outputs(output, viz, [first, second, *([truth] if truth else [])])
    started = time.monotonic()
    images = _read_pair(first, second)
    true_flow = read_flow(truth) if truth else None
    estimator = load_estimator()
    flow = estimator(*images)
    scale = picture = None
    if viz:
        scale = scale_for(flow, max_flow, look)
        scene = Scene(
            flow=flow,
            frame=images[0] if "frame" in style.parts else None,
            second=images[1] if "second" in style.parts else None,
            truth=true_flow,
            backward=estimator(*images[::-1]) if "backward" in style.parts else None,
        )
        picture = draw(scene, look, scale)
    if output:
        write_flow(output, flow)
    if viz and picture is not None:
        write_image(viz, picture)
    return {
        "first": str(first),
        "second": str(second),
        "flow": _text(output),
        "viz": _text(viz),
        **_shown(scale_settings(look, name_of_rule(max_flow)) if viz else None),
        "max_flow_px": _rounded(scale),
        "width": flow.shape[1],
        "height": flow.shape[0],
        "largest_motion_px": _rounded(largest_magnitude(flow)),
        **_provenance(estimator, started),
    }


def estimate_video(
    load_estimator: LoadEstimator,
    video: Path,
    outputs: VideoOutputs,
    *,
    selection: FrameSelection = ALL_FRAMES,
    progress: bool = False,
    label: str = "",
) -> Summary:
    """Write the flow between each two consecutive frames of a video.

    Frames are read, encoded once and forgotten one after the other: memory does not grow with the
    length. Threads read a few frames ahead of the network and write its flows behind it. Each flow
    file is named by the number of its pair's first frame, from 0.

    A folder with flow files of the same input, weights and precision is gone on with: nothing is
    done when it is complete, and flows that are there are not computed again. A colour video is
    made anew, of the flow files.

    Args:
        load_estimator: returns the estimator to use.
        video: what `open_frames` takes, such as a video file or a folder of frames.
        outputs: what to write.
        selection: which frames are taken, and at what size.
        progress: show a progress bar on stderr.
        label: what stands before the bar.

    Raises:
        VideoError: the video has fewer than two frames, or a frame or its flow is unusable; what
            came before is kept.
        OutputError: an output cannot be written, or holds flows of something else.
        FolderInUseError: another process writes into the folder.
        KeyboardInterrupt: of an interruption; what was finished is kept, and its text says so.
    """
    _check_video_outputs(outputs, video)
    started = time.monotonic()
    with ExitStack() as locks:
        for folder in outputs.folders():
            locks.enter_context(locked_folder(folder))
        earlier = find_earlier_run(outputs, video, selection)
        if earlier.record is None:
            summary, estimator = _estimate_rest(load_estimator, earlier, progress, label)
        else:
            estimator = load_estimator()
            earlier.check(estimator)
            if earlier.is_done():
                summary = _summary_of(earlier.record)
            else:
                summary, _ = _estimate_rest(lambda: estimator, earlier, progress, label)
    return {
        "video": str(video),
        **summary,
        "flow_folder": _text(outputs.folder),
        "viz": _text(outputs.viz),
        **_provenance(estimator, started),
    }


def _estimate_rest(
    load_estimator: LoadEstimator, earlier: EarlierRun, progress: bool, label: str
) -> tuple[Summary, "FlowEstimator"]:
    """Compute the flows that are not there yet, and write all that is missing."""
    with ExitStack() as stack:
        source = stack.enter_context(open_frames(earlier.video, earlier.selection))
        (height, width), frames = _two_or_more(source)
        kept = earlier.usable_flows(height, width)
        # before there are threads, which it outlives
        sink = VideoSink(earlier.outputs, source, kept, stack)
        frames = stack.enter_context(closing(prefetch(frames)))
        estimator = load_estimator()
        sink.record = earlier.new_record(estimator, height, width, kept)
        pairs = (source.expected_frames or 1) - 1
        bar = stack.enter_context(progress_bar(pairs, progress, unit="pair", label=label))
        stack.callback(lambda: bar.update(sink.flows - bar.n))  # of the flows written last
        at_hand = FramesAtHand(frames) if sink.needs_frames else None
        rest = at_hand.beyond() if at_hand else islice(frames, kept, None)
        expected = None if source.expected_frames is None else source.expected_frames - kept
        flows = stack.enter_context(closing(estimator.flows(rest, expected)))
        try:
            for flow in chain(sink.kept_flows(), flows):
                sink.write(flow, *(at_hand.pair() if at_hand else ()))
                bar.update(sink.flows - bar.n)
            sink.finish()
        except OutputError:
            raise
        except PwcFlowError as error:
            sink.finish()
            sink.write_record(source)
            raise VideoError(f"{error}; {sink.kept()}") from error
        except KeyboardInterrupt:
            sink.finish()
            sink.write_record(source)
            raise KeyboardInterrupt(sink.kept_for_later()) from None
    sink.write_record(source, complete=True)  # the colour video is on its place only now
    return {
        "outcome": "done",
        "frames": sink.flows + 1,
        "flows": sink.flows,
        "flows_kept": kept,
        **_shown(earlier.outputs.viz_settings()),
        "max_flow_px": _rounded(sink.scale_px),
        "width": width,
        "height": height,
    }, estimator


def _check_pair_outputs(output: Path | None, viz: Path | None, inputs: list[Path]) -> None:
    if output:
        check_flow_suffix(output)
    if viz:
        check_image_suffix(viz)
    check_nothing_lost([output, viz], inputs)
    for path in filter(None, (output, viz)):
        check_writable(path)


def _check_video_outputs(outputs: VideoOutputs, video: Path) -> None:
    viz = outputs.viz
    if viz:
        check_video_suffix(viz)
    check_nothing_lost([viz], [video])
    for own in outputs.folders():
        check_folder(own, "flow files go into a folder", any_name=outputs.own_folders)
    if viz and viz.parent not in outputs.folders():  # which may have to be made
        check_writable(viz)


def _read_pair(first: Path, second: Path) -> tuple[Image, Image]:
    images = read_image(first), read_image(second)
    sizes = [f"{image.shape[1]} x {image.shape[0]}" for image in images]
    if sizes[0] != sizes[1]:
        raise ImageError(
            f"{first} is {sizes[0]} pixels but {second} is {sizes[1]}: flow needs two images of "
            "one size; resize or crop one of them"
        )
    return images


def _two_or_more(source: FrameSource) -> tuple[tuple[int, ...], Iterator[Image]]:
    """Return height and width, and the frames of a source, the first two of which are read."""
    frames = iter(source)
    first_two = list(islice(frames, 2))
    if len(first_two) < 2:
        raise VideoError(f"{source.path} has one frame only; flow needs two")
    return first_two[0].shape[:2], chain(first_two, frames)


def _summary_of(record: Record) -> Summary:
    """Return the summary of what was complete before."""
    viz = record.get("viz")
    scale = viz.get("max_flow_px") if isinstance(viz, dict) else None
    return {
        "outcome": "skipped",
        "reason": "it is complete",
        "frames": record.get("frames"),
        "flows": record.get("flows"),
        "flows_kept": record.get("flows"),
        **_shown(viz),
        "max_flow_px": _rounded(scale),
        "width": record.get("width"),
        "height": record.get("height"),
    }


def _shown(viz: object) -> Summary:
    """Return how flows are shown, of the settings of a picture or video; Nones without one."""
    settings = viz if isinstance(viz, dict) else {}
    return {name: settings.get(name) for name in ("style", "scale")}


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
