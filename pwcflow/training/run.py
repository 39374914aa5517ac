"""A training run from folders of images or of real pairs: what `pwcflow train` does."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

import torch

from pwcflow.atomic_file import check_writable
from pwcflow.datasets import PairFiles, find_pairs, read_true_pair
from pwcflow.device import find_device
from pwcflow.errors import OutputError
from pwcflow.estimator import FlowEstimator
from pwcflow.evaluation import evaluate
from pwcflow.image_file import check_image_suffix, write_image
from pwcflow.training.augment import AugmentSettings
from pwcflow.training.contact_sheet import preview_sheet
from pwcflow.training.log import RunLog
from pwcflow.training.pairs import PairSource
from pwcflow.training.ranks import is_first_process
from pwcflow.training.render import Renderer
from pwcflow.training.render_reference import Textures
from pwcflow.training.result import finished_result, restore_weights, write_result
from pwcflow.training.scene import SceneSettings
from pwcflow.training.settings import ImageCounts, TrainSettings
from pwcflow.training.start import is_over
from pwcflow.training.step import Renderer as Source
from pwcflow.training.textures import check_folders, load_textures
from pwcflow.training.trainer import CountImages, train

CPU_VALIDATION_BATCHES, CPU_VALIDATION_PAIRS = 4, 16
"""Of each validation set, at most: a CPU takes seconds for a pair."""
VALIDATION_SEED = 1_000_003
PREVIEW_PAIRS = 12


class MakeSource(Protocol):
    """Makes where the pairs of one process come from."""

    def __call__(
        self, device: torch.device, rank: int, world: int, *, batch: int, seed: int
    ) -> Source:
        """Return it; `rank` is one of `world` processes, each of which sees other pairs."""


def run_training(
    settings: TrainSettings,
    scenes: SceneSettings,
    *,
    photos: list[Path],
    sprites: list[Path],
    holdout: list[Path],
    data: Sequence[tuple[str, Path]] = (),
    measured: Sequence[PairFiles] = (),
) -> dict[str, Any]:
    """Train, measure the weights, and return what the run came to.

    Args:
        settings: the run.
        scenes: what is rendered.
        photos: folders of photographs.
        sprites: folders of cut-outs.
        holdout: folders of images never trained on, photographs and cut-outs alike, to measure
            on beside those trained on.
        data: real pairs to train on in place of rendered ones: kinds and folders, as `find_pairs`
            takes them.
        measured: pairs with true flow to measure on when all is done; see `pairs_to_measure_on`.

    Raises:
        PwcFlowError: an image cannot be read, a data set is not there, an output cannot be
            written, or training diverged.
    """
    # Before the hours that come before they are needed.
    check_folders(photos, sprites, holdout)
    datasets = [find_pairs(kind, folder) for kind, folder in data]
    folders = {"training": (photos, sprites)}
    if holdout:
        folders["holdout"] = (holdout if photos else [], holdout)
    sets = {name: scenes_of(*given, scenes) for name, given in folders.items()}
    if datasets:
        sets["training"] = pairs_of(datasets, settings.height, settings.width)
    settings = replace(settings, motion=None if datasets else scenes.typical_motion)
    result = _finished_before(settings, set(sets))
    if result is None:
        count: CountImages = partial(_count_images, folders=folders)
        if datasets:
            count = partial(_count_pairs, datasets=datasets)
        result = _trained(settings, sets, count)
        if data:
            named = zip(data, datasets, strict=True)
            result["data"] = {f"{kind}:{folder}": len(pairs) for (kind, folder), pairs in named}
    if not is_first_process():
        return result
    if measured and result["outcome"] == "finished":
        write_result(settings.output, result)  # whatever may become of the measuring
        estimator = FlowEstimator(settings.weights_path, str(find_device(settings.device)))
        result["scores"] = {
            dataset: asdict(score)
            for dataset, score in evaluate(estimator, map(read_true_pair, measured)).items()
        }
    write_result(settings.output, result)
    return result


def pairs_to_measure_on(manifest: Path | None) -> list[PairFiles]:
    """Return the pairs of a CSV file, as `find_pairs` takes it, each of which can be measured on.

    They are read: what is wrong with one is told before the hours of training, not after them.

    Raises:
        PwcFlowError: a file is missing, cannot be read, or does not belong to the others.
    """
    pairs = find_pairs("manifest", manifest) if manifest else []
    if is_first_process():
        for pair in pairs:
            read_true_pair(pair)
    return pairs


def _finished_before(settings: TrainSettings, sets: set[str]) -> dict[str, Any] | None:
    """Return what a run came to that is trained, and measured on `sets`; None for any other.

    Raises:
        WeightsError: its checkpoint cannot be used, or is of a run with other settings.
    """
    result = finished_result(settings.output) if settings.resume else None
    if result is None or not sets <= result["errors"].keys():
        return None
    if not is_over(settings, result["step"]):
        return None
    if is_first_process():
        restore_weights(settings)
        log = RunLog(settings.log_path, echo=settings.echo)
        log.say(f"the run in {settings.output} is finished: there is nothing left to train")
    here = {  # the folder may have been moved
        "checkpoint": settings.checkpoint_path,
        "weights": settings.weights_path,
        "log": settings.log_path,
    }
    return result | {name: str(path) for name, path in here.items()}


def _trained(
    settings: TrainSettings, sets: dict[str, MakeSource], count_images: CountImages
) -> dict[str, Any]:
    if find_device(settings.device).type == "cpu":
        batches = min(CPU_VALIDATION_BATCHES, max(1, CPU_VALIDATION_PAIRS // settings.batch))
        settings = replace(settings, validation_batches=batches)
    with _keeping_textures():
        summary = train(
            settings,
            partial(sets["training"], batch=settings.batch, seed=settings.seed),
            partial(_validation, sets=sets, batch=settings.batch),
            count_images,
        )
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(summary).items()
    }


def scenes_of(photos: list[Path], sprites: list[Path], scenes: SceneSettings) -> MakeSource:
    """Return what makes renderers of scenes from folders of images; can be sent to a process."""
    return partial(_renderer, photos=photos, sprites=sprites, scenes=scenes)


def pairs_of(datasets: list[list[PairFiles]], height: int, width: int) -> MakeSource:
    """Return what makes sources of real pairs, cropped to a size; can be sent to a process."""
    return partial(_pairs, datasets=datasets, settings=AugmentSettings(height, width))


def _renderer(
    device: torch.device,
    rank: int,
    world: int,
    *,
    batch: int,
    seed: int,
    photos: list[Path],
    sprites: list[Path],
    scenes: SceneSettings,
) -> Source:
    textures = _textures(tuple(photos), tuple(sprites), device)
    return Renderer(textures, scenes, batch=batch, device=device, seed=seed, rank=rank)


@contextmanager
def _keeping_textures() -> Iterator[None]:
    """Let the textures that a run trains and is measured on be loaded once, and go at its end."""
    try:
        yield
    finally:
        _textures.cache_clear()


@lru_cache(maxsize=2)
def _textures(
    photos: tuple[Path, ...], sprites: tuple[Path, ...], device: torch.device
) -> Textures:
    """Return textures on a device, for as long as `_keeping_textures` says."""
    textures = load_textures(photos, sprites)
    return Textures(textures.photos.to(device), textures.sprites.to(device))


def _count_images(
    device: torch.device, *, folders: dict[str, tuple[list[Path], list[Path]]]
) -> ImageCounts:
    """Return how many photographs and cut-outs are in the folders that each set is made of."""
    counts = {}
    for name, (photos, sprites) in folders.items():
        textures = _textures(tuple(photos), tuple(sprites), device)
        photographs = len(textures.photos) if photos else 0  # without any there is one of gray
        counts[name] = {"photographs": photographs, "cut_outs": len(textures.sprites)}
    return counts


def _count_pairs(device: torch.device, *, datasets: list[list[PairFiles]]) -> ImageCounts:
    """Return how many real pairs there are."""
    return {"training": {"pairs": sum(map(len, datasets))}}


def _validation(
    device: torch.device, *, sets: dict[str, MakeSource], batch: int
) -> dict[str, Callable[[], Source]]:
    return {
        name: partial(make, device, 0, 1, batch=batch, seed=VALIDATION_SEED)
        for name, make in sets.items()
    }


def _pairs(
    device: torch.device,
    rank: int,
    world: int,
    *,
    batch: int,
    seed: int,
    datasets: list[list[PairFiles]],
    settings: AugmentSettings,
) -> Source:
    return PairSource(
        datasets, settings, batch=batch, device=device, seed=seed, rank=rank, world=world
    )


def preview(
    path: Path,
    make: MakeSource,
    device_name: str,
    seed: int,
    *,
    photos: Sequence[Path] = (),
    sprites: Sequence[Path] = (),
) -> None:
    """Write a contact sheet: first frame, second frame and flow of some pairs, two pairs a row.

    Raises:
        PwcFlowError: an image cannot be read, or the sheet cannot be written, or would lie in one
            of the folders of photographs and cut-outs that scenes are made of, or nothing could
            come of these.
    """
    check_image_suffix(path)
    check_writable(path)
    check_folders(photos, sprites, ())
    for folder in (*photos, *sprites):
        if os.path.realpath(path.parent) == os.path.realpath(folder):
            raise OutputError(
                f"cannot write {path}: it would be taken for one of the images in {folder}; choose "
                "another folder"
            )
    with _keeping_textures():
        renderer = make(find_device(device_name), 0, 1, batch=PREVIEW_PAIRS, seed=seed)
    renderer.load(0)
    write_image(path, preview_sheet(renderer.render()))
