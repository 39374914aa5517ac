"""From nothing to weights like the shipped ones: runs in a row, each from the weights before it."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pwcflow.device import find_device
from pwcflow.errors import DeviceError, WeightsError
from pwcflow.locks import locked_folder, replacing_alone
from pwcflow.outputs import make_folder
from pwcflow.training.divergence import DivergedError
from pwcflow.training.interruption import catching_interruptions
from pwcflow.training.log import RunLog
from pwcflow.training.ranks import started_by_torchrun
from pwcflow.training.recipe_folder import check_folder, is_begun, write_record
from pwcflow.training.result import RESULT, finished_result, restore_weights, write_result
from pwcflow.training.room import check_room
from pwcflow.training.run import pairs_to_measure_on, run_training
from pwcflow.training.scene import SceneSettings
from pwcflow.training.settings import OptimizerName, TrainSettings
from pwcflow.training.textures import check_folders


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A run among those of a recipe; see `TrainSettings`."""

    share: float
    """Of the length of all stages together."""
    height: int
    width: int
    typical_motion: float
    """Of its scenes, in pixels; see `SceneSettings`."""
    peak_lr: float
    optimizer: OptimizerName = "muon"
    q: float | None = None
    warm_share: float = 0.05
    keep: float = 0.0
    """Share of the weights of the stage before in those that come out."""

    def scenes(self, *, photographs: bool) -> SceneSettings:
        """Return what is rendered, with `photographs` or without."""
        return SceneSettings.of_size(
            self.height, self.width, self.typical_motion, photographs=photographs
        )


DEFAULT = (
    Stage(share=0.16, height=384, width=512, typical_motion=13, peak_lr=6e-4),
    Stage(share=0.12, height=384, width=512, typical_motion=13, peak_lr=6e-4, q=0.5),
    Stage(share=0.12, height=384, width=640, typical_motion=15, peak_lr=6e-4, q=0.5, keep=0.2),
    Stage(share=0.14, height=448, width=768, typical_motion=16, peak_lr=5e-4, q=0.5),
    Stage(share=0.02, height=448, width=1024, typical_motion=20, peak_lr=2e-4, q=0.5),
    Stage(share=0.22, height=448, width=896, typical_motion=19, peak_lr=3e-4, q=0.5, keep=0.58),
    Stage(share=0.14, height=448, width=896, typical_motion=19, peak_lr=1.5e-4, q=0.4),
    Stage(share=0.08, height=448, width=896, typical_motion=19, peak_lr=1.5e-4, q=0.4, keep=0.4),
)
"""The first legs of the shipped weights had no robust loss either; see weights/RUNS.md."""

RECIPES = {"default": DEFAULT}


def run_recipe(
    settings: TrainSettings,
    stages: Sequence[Stage],
    *,
    photos: list[Path],
    sprites: list[Path],
    holdout: list[Path],
    manifest: Path | None = None,
) -> dict[str, Any]:
    """Train in stages, and return what they came to.

    Each stage is a run of `run_training` in a folder of its own, called by its number from 1, in
    the output's. With `resume`, stages that are finished stay as they are, and the one that was
    stopped goes on. In the end the output has the weights of the last.

    Args:
        settings: length, batch, devices, logging and output of all stages together. A stage's seed
            is `seed` plus its number; what else it says itself is not taken from here.
        stages: the recipe.
        photos: folders of photographs.
        sprites: folders of cut-outs.
        holdout: folders of images to measure each stage on beside those trained on.
        manifest: pairs with true flow to measure each stage on, a CSV file as for
            `find_pairs`.

    Raises:
        PwcFlowError: as in `run_training`, or the output holds another run, or torchrun started it.
        KeyboardInterrupt: of an interruption; its text says how to go on.
    """
    if started_by_torchrun():
        raise DeviceError(
            "a recipe is not for torchrun: it starts a process for each GPU itself; run it alone, "
            "with --devices N"
        )
    runs = [_run_of(settings, stage, number) for number, stage in enumerate(stages, 1)]
    check_folder(settings, runs)
    find_device(settings.device)
    check_folders(photos, sprites, holdout)
    measured = pairs_to_measure_on(manifest)
    unfinished = [run for run in runs if finished_result(run.output) is None]
    check_room(settings.output, unfinished)
    make_folder(settings.output)
    if unfinished:  # what it tells of is not the last stage any more
        (settings.output / RESULT).unlink(missing_ok=True)
    if not any(map(is_begun, runs)):
        write_record(settings)
    log = RunLog(settings.log_path, echo=settings.echo)
    results: list[dict[str, Any]] = []
    with catching_interruptions() as interruption:
        for number, (stage, run) in enumerate(zip(stages, runs, strict=True), 1):
            result = finished_result(run.output) if settings.resume else None
            if result and measured and "scores" not in result and run.checkpoint_path.exists():
                result = None  # it ended while it was measured, which is all that is left to do
            # Nobody is to go on with a stage on its own while its recipe does.
            with locked_folder(run.output), _telling_how_to_go_on(number, runs):
                if result is not None:
                    log.say(f"stage {number} of {len(stages)} is finished")
                    restore_weights(run)
                else:
                    if interruption.requested:
                        raise KeyboardInterrupt
                    log.write({"stage": number, "of": len(stages), **asdict(stage)})
                    result = run_training(
                        run,
                        stage.scenes(photographs=bool(photos)),
                        photos=photos,
                        sprites=sprites,
                        holdout=holdout,
                        measured=measured,
                    )
                    if result["outcome"] == "interrupted":
                        raise KeyboardInterrupt
            results.append(result)
        return _sum_up(settings, stages, runs, results)


def _run_of(settings: TrainSettings, stage: Stage, number: int) -> TrainSettings:
    """Return the settings of a stage: to begin with it, or to go on."""
    steps, minutes = settings.steps, settings.minutes
    before = replace(settings, output=settings.output / str(number - 1)).weights_path
    run = replace(
        settings,
        output=settings.output / str(number),
        steps=None if steps is None else max(1, round(stage.share * steps)),
        minutes=None if minutes is None else stage.share * minutes,
        height=stage.height,
        width=stage.width,
        optimizer=stage.optimizer,
        peak_lr=stage.peak_lr,
        warm_share=stage.warm_share,
        q=stage.q,
        seed=settings.seed + number,
        init=before if number > 1 else None,
        keep=stage.keep,
    )
    # The first says that it begins where there is nothing yet; of the others that is no news.
    begun = number == 1 or run.checkpoint_path.exists() or run.log_path.exists()
    return replace(run, resume=settings.resume and begun)


@contextmanager
def _telling_how_to_go_on(number: int, runs: Sequence[TrainSettings]) -> Iterator[None]:
    """Say what to do about an interruption or a failure of a stage."""
    run = runs[number - 1]
    try:
        yield
    except DivergedError as error:
        raise DivergedError(
            f"stage {number} of {len(runs)}: {error}, which a recipe cannot; leave --recipe away"
        ) from error
    except WeightsError as error:
        if not run.resume:
            raise
        raise WeightsError(
            f"{error}; or remove {run.output}, and --resume begins this stage anew"
        ) from error
    except KeyboardInterrupt:
        how = "the same command begins anew"
        if any(is_begun(run) for run in runs):
            how = "the same command with --resume goes on from there"
        raise KeyboardInterrupt(f"stage {number} of {len(runs)} is not finished; {how}") from None


def _sum_up(
    settings: TrainSettings,
    stages: Sequence[Stage],
    runs: Sequence[TrainSettings],
    results: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Give the output the last weights, and write and return what all stages came to."""
    with replacing_alone(settings.weights_path) as temporary:
        shutil.copyfile(runs[-1].weights_path, temporary)
    measured = ("errors", "errors_of_no_motion", "scores")
    told = ("pairs", "seconds", *measured)
    summary: dict[str, Any] = {
        "outcome": "finished",
        "pairs": sum(result["pairs"] for result in results),
        "seconds": sum(result["seconds"] for result in results),
        **{name: results[-1][name] for name in (*measured, "images") if name in results[-1]},
        "weights": str(settings.weights_path),
        "log": str(settings.log_path),
        "stages": [
            asdict(stage)
            | {name: result[name] for name in told if name in result}
            | {"weights": str(run.weights_path)}
            for stage, run, result in zip(stages, runs, results, strict=True)
        ],
    }
    write_result(settings.output, summary)
    return summary
