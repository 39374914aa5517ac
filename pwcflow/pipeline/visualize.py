"""Flow files in, pictures or a video of them out: needs no torch."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pwcflow.atomic_file import check_writable
from pwcflow.color.scale import MaxFlow, name_of_rule
from pwcflow.errors import FlowFileError, OutputError
from pwcflow.evaluation import Score
from pwcflow.flow_file import files_of_flow, read_flow
from pwcflow.image_file import check_image_suffix, write_image
from pwcflow.outputs import (
    check_folder,
    check_no_flows,
    check_no_frames,
    check_nothing_lost,
    make_folder,
)
from pwcflow.overlap import WriteBehind
from pwcflow.pipeline.flow_frames import FlowFrames
from pwcflow.pipeline.flow_pictures import FlowPictures
from pwcflow.pipeline.flow_tree import flow_files_below
from pwcflow.pipeline.summary import error_summary
from pwcflow.processors import usable_processors
from pwcflow.progress import progress_bar
from pwcflow.runs.recorded_frames import has_record, recorded_frames
from pwcflow.video import DEFAULT_FPS
from pwcflow.video_writer import check_video_suffix, color_writer
from pwcflow.visualization import (
    DEFAULT_LOOK,
    Look,
    Picture,
    check_parts,
    draw,
    picture_size,
    scale_for,
    scale_settings,
    score_of,
    style_of,
)
from pwcflow.visualization.scene import FRAMES
from pwcflow.visualization.scene_files import SceneFiles, own_parts, scenes_of

NOTHING_BESIDE = SceneFiles()


def visualize_file(
    flow_file: Path,
    output: Path,
    *,
    max_flow: MaxFlow | None = None,
    look: Look = DEFAULT_LOOK,
    beside: SceneFiles = NOTHING_BESIDE,
) -> dict[str, Any]:
    """Write a picture of a flow file.

    Args:
        flow_file: the flow, in the format of its suffix.
        output: the image, in the format of its suffix.
        max_flow: the magnitude shown fully saturated; when None the largest one, but at least 1 px.
        look: the style, and what belongs to it.
        beside: the files that the style needs beside the flow; the flow back may be in
            `flow_file` itself. Where `frame` and `second` are None and the style needs them,
            they are those that the record beside the flow tells of.

    Returns:
        what was done, for a person or `--json`.

    Raises:
        ValueError: options do not go together.
        PwcFlowError: a file cannot be read, or the image cannot be written.
    """
    own = own_parts(flow_file)
    frames = None
    if _are_to_be_found(flow_file, look, beside):
        frames = FlowFrames.recorded([flow_file], "name its two frames with --frame and --second")
    check_parts(look, {*beside.given(), *own, *(FRAMES if frames else ())}, beside.given())
    if not beside.backward and "backward" in own and "backward" in style_of(look).parts:
        beside = replace(beside, backward=flow_file)
    check_image_suffix(output)
    _check_inputs([output], {flow_file: beside}, frames)
    check_writable(output)
    flow = read_flow(flow_file)
    scale = scale_for(flow, max_flow, look)
    scene = beside.read(flow, flow_file)
    if frames:
        with frames:
            scene = frames.added_to(scene, flow_file)
    write_image(output, draw(scene, look, scale))
    return _summary(flow_file, output, [score_of(scene)], scale, max_flow, look)


def visualize_folder(
    folder: Path,
    output: Path,
    *,
    max_flow: MaxFlow | None = None,
    look: Look = DEFAULT_LOOK,
    beside: SceneFiles = NOTHING_BESIDE,
    progress: bool = False,
) -> dict[str, Any]:
    """Write a picture of each flow file in a folder, and in the folders in it, all to one scale.

    The scale is the largest magnitude of them all, so that a vector has one colour throughout.
    Finding it takes a second reading of the files, but never the memory for more than one.

    Args:
        folder: the folder of flow files; other files in it are passed over.
        output: the folder of the PNG images, in folders of the same names; made where missing.
        max_flow: the magnitude shown fully saturated, or how it is found; when None the largest
            one of all, but at least 1 px.
        look: the style, and what belongs to it.
        beside: folders with what the style needs beside the flows; see `scenes_of`. Of one folder
            `frame` may be a video of just the frames that the flows are of. A video or a folder
            with others, too, is taken of as the record beside the flows tells, if that gives as
            many as there should be. Where it is None and the style needs frames, they are those
            that the records beside the flows tell of.
        progress: show a progress bar on stderr.

    Returns:
        what was done, for a person or `--json`.

    Raises:
        ValueError: options do not go together.
        PwcFlowError: a flow cannot be read, or an image cannot be written.
    """
    images = _images_of(folder, output)
    check_folder(output, f"{folder} is a folder, so its images go into a folder")
    pictures = _pictures_of(folder, list(images), images.values(), look, beside, max_flow)
    files = list(images.values())

    def write(number: int, picture: Picture) -> None:
        write_image(files[number], picture)

    with (
        progress_bar(pictures.readings, progress, unit="file") as bar,
        WriteBehind([[(write, usable_processors())]], undo=lambda _: None) as behind,
    ):
        for flow_file, picture in pictures.drawn(bar.update):
            make_folder(images[flow_file].parent)
            behind.write(picture)
        behind.finish()
    return _summary(folder, output, pictures.scores, pictures.scale_px, max_flow, look)


def visualize_as_video(
    folder: Path,
    output: Path,
    *,
    max_flow: MaxFlow | None = None,
    look: Look = DEFAULT_LOOK,
    beside: SceneFiles = NOTHING_BESIDE,
    fps: float | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Write the pictures that `visualize_folder` makes of the flow files in a folder as one video.

    On KeyboardInterrupt the pictures that are drawn by then are kept; any other exception leaves
    `output` as it was.

    Args:
        folder: the folder of flow files, all of one size and in natural order; other files in it
            are passed over, folders with flows in them are an error.
        output: the video or animation, in the format of its suffix.
        max_flow: as for `visualize_folder`.
        look: the style, and what belongs to it.
        beside: as for `visualize_folder`.
        fps: frames per second; when None the rate of the frames that the flows were made of, as
            far as the record beside the flows knows it, else `DEFAULT_FPS`.
        progress: show a progress bar on stderr.

    Returns:
        what was done, for a person or `--json`.

    Raises:
        ValueError: options do not go together.
        PwcFlowError: a flow cannot be read or has another size, or the video cannot be written.
    """
    check_video_suffix(output)
    flow_files = flow_files_below(folder)
    deeper = next((path for path in flow_files if path.parent != folder), None)
    if deeper:
        raise FlowFileError(
            f"{deeper.parent} has flows in it, too, but a video is of those of one folder; name "
            f"that one, or give a folder for images instead of {output}"
        )
    check_writable(output)
    pictures = _pictures_of(folder, flow_files, [output], look, beside, max_flow)
    rate = fps or recorded_frames(flow_files).fps or DEFAULT_FPS
    video = color_writer(output, rate, selectable=False)
    video.check_size(*picture_size(look, *pictures.settle_size()), len(flow_files))
    try:
        with video, progress_bar(pictures.readings, progress, unit="file") as bar:
            for _, picture in pictures.drawn(bar.update):
                video.write(picture)
    except KeyboardInterrupt:
        done = video.frames_written
        kept = f"kept {done} of {len(flow_files)} pictures in {output}" if done else "wrote nothing"
        raise KeyboardInterrupt(kept) from None
    return _summary(folder, output, pictures.scores, pictures.scale_px, max_flow, look, rate)


def _pictures_of(
    folder: Path,
    flow_files: Sequence[Path],
    outputs: Collection[Path],
    look: Look,
    beside: SceneFiles,
    max_flow: MaxFlow | None,
) -> FlowPictures:
    """Return the pictures of a folder's flows, once nothing speaks against writing `outputs`."""
    frames = _frames_of_all(folder, flow_files, look, beside)
    scenes = scenes_of(folder, flow_files, beside, frames.folders if frames else ())
    _check_inputs(outputs, scenes, frames)
    _check_folders(outputs, scenes)
    return FlowPictures(scenes, look, max_flow, frames)


def _frames_of_all(
    folder: Path, flow_files: Sequence[Path], look: Look, beside: SceneFiles
) -> FlowFrames | None:
    """Return what gives the frames of a folder's flows that are not simply those of a folder.

    Raises:
        ValueError: the flows cannot be drawn with what is beside them.
        PwcFlowError: the frames are not there, or not as many.
    """
    if beside.second:
        raise ValueError("--second is for one flow; --frame names the folder of all frames")
    are_to_be_found = _are_to_be_found(folder, look, beside)
    there = [*beside.given(), *(FRAMES if beside.frame or are_to_be_found else ())]
    check_parts(look, there, beside.given())
    if are_to_be_found:
        remedy = "name their folder or video with --frame"
        return FlowFrames.recorded(flow_files, remedy)
    if not beside.frame:
        return None
    if beside.frame.is_file():
        return FlowFrames.of_video(flow_files, beside.frame)
    return FlowFrames.of_folders(folder, flow_files, beside.frame)


def _are_to_be_found(flows: Path, look: Look, beside: SceneFiles) -> bool:
    """Return whether the style needs frames that nobody has named, and a record may tell of."""
    given = beside.frame or beside.second
    return style_of(look).needs_frames and not given and has_record(flows)


def _check_inputs(
    outputs: Collection[Path], scenes: Mapping[Path, SceneFiles], frames: FlowFrames | None
) -> None:
    """Raise `OutputError` if an output would replace what is read, or be taken for a frame."""
    flows = chain.from_iterable(map(files_of_flow, scenes))
    others = chain.from_iterable(map(SceneFiles.files, scenes.values()))
    sources = frames.inputs if frames else ()
    check_nothing_lost(outputs, [*flows, *others, *sources])
    check_no_frames(_one_a_folder(outputs), sources)


def _check_folders(outputs: Collection[Path], scenes: Mapping[Path, SceneFiles]) -> None:
    """Raise `OutputError` if an output would be taken for one of the files in their folders."""
    beside = [(name, path) for of in scenes.values() for name, path in of.given().items()]
    frames = {path.parent for name, path in beside if name in FRAMES}
    flows = {path.parent for name, path in beside if name not in FRAMES}
    check_no_frames(_one_a_folder(outputs), frames)
    check_no_flows(_one_a_folder(outputs), {path.parent for path in scenes} | flows)


def _one_a_folder(outputs: Iterable[Path]) -> Collection[Path]:
    """Return an output of each folder, which stands for those beside it, of the same suffix."""
    return {output.parent: output for output in outputs}.values()


def _images_of(folder: Path, output: Path) -> dict[Path, Path]:
    """Return the image that is made of each flow file, by the flow file, in natural order."""
    if os.path.realpath(output) == os.path.realpath(folder):
        raise OutputError(f"cannot write images into {folder}, where they would be taken for flow")
    flow_files: dict[Path, Path] = {}
    for flow_file in flow_files_below(folder, but=output):
        image = output / flow_file.relative_to(folder).with_suffix(".png")
        if image in flow_files:
            raise OutputError(
                f"{flow_files[image]} and {flow_file} would both become {image}; rename one"
            )
        flow_files[image] = flow_file
    return {flow_file: image for image, flow_file in flow_files.items()}


def _summary(
    source: Path,
    output: Path,
    scores: Sequence[Score | None],
    scale: float | None,
    max_flow: MaxFlow | None,
    look: Look,
    fps: float | None = None,
) -> dict[str, Any]:
    return {
        "input": str(source),
        "output": str(output),
        "images": len(scores),
        "fps": fps,
        "style": look.style,
        "scale": scale_settings(look, name_of_rule(max_flow))["scale"],
        "max_flow_px": None if scale is None else round(scale, 3),
        **error_summary(scores),
    }
