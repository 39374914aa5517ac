"""Flow files in, colour images out: needs no torch."""

from pathlib import Path
from typing import Any

from pwcflow.atomic_file import check_writable
from pwcflow.color import flow_to_color
from pwcflow.errors import FlowFileError, OutputError, reason_of
from pwcflow.flow_file import FLOW_SUFFIXES, Flow, is_flow_name, read_flow
from pwcflow.image_file import check_image_suffix, write_image
from pwcflow.outputs import check_folder, check_nothing_lost, make_folder
from pwcflow.progress import progress_bar
from pwcflow.scale import scale_of
from pwcflow.video import natural_key


def visualize_file(
    flow_file: Path, output: Path, *, max_flow: float | None = None
) -> dict[str, Any]:
    """Write the Middlebury colour image of a flow file.

    Args:
        flow_file: the flow, in the format of its suffix.
        output: the image, in the format of its suffix.
        max_flow: the magnitude in pixels shown fully saturated; when None the largest one, but at
            least 1 px.

    Returns:
        what was done, for a person or `--json`.

    Raises:
        PwcFlowError: the flow cannot be read, or the image cannot be written.
    """
    check_image_suffix(output)
    check_nothing_lost([output], [flow_file])
    check_writable(output)
    flow = read_flow(flow_file)
    scale = max_flow or scale_of(flow)
    write_image(output, flow_to_color(flow, scale))
    return _summary(flow_file, output, images=1, scale=scale)


def visualize_folder(
    folder: Path, output: Path, *, max_flow: float | None = None, progress: bool = False
) -> dict[str, Any]:
    """Write the Middlebury colour image of each flow file in a folder, all to one scale.

    The scale is the largest magnitude of them all, so that a vector has one colour throughout.
    Finding it takes a second reading of the files, but never the memory for more than one.

    Args:
        folder: the folder of flow files; other files in it are passed over.
        output: the folder of the PNG images; made where missing.
        max_flow: the magnitude in pixels shown fully saturated; when None the largest one, but at
            least 1 px.
        progress: show a progress bar on stderr.

    Returns:
        what was done, for a person or `--json`.

    Raises:
        PwcFlowError: a flow cannot be read, or an image cannot be written.
    """
    images = _images_of(folder, output)
    check_folder(output, f"{folder} is a folder, so its images go into a folder")
    with progress_bar(len(images) * (1 if max_flow else 2), progress, unit="file") as bar:
        scale = max_flow or 0.0
        if not max_flow:
            for flow_file in images.values():
                scale = max(scale, scale_of(_read(flow_file)))
                bar.update()
        make_folder(output)
        for image, flow_file in images.items():
            write_image(image, flow_to_color(_read(flow_file), scale))
            bar.update()
    return _summary(folder, output, images=len(images), scale=scale)


def _images_of(folder: Path, output: Path) -> dict[Path, Path]:
    """Return the flow file that each colour image is made of, by the image, in natural order."""
    if output.resolve() == folder.resolve():
        raise OutputError(f"cannot write images into {folder}, where they would be taken for flow")
    try:
        entries = sorted(folder.iterdir(), key=natural_key)
    except OSError as error:
        raise FlowFileError(
            f"cannot list {folder}: {reason_of(error)}; check its permissions"
        ) from error
    images: dict[Path, Path] = {}
    for flow_file in entries:
        if is_flow_name(flow_file) and flow_file.is_file():
            image = output / f"{flow_file.stem}.png"
            if image in images:
                raise OutputError(
                    f"{images[image]} and {flow_file} would both become {image}; rename one"
                )
            images[image] = flow_file
    if not images:
        known = ", ".join(FLOW_SUFFIXES)
        raise FlowFileError(f"{folder} has no flow files in it, whose names end in {known}")
    return images


def _read(flow_file: Path) -> Flow:
    """Return a flow of a folder, where a file may lie that has no place there."""
    try:
        return read_flow(flow_file)
    except FlowFileError as error:
        raise FlowFileError(f"{error}, or move it out of {flow_file.parent}") from error


def _summary(source: Path, output: Path, *, images: int, scale: float) -> dict[str, Any]:
    return {
        "input": str(source),
        "output": str(output),
        "images": images,
        "max_flow_px": round(scale, 3),
    }
