"""What the commands do: sources of images in, the estimator, files out.

Nothing here imports torch. The estimator is loaded by a function that is called once the inputs
were found to be in order, so that a mistake is told at once and `visualize` needs no torch at all.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from pwcflow.color import SMALLEST_SCALE_PX, flow_to_color, largest_magnitude
from pwcflow.errors import FlowFileError, ImageError, OutputError, VideoError
from pwcflow.flow_file import FLOW_SUFFIXES, Flow, check_flow_suffix, read_flow, write_flow
from pwcflow.image_file import Image, check_image_suffix, read_image, write_image
from pwcflow.scale import RunningScale
from pwcflow.video import FrameSource, natural_key, open_frames
from pwcflow.video_writer import ColorVideoWriter, check_video_suffix

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator

LoadEstimator = Callable[[], "FlowEstimator"]
Summary = dict[str, Any]
"""What was done, for a person or `--json`."""

FOLDER_FPS = 25.0
"""Frames per second of a colour video made from a folder of frames."""


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
        max_flow: the magnitude in pixels shown fully saturated; the largest one when None.

    Raises:
        PwcFlowError: an image cannot be read, the sizes differ, or an output cannot be written.
    """
    if output:
        check_flow_suffix(output)
    if viz:
        check_image_suffix(viz)
    _check_nothing_lost([output, viz], [first, second])
    started = time.monotonic()
    images = read_image(first), read_image(second)
    sizes = [f"{image.shape[1]} x {image.shape[0]}" for image in images]
    if sizes[0] != sizes[1]:
        raise ImageError(
            f"{first} is {sizes[0]} pixels but {second} is {sizes[1]}: flow needs two images of "
            "one size; resize or crop one of them"
        )
    estimator = load_estimator()
    flow = estimator(*images)
    if output:
        write_flow(output, flow)
    if viz:
        write_image(viz, flow_to_color(flow, max_flow))
    return {
        "first": str(first),
        "second": str(second),
        "flow": _text(output),
        "viz": _text(viz),
        "width": flow.shape[1],
        "height": flow.shape[0],
        "largest_motion_px": round(largest_magnitude(flow), 3),
        **_provenance(estimator, started),
    }


def estimate_video(
    load_estimator: LoadEstimator,
    video: Path,
    *,
    folder: Path | None,
    viz: Path | None,
    max_flow: float | None = None,
    fps: float | None = None,
    progress: bool = False,
) -> Summary:
    """Write the flow between each two consecutive frames of a video.

    Frames are read, encoded once and forgotten one after the other: memory does not grow with the
    length. Each flow file is named by the number of its pair's first frame, from 0.

    Args:
        load_estimator: returns the estimator to use.
        video: a video file or a folder of frames.
        folder: where the flow files go, `000000.flo` and so on; made where missing.
        viz: the colour video.
        max_flow: the magnitude in pixels shown fully saturated; a running scale when None.
        fps: frames per second of the colour video; the video's own when None.
        progress: show a progress bar on stderr.

    Raises:
        PwcFlowError: the video has fewer than two frames or stops before its end (what came
            before is kept), or an output cannot be written.
    """
    if viz:
        check_video_suffix(viz)
    _check_nothing_lost([viz], [video])
    started = time.monotonic()
    scale = RunningScale()
    flows = 0
    with ExitStack() as stack:
        source = stack.enter_context(open_frames(video))
        frames = iter(source)
        first_two = list(islice(frames, 2))
        if len(first_two) < 2:
            raise VideoError(f"{video} has one frame only; flow needs two")
        writer = (
            stack.enter_context(ColorVideoWriter(viz, fps or _frame_rate(source))) if viz else None
        )
        estimator = load_estimator()
        bar = stack.enter_context(_progress_bar((source.expected_frames or 1) - 1, progress))
        try:
            for flow in _flows_between(chain(first_two, frames), estimator):
                if folder:
                    _make_folder(folder)
                    write_flow(folder / f"{flows:06d}.flo", flow)
                if writer:
                    writer.write(flow_to_color(flow, max_flow or scale.update(flow)))
                flows += 1
                bar.update()
        except (VideoError, ImageError) as error:
            kept = "1 flow" if flows == 1 else f"{flows} flows"
            raise VideoError(f"{error}; kept what comes before: {kept}") from error
    return {
        "video": str(video),
        "frames": flows + 1,
        "flows": flows,
        "flow_folder": _text(folder),
        "viz": _text(viz),
        "width": flow.shape[1],
        "height": flow.shape[0],
        **_provenance(estimator, started),
    }


def visualize_file(flow_file: Path, output: Path, *, max_flow: float | None = None) -> Summary:
    """Write the Middlebury colour image of a flow file.

    Args:
        flow_file: the flow, in the format of its suffix.
        output: the image, in the format of its suffix.
        max_flow: the magnitude in pixels shown fully saturated; the largest one when None.

    Raises:
        PwcFlowError: the flow cannot be read, or the image cannot be written.
    """
    check_image_suffix(output)
    _check_nothing_lost([output], [flow_file])
    flow = read_flow(flow_file)
    scale = max_flow or _scale_of(flow)
    write_image(output, flow_to_color(flow, scale))
    return _visualized(flow_file, output, images=1, scale=scale)


def visualize_folder(
    folder: Path, output: Path, *, max_flow: float | None = None, progress: bool = False
) -> Summary:
    """Write the Middlebury colour image of each flow file in a folder, all to one scale.

    The scale is the largest magnitude of them all, so that a vector has one colour throughout.
    Finding it takes a second reading of the files, but never the memory for more than one.

    Args:
        folder: the folder of flow files; other files in it are passed over.
        output: the folder of the PNG images; made where missing.
        max_flow: the magnitude in pixels shown fully saturated; the largest one when None.
        progress: show a progress bar on stderr.

    Raises:
        PwcFlowError: a flow cannot be read, or an image cannot be written.
    """
    images = _images_of(folder, output)
    with _progress_bar(len(images) * (1 if max_flow else 2), progress, unit="file") as bar:
        scale = max_flow or 0.0
        if not max_flow:
            for flow_file in images.values():
                scale = max(scale, _scale_of(read_flow(flow_file)))
                bar.update()
        _make_folder(output)
        for image, flow_file in images.items():
            write_image(image, flow_to_color(read_flow(flow_file), scale))
            bar.update()
    return _visualized(folder, output, images=len(images), scale=scale)


def _flows_between(frames: Iterable[Image], estimator: "FlowEstimator") -> Iterator[Flow]:
    """Yield the flow from each frame to the next; each frame is encoded once."""
    for first, second in pairwise(map(estimator.encode, frames)):
        yield estimator.decode(first, second)


def _check_nothing_lost(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Raise `OutputError` if an output would take the place of an input, or of another output."""
    taken = {os.path.realpath(path) for path in inputs}
    for output in filter(None, outputs):
        if os.path.realpath(output) in taken:
            raise OutputError(
                f"cannot write {output}: it is an input, or another output; choose another name"
            )
        taken.add(os.path.realpath(output))


def _frame_rate(source: FrameSource) -> float:
    if source.fps:
        return source.fps
    if source.path.is_dir():
        return FOLDER_FPS
    raise VideoError(f"{source.path} does not tell its frame rate; add --fps")


def _images_of(folder: Path, output: Path) -> dict[Path, Path]:
    """Return the flow file that each colour image is made of, by the image, in natural order."""
    if output.resolve() == folder.resolve():
        raise OutputError(f"cannot write images into {folder}, where they would be taken for flow")
    try:
        entries = sorted(folder.iterdir(), key=natural_key)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FlowFileError(f"cannot list {folder}: {reason}; check its permissions") from error
    images: dict[Path, Path] = {}
    for flow_file in entries:
        visible = not flow_file.name.startswith(".")  # nor a file that is being written
        if visible and flow_file.suffix.lower() in FLOW_SUFFIXES and flow_file.is_file():
            image = output / f"{flow_file.stem}.png"
            if image in images:
                raise OutputError(
                    f"{images[image]} and {flow_file} would both become {image}; rename one"
                )
            images[image] = flow_file
    if not images:
        known = ", ".join(sorted(FLOW_SUFFIXES))
        raise FlowFileError(f"{folder} has no flow files in it, whose names end in {known}")
    return images


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"cannot make the folder {folder}: {reason}; choose another") from error


def _progress_bar(total: int, progress: bool, unit: str = "pair") -> "tqdm[None]":
    """Return a bar on stderr; `total` 0 is an unknown end. Not shown where no one watches."""
    shown = progress and sys.stderr is not None
    return tqdm(total=total or None, unit=unit, disable=None if shown else True)


def _scale_of(flow: Flow) -> float:
    return max(largest_magnitude(flow), SMALLEST_SCALE_PX)


def _provenance(estimator: "FlowEstimator", started: float) -> Summary:
    return {
        "weights": estimator.weights.name,
        "weights_sha256": estimator.weights.sha256,
        "device": str(estimator.device),
        "precision": estimator.precision,
        "seconds": round(time.monotonic() - started, 3),
    }


def _visualized(source: Path, output: Path, *, images: int, scale: float) -> Summary:
    return {"input": str(source), "output": str(output), "images": images, "max_flow_px": scale}


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
