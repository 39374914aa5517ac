"""A training run from folders of images or of real pairs: what `pwcflow train` does."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
import torch

from pwcflow.atomic_file import check_writable, replacing
from pwcflow.color import flow_to_color
from pwcflow.device import find_device
from pwcflow.estimator import FlowEstimator
from pwcflow.evaluation import evaluate
from pwcflow.image_file import Image, check_image_suffix, write_image
from pwcflow.training.augment import AugmentSettings
from pwcflow.training.datasets import PairFiles, find_pairs
from pwcflow.training.pairs import PairSource
from pwcflow.training.render import Renderer
from pwcflow.training.scene import SceneSettings
from pwcflow.training.settings import TrainSettings
from pwcflow.training.step import Renderer as Source
from pwcflow.training.textures import load_textures
from pwcflow.training.trainer import train
from pwcflow.training.validation import rendered_error

VALIDATION_BATCHES = 16
VALIDATION_SEED = 1_000_003
PREVIEW_PAIRS = 12
PREVIEW_WIDTH = 320


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
    manifest: Path | None = None,
) -> dict[str, Any]:
    """Train, measure the weights, and return what the run came to.

    Args:
        settings: the run.
        scenes: what is rendered.
        photos: folders of photographs.
        sprites: folders of cut-outs.
        holdout: folders of images never trained on, photographs and cut-outs alike; empty for no
            validation.
        data: real pairs to train on in place of rendered ones: kinds and folders, as `find_pairs`
            takes them.
        manifest: pairs with true flow to measure on; see `evaluation.read_manifest`.

    Raises:
        PwcFlowError: an image cannot be read, a data set is not there, an output cannot be
            written, or training diverged.
    """
    datasets = [find_pairs(kind, folder) for kind, folder in data]
    make = (
        pairs_of(datasets, settings.height, settings.width)
        if datasets
        else scenes_of(photos, sprites, scenes)
    )
    summary = train(settings, partial(make, batch=settings.batch, seed=settings.seed))
    result: dict[str, Any] = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(summary).items()
    }
    if data:
        named = zip(data, datasets, strict=True)
        result["data"] = {f"{kind}:{folder}": len(pairs) for (kind, folder), pairs in named}
    device = find_device(settings.device)
    if holdout:
        unseen = scenes_of(holdout, holdout, scenes)
        for name, source in (("training_epe_px", make), ("holdout_epe_px", unseen)):
            renderer = source(device, 0, 1, batch=settings.batch, seed=VALIDATION_SEED)
            result[name] = rendered_error(summary.weights, renderer, VALIDATION_BATCHES, device)
    if manifest:
        estimator = FlowEstimator(summary.weights, str(device))
        result["scores"] = {
            dataset: asdict(score) for dataset, score in evaluate(estimator, manifest).items()
        }
    with replacing(settings.output / "result.json") as temporary:
        temporary.write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


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
    textures = load_textures(photos, sprites)
    return Renderer(textures, scenes, batch=batch, device=device, seed=seed, rank=rank)


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


def preview(path: Path, make: MakeSource, device_name: str, seed: int) -> None:
    """Write a contact sheet: first frame, second frame and flow of some pairs, two pairs a row.

    Raises:
        PwcFlowError: an image cannot be read, or the sheet cannot be written.
    """
    check_image_suffix(path)
    check_writable(path)
    renderer = make(find_device(device_name), 0, 1, batch=PREVIEW_PAIRS, seed=seed)
    renderer.load(0)
    batch = renderer.render()
    images = batch.images[:, :3].flip(1).float().permute(0, 2, 3, 1).cpu().numpy()
    known = torch.where(batch.valid > 0, batch.flow, torch.nan)
    flows = known.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    cells: list[Image] = []
    for i, flow in enumerate(flows):
        frames = [(images[k] * 255).round().astype(np.uint8) for k in (i, PREVIEW_PAIRS + i)]
        cells.append(np.concatenate([*frames, flow_to_color(flow)], axis=1))
    height, width = cells[0].shape[:2]
    size = (3 * PREVIEW_WIDTH, max(1, round(3 * PREVIEW_WIDTH * height / width)))
    small = [cv2.resize(cell, size, interpolation=cv2.INTER_AREA) for cell in cells]
    rows = [np.concatenate(small[i : i + 2], axis=1) for i in range(0, len(small), 2)]
    write_image(path, np.concatenate(rows, axis=0).astype(np.uint8))
