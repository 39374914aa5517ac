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

from pwcflow import __version__
from pwcflow.atomic_file import check_writable
from pwcflow.color import flow_to_color, largest_magnitude
from pwcflow.earlier_run import EarlierRun, find_earlier_run
from pwcflow.errors import ImageError, OutputError, PwcFlowError, VideoError
from pwcflow.flow_file import Metadata, check_flow_suffix, write_flow
from pwcflow.folder_lock import locked_folder
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.image_file import IMAGE_SUFFIXES, Image, check_image_suffix, read_image, write_image
from pwcflow.outputs import check_folder, check_nothing_lost
from pwcflow.overlap import prefetch
from pwcflow.progress import progress_bar
from pwcflow.provenance import UNITS, Maker, Record
from pwcflow.scale import scale_of
from pwcflow.video import FrameSource, open_frames
from pwcflow.video_sink import VideoOutputs, VideoSink
from pwcflow.video_writer import check_video_suffix

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator

LoadEstimator = Callable[[], "FlowEstimator"]
FindMaker = Callable[[], Maker | None]
Summary = dict[str, Any]
"""What was done, for a person or `--json`."""


def estimate_pair(
    load_estimator: LoadEstimator,
    first: Path,
    second: Path,
    *,
    output: Path | None,
    viz: Path | None,
    backward: Path | None = None,
    max_flow: float | None = None,
) -> Summary:
    """Write the flow that carries the image `first` onto the image `second`.

    Formats that hold metadata get what made the flow, too.

    Args:
        load_estimator: returns the estimator to use.
        first: an image file.
        second: an image file of the same size.
        output: the flow file, in the format of its suffix.
        viz: the colour image of the flow.
        backward: a flow file for the flow that carries `second` onto `first`, in the pixels of
            `second`; it may be `output`, if that is an .exr.
        max_flow: the magnitude in pixels shown fully saturated; when None the largest one, but at
            least 1 px.

    Raises:
        PwcFlowError: an image cannot be read, the sizes differ, or an output cannot be written.
    """
    in_one = _holds_both(output, backward)
    _check_pair_outputs([output, None if in_one else backward], viz, [first, second])
    started = time.monotonic()
    images = _read_pair(first, second)
    estimator = load_estimator()
    flow = estimator(*images)
    back = estimator(*reversed(images)) if backward else None
    there, again = _metadata(estimator, first, second), _metadata(estimator, second, first)
    if output and in_one:
        there["direction"] = "forward and backward"
        write_flow(output, flow, metadata=there, backward=back)
    elif output:
        write_flow(output, flow, metadata=there)
    if backward and back is not None and not in_one:
        write_flow(backward, back, metadata={**again, "direction": "backward"})
    scale = None
    if viz:
        scale = max_flow or scale_of(flow)
        write_image(viz, flow_to_color(flow, scale))
    return {
        "first": str(first),
        "second": str(second),
        "flow": _text(output),
        "backward": _text(backward),
        "viz": _text(viz),
        "max_flow_px": _rounded(scale),
        "width": flow.shape[1],
        "height": flow.shape[0],
        "largest_motion_px": _rounded(largest_magnitude(flow)),
        **_provenance(estimator),
        "seconds": _rounded(time.monotonic() - started),
    }


def estimate_video(
    load_estimator: LoadEstimator,
    video: Path,
    outputs: VideoOutputs,
    *,
    selection: FrameSelection = ALL_FRAMES,
    find_maker: FindMaker = lambda: None,
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
        find_maker: tells of the estimator what decides whether all is done, if that can be known
            without loading it.
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
        if earlier.record:
            earlier.check(find_maker() or load_estimator())
        if earlier.record and earlier.is_done():
            summary = _summary_of(earlier.record)
        else:
            summary = _estimate_rest(load_estimator, earlier, progress, label)
    return {
        "video": str(video),
        **summary,
        "flow_folder": _text(outputs.folder),
        "viz": _text(outputs.viz),
        "seconds": _rounded(time.monotonic() - started),
    }


def _estimate_rest(
    load_estimator: LoadEstimator, earlier: EarlierRun, progress: bool, label: str
) -> Summary:
    """Compute the flows that are not there yet, and write all that is missing."""
    with ExitStack() as stack:
        source = stack.enter_context(open_frames(earlier.video, earlier.selection))
        (height, width), frames = _two_or_more(source)
        kept = earlier.usable_flows(height, width)
        # before there are threads, which it outlives
        sink = stack.enter_context(VideoSink(earlier.outputs, source, kept, height, width))
        frames = stack.enter_context(closing(prefetch(frames)))
        estimator = load_estimator()
        sink.record = earlier.new_record(estimator, height, width, kept)
        pairs = (source.expected_frames or 1) - 1
        bar = stack.enter_context(progress_bar(pairs, progress, unit="pair", label=label))
        stack.callback(lambda: bar.update(sink.flows - bar.n))  # of the flows written last
        rest = islice(frames, kept, None)
        expected = None if source.expected_frames is None else source.expected_frames - kept
        flows = stack.enter_context(closing(estimator.flows(rest, expected)))
        try:
            for flow in chain(sink.kept_flows(), flows):
                sink.write(flow)
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
        "max_flow_px": _rounded(sink.scale_px),
        "width": width,
        "height": height,
        **_provenance(estimator),
    }


def _holds_both(output: Path | None, backward: Path | None) -> bool:
    """Return whether one file is to take the flows of both directions."""
    return output is not None and output == backward and output.suffix.lower() == ".exr"


def _metadata(estimator: "FlowEstimator", first: Path, second: Path) -> Metadata:
    """Return what a flow file tells of a pair, if its format can."""
    return {
        "pwcflow": __version__,
        "first": str(first),
        "second": str(second),
        "direction": "forward",
        "units": UNITS,
        **_provenance(estimator),
    }


def _check_pair_outputs(flows: list[Path | None], viz: Path | None, inputs: list[Path]) -> None:
    for path in filter(None, flows):
        check_flow_suffix(path)
    if viz:
        check_image_suffix(viz)
    check_nothing_lost([*flows, viz], inputs)
    for path in filter(None, (*flows, viz)):
        check_writable(path)


def _check_video_outputs(outputs: VideoOutputs, video: Path) -> None:
    viz = outputs.viz
    if viz:
        check_video_suffix(viz)
    if outputs.folder:
        check_flow_suffix(outputs.folder / f"000000{outputs.suffix}")
        if outputs.suffix in IMAGE_SUFFIXES and outputs.folder.resolve() == video.resolve():
            raise OutputError(
                f"cannot write {outputs.suffix} into {video}: flows would be taken for frames "
                "there; choose another folder"
            )
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


def _two_or_more(source: FrameSource) -> tuple[tuple[int, int], Iterator[Image]]:
    """Return height and width, and the frames of a source, the first two of which are read."""
    frames = iter(source)
    first_two = list(islice(frames, 2))
    if len(first_two) < 2:
        raise VideoError(f"{source.path} has one frame only; flow needs two")
    height, width = first_two[0].shape[:2]
    return (height, width), chain(first_two, frames)


def _summary_of(record: Record) -> Summary:
    """Return the summary of what was complete before."""
    viz, weights = record.get("viz"), record["weights"]
    scale = viz.get("max_flow_px") if isinstance(viz, dict) else None
    return {
        "outcome": "skipped",
        "reason": "it is complete",
        "frames": record.get("frames"),
        "flows": record.get("flows"),
        "flows_kept": record.get("flows"),
        "max_flow_px": _rounded(scale),
        "width": record.get("width"),
        "height": record.get("height"),
        "weights": weights.get("name"),
        "weights_sha256": weights.get("sha256"),
        "device": record.get("device"),
        "precision": record.get("precision"),
    }


def _provenance(estimator: "FlowEstimator") -> Summary:
    return {
        "weights": estimator.weights.name,
        "weights_sha256": estimator.weights.sha256,
        "device": str(estimator.device),
        "precision": estimator.precision,
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
