"""The frames of a video in, their flows out."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path

from pwcflow.atomic_file import check_writable
from pwcflow.errors import OutputError, PwcFlowError, VideoError
from pwcflow.flow_file import check_flow_suffix
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.image_file import Image
from pwcflow.locks import locked_folder
from pwcflow.outputs import check_folder, check_no_frames, check_nothing_lost
from pwcflow.overlap import prefetch
from pwcflow.pipeline.summary import LoadEstimator, Summary, provenance, rounded, shown, text
from pwcflow.progress import progress_bar
from pwcflow.runs.earlier import EarlierRun, find_earlier_run
from pwcflow.runs.flow_files import flow_file
from pwcflow.runs.frames_at_hand import FramesAtHand
from pwcflow.runs.provenance import Maker, Record, recorded_network_scale
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.runs.video_sink import VideoSink
from pwcflow.video import FrameSource, LoadImage, open_frames
from pwcflow.video_writer import check_video_suffix

FindMaker = Callable[[], Maker | None]


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
    length. Threads read a few frames ahead of the network and write its flows behind it. Flow
    files are numbered from 0, whichever frames are taken.

    A folder with flow files of the same input, weights, precision and network scale is gone on
    with: nothing is done when it is complete, and flows that are there are not computed again. A
    colour video is made anew, of the flow files.

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
        InUseError: another process writes into the folder, or the colour video.
        KeyboardInterrupt: of an interruption; what was finished is kept, and its text says so.
    """
    _check_outputs(outputs, video)
    started = time.monotonic()
    with ExitStack() as locks:
        for folder in outputs.folders():
            locks.enter_context(locked_folder(folder))
        earlier = find_earlier_run(outputs, video, selection)
        if earlier.record:
            earlier.check(find_maker() or load_estimator())
        if earlier.record and earlier.is_done():
            summary = _summary_of(earlier.record, shows=outputs.viz is not None)
        else:
            with _telling_of_removal(outputs):
                summary = _estimate_rest(load_estimator, earlier, progress, label)
    return {
        "video": str(video),
        **summary,
        "flow_folder": text(outputs.folder),
        "viz": text(outputs.viz),
        "seconds": rounded(time.monotonic() - started),
    }


def _estimate_rest(
    load_estimator: LoadEstimator, earlier: EarlierRun, progress: bool, label: str
) -> Summary:
    """Compute the flows that are not there yet, and write all that is missing."""
    with ExitStack() as stack:
        source = stack.enter_context(open_frames(earlier.video, earlier.selection))
        (height, width), loads = _two_or_more(source)
        kept = earlier.usable_flows(height, width)
        # before there are threads, which it outlives
        sink = stack.enter_context(VideoSink(earlier.outputs, source, kept, height, width))
        if not sink.needs_frames:
            loads = _behind_kept(loads, sink)
        frames = stack.enter_context(closing(prefetch(loads)))
        estimator = load_estimator()
        sink.paint = estimator.flow_to_color
        sink.record = earlier.new_record(estimator, height, width, kept)
        pairs = (source.expected_frames or 1) - 1
        bar = stack.enter_context(progress_bar(pairs, progress, unit="pair", label=label))
        stack.callback(lambda: bar.update(sink.flows - bar.n))  # of the flows written last
        at_hand = FramesAtHand(frames) if sink.needs_frames else None
        rest = at_hand.beyond() if at_hand else frames
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
            raise VideoError(f"{error}; {sink.what_is_kept()}") from error
        except KeyboardInterrupt:
            sink.finish()
            sink.write_record(source)
            raise KeyboardInterrupt(sink.kept_for_later()) from None
    sink.write_record(source, complete=True)  # the colour video is on its place only now
    return {
        "outcome": "done",
        "frames": sink.flows + 1,
        "flows": sink.flows,
        "flows_kept": sink.kept,
        **shown(earlier.outputs.viz_settings()),
        "max_flow_px": rounded(sink.scale_px),
        "width": width,
        "height": height,
        **provenance(estimator),
    }


def _check_outputs(outputs: VideoOutputs, video: Path) -> None:
    viz = outputs.viz
    if viz:
        check_video_suffix(viz)
    flow = outputs.folder and flow_file(outputs.folder, 0, outputs.suffix)
    if flow:
        check_flow_suffix(flow)
    check_no_frames(filter(None, (flow, viz)), [video])
    check_nothing_lost([viz], [video])
    for own in outputs.folders():
        check_folder(own, "flow files go into a folder", any_name=outputs.own_folders)
    if viz and viz.parent not in outputs.folders():  # which may have to be made
        check_writable(viz)


@contextmanager
def _telling_of_removal(outputs: VideoOutputs) -> Iterator[None]:
    """Say so when writing failed since a folder, there before, is gone: not that it is missing."""
    try:
        yield
    except OutputError as error:
        for folder in filter(None, (outputs.folder, outputs.viz and outputs.viz.parent)):
            if not folder.is_dir():
                raise OutputError(
                    f"the folder {folder} was removed while files were written into it; give the "
                    "same command again"
                ) from error
        raise


def _behind_kept(loads: Iterator[LoadImage], sink: VideoSink) -> Iterator[LoadImage]:
    """Yield what loads the frames of flows to be computed, once it is known which ones stay."""
    yield from islice(loads, sink.kept, None)


def _two_or_more(source: FrameSource) -> tuple[tuple[int, int], Iterator[LoadImage]]:
    """Return height and width, and what loads the frames of a source; the first two are loaded."""
    loads = source.loads()
    first_two = [load() for load in islice(loads, 2)]
    if len(first_two) < 2:
        raise VideoError(f"{source.path} has one frame only; flow needs two")
    again = [partial(_same, image) for image in first_two]
    return first_two[0].shape[:2], chain(again, loads)


def _same(image: Image) -> Image:
    return image


def _summary_of(record: Record, *, shows: bool) -> Summary:
    """Return the summary of what was complete before, with or without its colour video."""
    viz, weights = record.get("viz") if shows else None, record["weights"]
    scale = viz.get("max_flow_px") if viz else None
    return {
        "outcome": "skipped",
        "reason": "it is complete",
        "frames": record.get("frames"),
        "flows": record.get("flows"),
        "flows_kept": record.get("flows"),
        **shown(viz),
        "max_flow_px": rounded(scale),
        "width": record.get("width"),
        "height": record.get("height"),
        "weights": weights.get("name"),
        "weights_sha256": weights.get("sha256"),
        "device": record.get("device"),
        "precision": record.get("precision"),
        "network_scale": recorded_network_scale(record),
    }
