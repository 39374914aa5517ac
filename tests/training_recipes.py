"""A recipe of three small stages, for tests."""

import os
import shutil
from pathlib import Path

from pwcflow.training.recipe import Stage, run_recipe
from tests.training_source import tiny

SMALL = {"height": 64, "width": 64, "typical_motion": 3.0}
STAGES = (
    Stage(share=0.2, peak_lr=1e-3, **SMALL),
    Stage(share=0.6, peak_lr=2e-4, q=0.5, warm_share=0.5, **SMALL),
    Stage(share=0.2, peak_lr=1e-3, optimizer="adamw", keep=0.25, **SMALL | {"width": 128}),
)
NO_IMAGES = {"photos": [], "sprites": [], "holdout": []}


def settings_of(output, **changes):
    return tiny(output, steps=5, seed=40, **changes)


def recipe(settings, stages=STAGES):
    return run_recipe(settings, stages, **NO_IMAGES)


def copy_run(source, target):
    """Copy a folder, but link its checkpoints, which runs replace and never write into."""

    def copy(path, to):
        (os.link if Path(path).name == "checkpoint.pt" else shutil.copy2)(path, to)

    shutil.copytree(source, target, copy_function=copy)
