"""Two images in, their flow, the flow back, and a picture out."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pwcflow import __version__
from pwcflow.atomic_file import check_writable
from pwcflow.color import largest_magnitude
from pwcflow.color.scale import MaxFlow, name_of_rule
from pwcflow.errors import ImageError
from pwcflow.flow_file import Metadata, check_flow_suffix, files_of_flow, read_flow, write_flow
from pwcflow.image_file import Image, check_image_suffix, read_image, write_image
from pwcflow.outputs import check_nothing_lost
from pwcflow.pipeline.summary import (
    LoadEstimator,
    Summary,
    error_summary,
    provenance,
    rounded,
    shown,
    text,
)
from pwcflow.runs.provenance import UNITS
from pwcflow.visualization import (
    DEFAULT_LOOK,
    Look,
    Scene,
    check_parts,
    draw,
    scale_for,
    scale_settings,
    score_of,
    style_of,
)

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator


def estimate_pair(
    load_estimator: LoadEstimator,
    first: Path,
    second: Path,
    *,
    output: Path | None,
    viz: Path | None,
    backward: Path | None = None,
    max_flow: MaxFlow | None = None,
    look: Look = DEFAULT_LOOK,
    truth: Path | None = None,
) -> Summary:
    """Write the flow that carries the image `first` onto the image `second`.

    Formats that hold metadata get what made the flow, too. The flow back is estimated once, if
    `backward` or the style of the picture needs it.

    Args:
        load_estimator: returns the estimator to use.
        first: an image file.
        second: an image file of the same size.
        output: the flow file, in the format of its suffix.
        viz: the picture of the flow.
        backward: a flow file for the flow that carries `second` onto `first`, in the pixels of
            `second`; it may be `output`, if that is an .exr.
        max_flow: the magnitude shown fully saturated, in pixels, or how it is found; when None the
            largest one, but at least 1 px.
        look: the style of the picture, and what belongs to it.
        truth: the file of the true flow, for a style that needs it.

    Raises:
        ValueError: options do not go together.
        PwcFlowError: an image cannot be read, the sizes differ, or an output cannot be written.
    """
    style = style_of(look)
    check_parts(look, [*("frame", "second", "backward"), *(["truth"] if truth else [])])
    in_one = _holds_both(output, backward)
    inputs = [first, second, *(files_of_flow(truth) if truth else [])]
    _check_outputs([output, None if in_one else backward], viz, inputs)
    started = time.monotonic()
    images = _read_pair(first, second)
    true_flow = read_flow(truth) if truth else None
    estimator = load_estimator()
    flow = estimator(*images)
    needs_back = backward or (viz and "backward" in style.parts)
    back = estimator(*reversed(images)) if needs_back else None
    scale = picture = score = None
    if viz:
        scale = scale_for(flow, max_flow, look)
        scene = Scene(
            flow=flow,
            frame=images[0] if "frame" in style.parts else None,
            second=images[1] if "second" in style.parts else None,
            truth=true_flow,
            backward=back if "backward" in style.parts else None,
        )
        picture = draw(scene, look, scale)  # what does not fit is told before anything is written
        score = score_of(scene)
    there, again = _metadata(estimator, first, second), _metadata(estimator, second, first)
    if output and in_one:
        there["direction"] = "forward and backward"
        write_flow(output, flow, metadata=there, backward=back)
    elif output:
        write_flow(output, flow, metadata=there)
    if backward and back is not None and not in_one:
        write_flow(backward, back, metadata={**again, "direction": "backward"})
    if viz and picture is not None:
        write_image(viz, picture)
    return {
        "first": str(first),
        "second": str(second),
        "flow": text(output),
        "backward": text(backward),
        "viz": text(viz),
        **shown(scale_settings(look, name_of_rule(max_flow)) if viz else None),
        "max_flow_px": rounded(scale),
        "width": flow.shape[1],
        "height": flow.shape[0],
        "largest_motion_px": rounded(largest_magnitude(flow)),
        **error_summary([score]),
        **provenance(estimator),
        "seconds": rounded(time.monotonic() - started),
    }


def _holds_both(output: Path | None, backward: Path | None) -> bool:
    """Return whether one file is to take the flows of both directions."""
    if output is None or backward is None or output.suffix.lower() != ".exr":
        return False
    return os.path.realpath(output) == os.path.realpath(backward)


def _metadata(estimator: "FlowEstimator", first: Path, second: Path) -> Metadata:
    """Return what a flow file tells of a pair, if its format can."""
    return {
        "pwcflow": __version__,
        "first": str(first),
        "second": str(second),
        "direction": "forward",
        "units": UNITS,
        **provenance(estimator),
    }


def _check_outputs(flows: list[Path | None], viz: Path | None, inputs: list[Path]) -> None:
    for path in filter(None, flows):
        check_flow_suffix(path)
    if viz:
        check_image_suffix(viz)
    check_nothing_lost([*flows, viz], inputs)
    for path in filter(None, (*flows, viz)):
        check_writable(path)


def _read_pair(first: Path, second: Path) -> tuple[Image, Image]:
    images = read_image(first), read_image(second)
    sizes = [f"{image.shape[1]} x {image.shape[0]}" for image in images]
    if sizes[0] != sizes[1]:
        raise ImageError(
            f"{first} is {sizes[0]} pixels but {second} is {sizes[1]}: flow needs two images of "
            "one size; resize or crop one of them"
        )
    return images
