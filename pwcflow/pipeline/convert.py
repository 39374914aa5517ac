"""Flow files from one format into another: needs no torch."""

from pathlib import Path
from typing import Any

from pwcflow.atomic_file import check_writable
from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file import (
    FLOW_SUFFIXES,
    Direction,
    check_flow_suffix,
    files_of_flow,
    kind_of,
    pair,
    read_flow,
    read_metadata,
    write_flow,
)
from pwcflow.outputs import check_folder, check_nothing_lost, make_folder
from pwcflow.pipeline.flow_tree import flow_files_below
from pwcflow.progress import progress_bar
from pwcflow.runs.provenance import (
    ReadRecord,
    provenance_of_flow,
    read_record,
    remembering_record,
)

_PAIRS = {"jpg": ".jpg", "png8": ".png"}

FORMATS = (*(suffix[1:] for suffix in FLOW_SUFFIXES), *_PAIRS)
"""What a folder can be converted to: "png" is KITTI's; "jpg" and "png8" are pairs of pictures."""


def convert_file(
    source: Path,
    output: Path,
    *,
    bound: float | None = None,
    direction: Direction = "forward",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write the flow of one file in the format of another.

    What the file tells of itself goes along where the new format can hold it, or else what the
    record of a run beside it tells of it.

    Args:
        source: the flow file, or the u half of a pair of 8-bit pictures.
        output: the file to write; its suffix decides the format. A .jpg, or with `bound` a .png
            called NAME_x or NAME_x_0001, is the u half of a pair.
        bound: the motion in pixels that is white in a pair: in the one to write, and in one to read
            that does not record it.
        direction: which flow of an .exr; into another .exr go both.
        overwrite: replace an output that exists; else that is an error.

    Returns:
        what was done, for a person or `--json`; "lost_pixels" counts those beyond what the format
        holds, and unknown ones where it cannot tell them.

    Raises:
        PwcFlowError: the flow cannot be read, or not be written.
    """
    as_pair = _is_pair(output, bound)
    if bound and not as_pair and not pair.holds_half(source):
        raise OutputError(
            f"--bound {bound:g} is for a pair of 8-bit pictures, and neither {source} nor {output} "
            f"is one; name the output {pair.half_of(output.stem)}.png, or leave --bound away"
        )
    _check_direction(direction, output.suffix)
    _check_output(output, bound if as_pair else None, as_pair)
    _check_files({output: source}, as_pair, overwrite)
    for path in _written(output, as_pair):
        check_writable(path)
    lost = _convert(source, output, bound, as_pair, direction, read_record)
    return _summary(source, output, 1, lost)


def convert_folder(
    folder: Path,
    output: Path,
    to: str,
    *,
    bound: float | None = None,
    direction: Direction = "forward",
    overwrite: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Write each flow of a folder, and of the folders in it, into another, in one format.

    Names and folders stay as they are, but for the suffix: a/000000.flo becomes a/000000.npz, or
    the pair a/flow_x_000000.jpg and a/flow_y_000000.jpg. Hidden files, and those that are no flow
    by their names, are passed over. Nothing is written if one output is there already, or if two
    would be the same.

    Args:
        folder: where the flow files are.
        output: where the new ones go; made where missing, with its parents.
        to: one of FORMATS.
        bound: as for `convert_file`.
        direction: as for `convert_file`.
        overwrite: replace outputs that exist; else they are an error.
        progress: show a progress bar on stderr.

    Returns:
        what was done, as `convert_file`.

    Raises:
        PwcFlowError: a flow cannot be read, or not be written; those before it are kept.
    """
    as_pair = to in _PAIRS
    sources = _outputs_of(folder, output, _PAIRS.get(to, f".{to}"), as_pair)
    if bound and not as_pair and not any(map(pair.holds_half, sources.values())):
        raise OutputError(
            f"--bound {bound:g} is for pairs of 8-bit pictures, and there are none in {folder}; "
            "give --to jpg or --to png8 to write them, or leave --bound away"
        )
    _check_direction(direction, f".{to}")
    _check_output(next(iter(sources)), bound if as_pair else None, as_pair)
    _check_files(sources, as_pair, overwrite)
    check_folder(output, f"{folder} is a folder, so its flows go into a folder")
    lost = done = 0
    read = remembering_record()
    try:
        with progress_bar(len(sources), progress, unit="file") as bar:
            for path, source in sources.items():
                make_folder(path.parent)
                lost += _convert(source, path, bound, as_pair, direction, read, of_folder=True)
                done += 1
                bar.update()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"kept {done} of {len(sources)} files in {output}") from None
    return _summary(folder, output, done, lost)


def _convert(
    source: Path,
    output: Path,
    bound: float | None,
    as_pair: bool,
    direction: Direction,
    read: ReadRecord,
    *,
    of_folder: bool = False,
) -> int:
    """Return how many pixels were lost."""
    try:
        needs_bound = pair.holds_half(source) and not (as_pair and kind_of(source).bound)
        flow = read_flow(source, bound=bound if needs_bound else None, direction=direction)
        metadata = read_metadata(source) or provenance_of_flow(source, read)
        has_both = output.suffix.lower() == ".exr" and "backward" in kind_of(source).directions
        backward = read_flow(source, direction="backward") if has_both else None
    except FlowFileError as error:
        if not of_folder:
            raise
        raise FlowFileError(f"{error}, or move it out of {source.parent}") from error
    return write_flow(
        output, flow, bound=bound if as_pair else None, metadata=metadata, backward=backward
    )


def _outputs_of(folder: Path, output: Path, suffix: str, as_pair: bool) -> dict[Path, Path]:
    """Return the flow that each output is made of, by the output, in natural order."""
    sources: dict[Path, Path] = {}
    for source in flow_files_below(folder, but=output):
        stem = pair.stem_of(source) if pair.holds_half(source) else source.stem
        stem = pair.half_of(stem) if as_pair else stem
        path = output / source.relative_to(folder).with_name(f"{stem}{suffix}")
        if path in sources:
            raise OutputError(
                f"{sources[path]} and {source} would both become {path}; rename one, or move it out"
            )
        sources[path] = source
    return sources


def _is_pair(output: Path, bound: float | None) -> bool:
    suffix = output.suffix.lower()
    return suffix in pair.JPEG_SUFFIXES or bool(bound and pair.is_half(output, "x"))


def _written(output: Path, as_pair: bool) -> list[Path]:
    return [output, pair.other_half(output)] if as_pair else [output]


def _check_output(output: Path, bound: float | None, as_pair: bool) -> None:
    """Raise unless `write_flow` takes the name of an output."""
    if as_pair:
        pair.check_half(output)
        if not bound:
            raise OutputError(
                f"cannot write {output}: a pair of 8-bit pictures needs to know which motion is "
                "white; give --bound PX, most often 20"
            )
    check_flow_suffix(output, bound=bound)


def _check_direction(direction: Direction, suffix: str) -> None:
    if direction == "backward" and suffix.lower() == ".exr":
        raise OutputError("an .exr keeps both directions; leave --direction away")


def _check_files(sources: dict[Path, Path], as_pair: bool, overwrite: bool) -> None:
    """Raise if an output would replace an input, or without `overwrite` any file."""
    inputs = [path for source in sources.values() for path in files_of_flow(source)]
    outputs = [path for output in sources for path in _written(output, as_pair)]
    check_nothing_lost(outputs, inputs)
    existing = next((path for path in outputs if path.is_file()), None)
    if existing and not overwrite:
        raise OutputError(
            f"cannot write {existing}: it is there already; give --overwrite to replace it, or "
            "another name"
        )


def _summary(source: Path, output: Path, files: int, lost: int) -> dict[str, Any]:
    return {
        "input": str(source),
        "output": str(output),
        "flows": files,
        "lost_pixels": lost,
    }
