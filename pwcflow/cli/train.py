"""The command `train`."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import typer

from pwcflow.cli.console import friendly_errors, import_torch, tell
from pwcflow.cli.options import (
    LARGEST_BATCH,
    DeviceOption,
    JsonOption,
    QuietOption,
    height_by_width,
    one_of,
    positive,
)
from pwcflow.cli.train_usage import (
    check_preview,
    check_recipe,
    dataset,
    recipe_name,
    share,
    told,
    typical_motion,
)
from pwcflow.counted import counted

_LARGEST_SEED = 2**63 - 1  # of PyTorch's generators

TRAIN_EXAMPLES = """\b
Examples:
  pwcflow train -o run --minutes 2 --device cpu --size 128x128 --batch 4 --log-every 10
  pwcflow train -o run --minutes 60 --photos photos --sprites cut-outs --holdout holdout
  pwcflow train -o run --minutes 60 --photos photos --sprites cut-outs --holdout holdout --resume
  pwcflow train -o run --recipe default --minutes 50 --photos photos --sprites cut-outs
  pwcflow train --preview sheet.png --photos photos --sprites cut-outs
  pwcflow train -o run --minutes 60 --init default --lr 3e-5 --data sintel:MPI-Sintel
"""


def train(
    context: typer.Context,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            readable=False,
            help="Checkpoint, weights and log go here; made where missing. Required without "
            "--preview.",
        ),
    ] = None,
    photos: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", readable=False, help="Folder of photographs to render from; repeatable."
        ),
    ] = None,
    sprites: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            readable=False,
            help="Folder of cut-outs, PNG or WebP with alpha; repeatable.",
        ),
    ] = None,
    holdout: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            readable=False,
            help="Folder of photographs and cut-outs to validate on; repeatable.",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND:FOLDER",
            help="Real pairs to train on instead: chairs, things, sintel, kitti, hd1k or spring as "
            "unpacked, or manifest:CSV; repeatable.",
        ),
    ] = None,
    evaluation: Annotated[
        Path | None,
        typer.Option(
            "--eval",
            metavar="CSV",
            readable=False,
            help="Pairs with true flow to measure on at the end.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            metavar="MINUTES",
            help="Length of the run, or of all stages of a recipe. This or --steps is required "
            "without --preview.",
            callback=positive,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", metavar="STEPS", min=1, help="Length of the run, in place of --minutes."
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="default",
            callback=recipe_name,
            help="Train from nothing in the stages that lead to weights like the shipped ones.",
        ),
    ] = None,
    size: Annotated[
        str, typer.Option(metavar="HxW", help="Height and width of the pairs, in multiples of 64.")
    ] = "384x512",
    batch: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=LARGEST_BATCH, help="Pairs in a step, on each device."
        ),
    ] = 16,
    lr: Annotated[
        float, typer.Option(metavar="RATE", help="Highest learning rate.", callback=positive)
    ] = 3e-4,
    warm_up: Annotated[
        float,
        typer.Option(
            metavar="SHARE", callback=share, help="Share of the run in which the rate rises."
        ),
    ] = 0.05,
    optimizer: Annotated[
        str,
        typer.Option(
            metavar="adamw|muon",
            help="What turns gradients into steps.",
            callback=one_of("adamw", "muon"),
        ),
    ] = "adamw",
    robust: Annotated[
        float | None,
        typer.Option(
            metavar="POWER",
            help="Let errors count by this power, such as 0.5: what is nearly right matters more.",
            callback=positive,
        ),
    ] = None,
    motion: Annotated[
        float | None,
        typer.Option(
            metavar="PX",
            help="Translation in a typical scene.  [default: 13, in proportion less below 384x512]",
            callback=typical_motion,
        ),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Weights to start from; not needed to go on from a checkpoint.",
        ),
    ] = None,
    keep: Annotated[
        float,
        typer.Option(
            "--keep",
            metavar="SHARE",
            callback=share,
            help="Share of the weights of --init, or of --keep-of, in those that are written.",
        ),
    ] = 0.0,
    keep_of: Annotated[
        str | None,
        typer.Option(
            "--keep-of",
            metavar="NAME|FILE",
            help="Weights to keep a share of in place of those of --init: an ancestor of them.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the run in DIR; begin it where there is no checkpoint yet."
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, max=_LARGEST_SEED, help="Of weights and scenes.")
    ] = 0,
    log_every: Annotated[
        int, typer.Option(min=1, metavar="STEPS", help="Steps between two lines of the log.")
    ] = 100,
    validate_every: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="STEPS",
            help="Steps between two validations, besides those before and after.",
        ),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write DIR/tensorboard for TensorBoard too.")
    ] = False,
    device: DeviceOption = "auto",
    devices: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of GPUs; of processes on a CPU.")
    ] = 1,
    preview: Annotated[
        Path | None,
        typer.Option(
            metavar="PNG",
            readable=False,
            help="Write some pairs with their flow, and do not train.",
        ),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train weights on pairs of images, rendered or real.

    Rendered pairs have exact flow. They are made of the given images, or of nothing but computed
    patterns. Real ones, --data, are scaled, cropped and recoloured at random; each --data is drawn
    from equally often. A run ends after its minutes or steps, or on Ctrl-C; `weights.safetensors`
    in DIR is what `--weights` takes. The learning rate rises, then falls to nearly nothing at the
    end. The stages of a --recipe are such runs, in DIR/1, DIR/2 and so on.
    """
    check_preview(context)
    check_recipe(context)
    if preview is None and output is None:
        raise typer.BadParameter("give -o DIR, or --preview PNG")
    if preview is None and minutes is None and steps is None:
        raise typer.BadParameter("give the length of the run: --minutes or --steps")
    if preview is None and minutes is not None and steps is not None:
        raise typer.BadParameter("give the length of the run by --minutes or --steps, not both")
    if data and (photos or sprites or holdout or motion):
        raise typer.BadParameter(
            "--photos, --sprites, --holdout and --motion are of rendered pairs: leave them out "
            "with --data"
        )
    if keep and init is None and not resume:
        raise typer.BadParameter("--keep is a share of the weights of --init: give that too")
    if keep_of is not None and not keep:
        raise typer.BadParameter("--keep-of is what --keep is a share of: give one above 0")
    if holdout and not (photos or sprites):
        raise typer.BadParameter(
            "--holdout measures on other images than those trained on: give --photos or --sprites"
        )
    height, width = height_by_width(size, "384x512")
    with friendly_errors(quiet):
        import_torch()
        from pwcflow.datasets import KINDS, find_pairs
        from pwcflow.locks import locked_folder
        from pwcflow.training.ranks import is_first_process
        from pwcflow.training.recipe import RECIPES, run_recipe
        from pwcflow.training.run import pairs_of, pairs_to_measure_on, run_training, scenes_of
        from pwcflow.training.run import preview as write_preview
        from pwcflow.training.scene import SceneSettings
        from pwcflow.training.settings import OptimizerName, TrainSettings

        datasets = [dataset(text, KINDS) for text in data or []]
        scenes = SceneSettings.of_size(height, width, motion, photographs=bool(photos))
        if preview:
            make = (
                pairs_of([find_pairs(*named) for named in datasets], height, width)
                if datasets
                else scenes_of(photos or [], sprites or [], scenes)
            )
            write_preview(preview, make, device, seed, photos=photos or [], sprites=sprites or [])
            tell(
                f"{preview}: pairs and their flow",
                {"preview": str(preview)},
                quiet=quiet,
                as_json=as_json,
            )
            return
        assert output is not None, "asked for above"
        try:
            settings = TrainSettings(
                output=output,
                batch=batch,
                height=height,
                width=width,
                steps=steps,
                minutes=minutes,
                optimizer=cast("OptimizerName", optimizer),
                peak_lr=lr,
                warm_share=warm_up,
                q=robust,
                seed=seed,
                log_every=log_every,
                validate_every=validate_every,
                tensorboard=tensorboard,
                device=device,
                devices=devices,
                init=init,
                keep=keep,
                keep_of=keep_of,
                resume=resume,
                echo=not quiet,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        run = (
            partial(run_recipe, settings, RECIPES[recipe], manifest=evaluation)
            if recipe
            else partial(
                run_training,
                settings,
                scenes,
                data=datasets,
                measured=pairs_to_measure_on(evaluation),
            )
        )
        images = {"photos": photos or [], "sprites": sprites or [], "holdout": holdout or []}
        with locked_folder(output) if is_first_process() else nullcontext():
            result = run(**images)
        if result["outcome"] == "interrupted":
            raise KeyboardInterrupt(
                f"kept {result['checkpoint']} and {result['weights']} after "
                f"{counted(result['pairs'], 'pair')}; the same command with --resume goes on from "
                "there"
            )
        if is_first_process():  # of those that torchrun started, it alone knows all of it
            tell(told(result), result, quiet=quiet, as_json=as_json)
