"""A training run from folders of images: what `pwcflow train` does."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from pwcflow.atomic_file import check_writable
from pwcflow.color import flow_to_color
from pwcflow.device import find_device
from pwcflow.estimator import FlowEstimator
from pwcflow.evaluation import evaluate
from pwcflow.image_file import Image, check_image_suffix, write_image
from pwcflow.training.render import Renderer
from pwcflow.training.scene import SceneSettings
from pwcflow.training.settings import TrainSettings
from pwcflow.training.textures import load_textures
from pwcflow.training.trainer import train
from pwcflow.training.validation import rendered_error

VALIDATION_BATCHES = 16
VALIDATION_SEED = 1_000_003
PREVIEW_PAIRS = 12
PREVIEW_WIDTH = 320


def run_training(
    settings: TrainSettings,
    scenes: SceneSettings,
    *,
    photos: list[Path],
    sprites: list[Path],
    holdout: list[Path],
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
        manifest: pairs with true flow to measure on; see `evaluation.read_manifest`.

    Raises:
        PwcFlowError: an image cannot be read, an output cannot be written, or training diverged.
    """
    make = partial(renderer_of, photos=photos, sprites=sprites, scenes=scenes, batch=settings.batch)
    summary = train(settings, partial(make, seed=settings.seed))
    result: dict[str, Any] = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(summary).items()
    }
    device = find_device(settings.device)
    if holdout:
        seen = make(device, 0, 1, seed=VALIDATION_SEED)
        unseen = renderer_of(
            device, 0, 1, holdout, holdout, scenes, settings.batch, VALIDATION_SEED
        )
        for name, renderer in (("training_epe_px", seen), ("holdout_epe_px", unseen)):
            result[name] = rendered_error(summary.weights, renderer, VALIDATION_BATCHES, device)
    if manifest:
        estimator = FlowEstimator(summary.weights, str(device))
        result["scores"] = {
            dataset: asdict(score) for dataset, score in evaluate(estimator, manifest).items()
        }
    (settings.output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def renderer_of(
    device: torch.device,
    rank: int,
    world: int,
    photos: list[Path],
    sprites: list[Path],
    scenes: SceneSettings,
    batch: int,
    seed: int,
) -> Renderer:
    """Return the renderer of one process of a run; a plain function, so it can be sent to one."""
    textures = load_textures(photos, sprites)
    return Renderer(textures, scenes, batch=batch, device=device, seed=seed, rank=rank)


def preview_scenes(
    path: Path,
    scenes: SceneSettings,
    photos: list[Path],
    sprites: list[Path],
    device_name: str,
    seed: int,
) -> None:
    """Write a contact sheet: first frame, second frame and flow of some pairs, two pairs a row.

    Raises:
        PwcFlowError: an image cannot be read, or the sheet cannot be written.
    """
    check_image_suffix(path)
    check_writable(path)
    device = find_device(device_name)
    renderer = renderer_of(device, 0, 1, photos, sprites, scenes, PREVIEW_PAIRS, seed)
    renderer.load(0)
    batch = renderer.render()
    images = batch.images[:, :3].flip(1).float().permute(0, 2, 3, 1).cpu().numpy()
    flows = batch.flow.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    cells: list[Image] = []
    for i, flow in enumerate(flows):
        frames = [(images[k] * 255).round().astype(np.uint8) for k in (i, PREVIEW_PAIRS + i)]
        cells.append(np.concatenate([*frames, flow_to_color(flow)], axis=1))
    height, width = cells[0].shape[:2]
    size = (3 * PREVIEW_WIDTH, max(1, round(3 * PREVIEW_WIDTH * height / width)))
    small = [cv2.resize(cell, size, interpolation=cv2.INTER_AREA) for cell in cells]
    rows = [np.concatenate(small[i : i + 2], axis=1) for i in range(0, len(small), 2)]
    write_image(path, np.concatenate(rows, axis=0).astype(np.uint8))
