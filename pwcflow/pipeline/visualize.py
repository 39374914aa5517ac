"""Flow files in, pictures out: needs no torch."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pwcflow.atomic_file import check_writable
from pwcflow.color.scale import FoundScale, MaxFlow, name_of_rule
from pwcflow.errors import FlowFileError, ImageError, OutputError
from pwcflow.flow_file import Flow, files_of_flow, read_flow
from pwcflow.image_file import check_image_suffix, write_image
from pwcflow.outputs import check_folder, check_nothing_lost, make_folder
from pwcflow.pipeline.flow_tree import flow_files_below
from pwcflow.progress import progress_bar
from pwcflow.visualization import (
    DEFAULT_LOOK,
    Look,
    check_parts,
    draw,
    scale_for,
    scale_settings,
    style_of,
)
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
            `flow_file` itself.

    Returns:
        what was done, for a person or `--json`.

    Raises:
        ValueError: options do not go together.
        PwcFlowError: a file cannot be read, or the image cannot be written.
    """
    own = own_parts(flow_file)
    check_parts(look, {*beside.given(), *own}, beside.given())
    if not beside.backward and "backward" in own and "backward" in style_of(look).parts:
        beside = replace(beside, backward=flow_file)
    check_image_suffix(output)
    check_nothing_lost([output], [*files_of_flow(flow_file), *beside.files()])
    check_writable(output)
    flow = read_flow(flow_file)
    scale = scale_for(flow, max_flow, look)
    write_image(output, draw(beside.read(flow, flow_file), look, scale))
    return _summary(flow_file, output, 1, scale, max_flow, look)


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
        beside: folders with what the style needs beside the flows; see `scenes_of`.
        progress: show a progress bar on stderr.

    Returns:
        what was done, for a person or `--json`.

    Raises:
        ValueError: options do not go together.
        PwcFlowError: a flow cannot be read, or an image cannot be written.
    """
    if beside.second:
        raise ValueError("--second is for one flow; --frame names the folder of all frames")
    there = [*beside.given(), *(["second"] if beside.frame else [])]
    check_parts(look, there, beside.given())
    images = _images_of(folder, output)
    check_folder(output, f"{folder} is a folder, so its images go into a folder")
    used = style_of(look).parts
    scenes = scenes_of(folder, list(images.values()), beside)
    inputs = chain.from_iterable(map(files_of_flow, images.values()))
    check_nothing_lost(images, [*inputs, *chain(*map(SceneFiles.files, scenes.values()))])
    rule = max_flow or "sequence"
    two_passes = style_of(look).has_scale and rule in ("sequence", "percentile")
    with progress_bar(len(images) * (1 + two_passes), progress, unit="file") as bar:
        if two_passes:
            found = FoundScale(rule, look.color_code().smallest_scale_px)
            for flow_file in images.values():
                found.add(_read(flow_file))
                bar.update()
            rule = found.scale()
        for image, flow_file in images.items():
            flow = _read(flow_file)
            scene = scenes[flow_file].only(used).read(flow, flow_file)
            with _naming(flow_file):
                picture = draw(scene, look, scale_for(flow, rule, look))
            make_folder(image.parent)
            write_image(image, picture)
            bar.update()
    scale = None if rule == "frame" or not style_of(look).has_scale else float(rule)
    return _summary(folder, output, len(images), scale, max_flow, look)


def _images_of(folder: Path, output: Path) -> dict[Path, Path]:
    """Return the flow file that each image is made of, by the image, in natural order."""
    if os.path.realpath(output) == os.path.realpath(folder):
        raise OutputError(f"cannot write images into {folder}, where they would be taken for flow")
    images: dict[Path, Path] = {}
    for flow_file in flow_files_below(folder, but=output):
        image = output / flow_file.relative_to(folder).with_suffix(".png")
        if image in images:
            raise OutputError(
                f"{images[image]} and {flow_file} would both become {image}; rename one"
            )
        images[image] = flow_file
    return images


def _read(flow_file: Path) -> Flow:
    """Return a flow of a folder, where a file may lie that has no place there."""
    try:
        return read_flow(flow_file)
    except FlowFileError as error:
        raise FlowFileError(f"{error}, or move it out of {flow_file.parent}") from error


@contextmanager
def _naming(flow_file: Path) -> Iterator[None]:
    """Say of which flow it is that something does not fit, as there are many."""
    try:
        yield
    except (ImageError, OutputError) as error:
        raise type(error)(f"{flow_file}: {error}") from error


def _summary(
    source: Path,
    output: Path,
    images: int,
    scale: float | None,
    max_flow: MaxFlow | None,
    look: Look,
) -> dict[str, Any]:
    return {
        "input": str(source),
        "output": str(output),
        "images": images,
        "style": look.style,
        "scale": scale_settings(look, name_of_rule(max_flow))["scale"],
        "max_flow_px": None if scale is None else round(scale, 3),
    }
