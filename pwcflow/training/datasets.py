"""The public data sets of pairs with true flow: where their files lie, and how to read them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from pwcflow.errors import FlowFileError, ImageError, PwcFlowError
from pwcflow.evaluation import manifest_rows
from pwcflow.flow_file import Flow, known_pixels, read_flow
from pwcflow.image_file import read_image
from pwcflow.image_file.damage import check_layout
from pwcflow.training.augment import Image8, Sample

SPRING_SUFFIX = ".flo5"
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True)
class PairFiles:
    """The files of a pair."""

    first: Path
    second: Path
    flow: Path
    sparse: bool = False
    """The flow is known at scattered pixels only."""
    invalid: Path | None = None
    """An image that is white where the flow is not to be used."""
    rendering: str = ""
    """Such as clean or final, where the data set has its frames more than once."""


def find_pairs(kind: str, folder: Path) -> list[PairFiles]:
    """Return the pairs of a data set, in order; true flow without both its images is left out.

    Args:
        kind: one of KINDS.
        folder: where the data set has been unpacked, or a CSV file for "manifest".

    Raises:
        PwcFlowError: there is no pair, or a package to read them is missing.
    """
    row = _KINDS[kind]
    if row.package is not None:
        _import(row.package, kind)
    pairs = [p for p in row.find(folder) if p.first.is_file() and p.second.is_file()]
    if not pairs:
        raise PwcFlowError(f"there are no {kind} pairs in {folder}: looked for {row.looked_for}")
    return pairs


def read_pair(pair: PairFiles) -> Sample:
    """Return the images of a pair in 8 bits, and its flow.

    Raises:
        ImageError: an image cannot be read.
        FlowFileError: the flow cannot be read, or is of another size than the images.
    """
    first, second = _read_image(pair.first), _read_image(pair.second)
    flow = _read_flow(pair.flow)
    valid = known_pixels(flow)
    if pair.invalid is not None:
        invalid = _read_image(pair.invalid)
        if invalid.shape[:2] == valid.shape:  # else told below
            valid &= invalid[..., 0] == 0
    else:
        invalid = first
    if not first.shape == second.shape == invalid.shape == (*flow.shape[:2], 3):
        raise FlowFileError(
            f"{pair.flow} is not of the size of its images {pair.first} and {pair.second}; "
            "check where they came from"
        )
    return Sample(first, second, np.where(valid[..., None], flow, np.float32(0)), valid)


def _chairs(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, "*_flow.flo", "data/*_flow.flo"):
        first, second = (
            flow.with_name(flow.name.replace("_flow.flo", f"_img{i}.ppm")) for i in (1, 2)
        )
        yield PairFiles(first, second, flow)


def _things(folder: Path) -> Iterator[PairFiles]:
    """Yield the left camera's pairs; flow into the past is that from a frame to the one before."""
    for flow in _files(folder, "optical_flow/TRAIN/*/*/into_*/left/*.pfm"):
        scene = flow.parents[2].relative_to(folder / "optical_flow")
        step = 1 if flow.parents[1].name == "into_future" else -1
        number = _LAST_NUMBER.search(flow.stem)
        for rendering in ("frames_cleanpass", "frames_finalpass"):
            first = folder / rendering / scene / "left" / f"{number[0] if number else ''}.png"
            yield PairFiles(first, _neighbour(first, step), flow, rendering=rendering)


def _sintel(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, "training/flow/*/*.flo", "flow/*/*.flo"):
        root, name = flow.parents[2], f"{flow.parent.name}/{flow.stem}.png"
        invalid = root / "invalid" / name
        for rendering in ("clean", "final"):
            first = root / rendering / name
            yield PairFiles(
                first,
                _neighbour(first),
                flow,
                invalid=invalid if invalid.is_file() else None,
                rendering=rendering,
            )


def _kitti(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, "training/flow_occ/*.png", "flow_occ/*.png"):
        for camera in ("image_2", "colored_0"):  # of 2015 and of 2012
            first = flow.parents[1] / camera / flow.name
            yield PairFiles(first, _neighbour(first), flow, sparse=True)


def _hd1k(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, "hd1k_flow_gt/flow_occ/*.png"):
        first = folder / "hd1k_input" / "image_2" / flow.name
        yield PairFiles(first, _neighbour(first), flow, sparse=True)


def _spring(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, *(f"{top}*/flow_FW_left/*.flo5" for top in ("train/", ""))):
        name = flow.stem.replace("flow_FW_left", "frame_left") + ".png"
        first = flow.parents[1] / "frame_left" / name
        yield PairFiles(first, _neighbour(first), flow)


def _manifest(file: Path) -> Iterator[PairFiles]:
    """Yield the pairs of a CSV file; 16-bit PNG files are taken for sparse flow, as KITTI's."""
    for row in manifest_rows(file):
        first, second, flow = (file.parent / row[name] for name in ("frame1", "frame2", "gt"))
        for listed in (first, second, flow):
            if not listed.is_file():
                raise FlowFileError(f"{file} lists {listed}, but there is no such file")
        invalid = flow.with_name("invalid.png")
        yield PairFiles(
            first,
            second,
            flow,
            sparse=flow.suffix.lower() == ".png",
            invalid=invalid if invalid.is_file() else None,
        )


class _Kind(NamedTuple):
    find: Callable[[Path], Iterator[PairFiles]]
    looked_for: str
    package: str | None = None


_KINDS = {
    "chairs": _Kind(_chairs, "00001_flow.flo with 00001_img1.ppm and 00001_img2.ppm"),
    "things": _Kind(
        _things,
        "optical_flow/TRAIN/A/0000/into_future/left/*.pfm "
        "with frames_cleanpass/TRAIN/A/0000/left/*.png or frames_finalpass",
    ),
    "sintel": _Kind(_sintel, "training/flow/*/*.flo with training/clean/*/*.png or training/final"),
    "kitti": _Kind(
        _kitti, "training/flow_occ/*_10.png with training/image_2/*.png or training/colored_0"
    ),
    "hd1k": _Kind(_hd1k, "hd1k_flow_gt/flow_occ/*.png with hd1k_input/image_2/*.png"),
    "spring": _Kind(
        _spring, "train/*/flow_FW_left/*.flo5 with train/*/frame_left/*.png", package="h5py"
    ),
    "manifest": _Kind(_manifest, "its columns frame1, frame2 and gt, paths from its folder"),
}

KINDS = tuple(_KINDS)
"""What `find_pairs` finds."""


def _files(folder: Path, *patterns: str) -> list[Path]:
    return sorted(chain.from_iterable(map(folder.glob, patterns)))


def _neighbour(frame: Path, step: int = 1) -> Path:
    """Return the frame so many further on, by the last number in its name."""

    def counted(number: re.Match[str]) -> str:
        return f"{max(0, int(number[0]) + step):0{len(number[0])}d}"

    return frame.with_name(_LAST_NUMBER.sub(counted, frame.stem) + frame.suffix)


def _read_image(path: Path) -> Image8:
    """Return an image in 8 bits, as `read_image` but at the same time as other threads."""
    try:
        data = path.read_bytes()
        check_layout(path, data)
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    except (OSError, cv2.error):
        image = None
    if image is None:
        read_image(path)  # which says what is wrong
        raise ImageError(f"{path} cannot be decoded in 8 bits; save it as PNG")
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)


def _read_flow(path: Path) -> Flow:
    """Return the flow at the images' pixels, and in them.

    Spring stores it at four times as many, but in the same unit. Source: the data set's own loader,
    github.com/cv-stuttgart/spring_utils.
    """
    flow = read_flow(path)
    return flow[::2, ::2] if path.suffix.lower() == SPRING_SUFFIX else flow


def _import(package: str, kind: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise PwcFlowError(
            f"{kind} needs the package {package}, which cannot be imported ({error}); "
            f"run: pip install 'pwcflow[hdf5]'"
        ) from error
