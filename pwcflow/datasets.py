"""Pairs with true flow, of the public data sets and of lists: where they lie, and reading them."""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from pwcflow.errors import FlowFileError, ImageError, PwcFlowError, reason_of
from pwcflow.flow_file import Flow, Mask, known_pixels, read_flow
from pwcflow.image_file import Image, read_image

SPRING_SUFFIX = ".flo5"
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True)
class TruePair:
    """Two images and the true flow from the first to the second."""

    dataset: str
    name: str
    first: Image
    second: Image
    truth: Flow
    valid: Mask
    """(H, W) bool, False where the truth is unknown."""

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return sum(each.nbytes for each in (self.first, self.second, self.truth, self.valid))


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
    dataset: str = ""
    """What errors are averaged over, such as `sintel clean`; in a list, its column."""
    sequence: str = ""
    """In a list, its column."""

    @property
    def frames(self) -> tuple[Path, Path]:
        """Both images."""
        return self.first, self.second

    @property
    def name(self) -> str:
        """What tells the pair from others of its data set."""
        return self.sequence or str(self.first)


def find_pairs(kind: str, folder: Path) -> list[PairFiles]:
    """Return the pairs of a data set, in order; true flow without both its images is left out.

    Args:
        kind: one of KINDS.
        folder: where the data set has been unpacked. For "manifest" a CSV file with a header line
            and the columns dataset, sequence, frame1, frame2 and gt, the paths being relative to
            its folder; an image `invalid.png` beside the true flow is white where that is not to be
            used.

    Raises:
        PwcFlowError: there is no pair, or a package to read them is missing; a list cannot be read,
            lacks a column, or names a file that is not there.
    """
    row = _KINDS[kind]
    if row.package is not None:
        _import(row.package, kind)
    pairs = [p for p in row.find(folder) if all(frame.is_file() for frame in p.frames)]
    if not pairs and not folder.exists():
        raise PwcFlowError(f"there is no folder {folder}; check the name")
    if not pairs:
        raise PwcFlowError(f"there are no {kind} pairs in {folder}: looked for {row.looked_for}")
    return pairs


def read_true_pair(pair: PairFiles) -> TruePair:
    """Return the images of a pair, of the depth they have, and its flow.

    Raises:
        ImageError: an image cannot be read, or is not of the size of the flow.
        FlowFileError: the flow cannot be read, or is known at no pixel.
    """
    first, second = (read_image(path) for path in pair.frames)
    flow, valid = read_truth(pair, first, second, read_image)
    if not valid.any():
        raise FlowFileError(
            f"{pair.flow} is known at no pixel, so there is nothing to measure on; take it out"
        )
    return TruePair(pair.dataset, pair.name, first, second, flow, valid)


def read_truth(
    pair: PairFiles, first: Image, second: Image, read: Callable[[Path], Image]
) -> tuple[Flow, Mask]:
    """Return the true flow of a pair, (H, W, 2) in pixels, and where it is known, (H, W).

    Args:
        pair: its files.
        first: its first image, (H, W, C).
        second: its second.
        read: what reads the image of invalid pixels.

    Raises:
        FlowFileError: the flow cannot be read.
        ImageError: the image of invalid pixels cannot, or one is not of the size of the flow.
    """
    flow = read_flow(pair.flow)
    height, width = first.shape[:2]
    if pair.flow.suffix.lower() == SPRING_SUFFIX and flow.shape[:2] == (2 * height, 2 * width):
        # At the images' pixels: Spring stores it at four times as many, but in the same unit.
        # Source: the data set's own loader, github.com/cv-stuttgart/spring_utils.
        flow = flow[::2, ::2]
    valid = known_pixels(flow)
    images = dict(zip(pair.frames, (first, second), strict=True))
    if pair.invalid is not None:
        images[pair.invalid] = read(pair.invalid)
    for path, image in images.items():
        if image.shape[:2] != valid.shape:
            sizes = [f"{it.shape[1]} x {it.shape[0]}" for it in (image, flow)]
            raise ImageError(
                f"{path} is {sizes[0]} pixels but its true flow, {pair.flow}, is {sizes[1]}; give "
                "the one that belongs to it"
            )
    if pair.invalid is not None:
        valid &= images[pair.invalid][..., 0] == 0
    return flow, valid


def _chairs(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, "*_flow.flo", "data/*_flow.flo"):
        first, second = (
            flow.with_name(flow.name.replace("_flow.flo", f"_img{i}.ppm")) for i in (1, 2)
        )
        yield PairFiles(first, second, flow, dataset="chairs")


def _things(folder: Path) -> Iterator[PairFiles]:
    """Yield the left camera's pairs; flow into the past is that from a frame to the one before."""
    for flow in _files(folder, "optical_flow/TRAIN/*/*/into_*/left/*.pfm"):
        scene = flow.parents[2].relative_to(folder / "optical_flow")
        step = 1 if flow.parents[1].name == "into_future" else -1
        number = _LAST_NUMBER.search(flow.stem)
        for rendering in ("clean", "final"):
            frames = folder / f"frames_{rendering}pass" / scene / "left"
            first = frames / f"{number[0] if number else ''}.png"
            yield PairFiles(first, _neighbour(first, step), flow, dataset=f"things {rendering}")


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
                dataset=f"sintel {rendering}",
            )


def _kitti(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, "training/flow_occ/*.png", "flow_occ/*.png"):
        for camera in ("image_2", "colored_0"):  # of 2015 and of 2012
            first = flow.parents[1] / camera / flow.name
            yield PairFiles(first, _neighbour(first), flow, sparse=True, dataset="kitti")


def _hd1k(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, "hd1k_flow_gt/flow_occ/*.png"):
        first = folder / "hd1k_input" / "image_2" / flow.name
        yield PairFiles(first, _neighbour(first), flow, sparse=True, dataset="hd1k")


def _spring(folder: Path) -> Iterator[PairFiles]:
    for flow in _files(folder, *(f"{top}*/flow_FW_left/*.flo5" for top in ("train/", ""))):
        name = flow.stem.replace("flow_FW_left", "frame_left") + ".png"
        first = flow.parents[1] / "frame_left" / name
        yield PairFiles(first, _neighbour(first), flow, dataset="spring")


def _manifest(file: Path) -> Iterator[PairFiles]:
    """Yield the pairs of a CSV file; 16-bit PNG files are taken for sparse flow, as KITTI's."""
    for row in _rows(file):
        first, second, flow = (file.parent / row[name] for name in ("frame1", "frame2", "gt"))
        for listed in (first, second, flow):
            if not listed.is_file():
                raise FlowFileError(
                    f"there is no file {listed}, which {file} lists; paths in it begin at its own "
                    "folder"
                )
        invalid = flow.with_name("invalid.png")
        yield PairFiles(
            first,
            second,
            flow,
            sparse=flow.suffix.lower() == ".png",
            invalid=invalid if invalid.is_file() else None,
            dataset=row["dataset"],
            sequence=row["sequence"],
        )


def _rows(manifest: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file of pairs, by column."""
    try:
        with manifest.open(newline="", encoding="utf-8-sig") as file:
            text = file.read()
            header = text.partition("\n")[0]
            delimiter = max(",;\t", key=header.count)  # as spreadsheets write it
            rows = list(csv.DictReader(text.splitlines(), delimiter=delimiter))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise FlowFileError(
            f"cannot read {manifest} as a CSV file: {reason}; check the name and the file"
        ) from error
    columns = {"dataset", "sequence", "frame1", "frame2", "gt"}
    if not rows or not columns <= set(rows[0]):
        raise FlowFileError(
            f"{manifest} must have lines with {', '.join(sorted(columns))}, and these names in its "
            "first line; add them"
        )
    for number, row in enumerate(rows, 1):
        for name in sorted(columns):
            if row[name] is None or (not row[name] and name != "sequence"):
                raise FlowFileError(
                    f"{manifest}: line {number} below its header has no {name}; add it"
                )
    return rows


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


def _import(package: str, kind: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise PwcFlowError(
            f"{kind} needs the package {package}, which cannot be imported ({error}); "
            f"run: pip install 'pwcflow[hdf5]'"
        ) from error
