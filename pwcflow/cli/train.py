"""The command `train`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from pwcflow.cli.console import friendly_errors, import_torch, tell
from pwcflow.cli.options import DeviceOption, JsonOption, QuietOption, positive

TRAIN_EXAMPLES = """\b
Examples:
  pwcflow train -o run --minutes 2 --device cpu --size 128x128
  pwcflow train -o run --minutes 60 --photos photos --sprites cut-outs --holdout holdout
  pwcflow train -o run --minutes 60 --photos photos --resume
  pwcflow train --preview sheet.png --photos photos --sprites cut-outs
"""


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", text)
    if not match:
        raise typer.BadParameter(f"must be such as 384x512: {text}", param_hint="'--size'")
    return int(match[1]), int(match[2])


def train(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            readable=False,
            help="Checkpoint, weights and log go here; made where missing.",
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
            metavar="DIR", readable=False, help="Folder of PNG cut-outs with alpha; repeatable."
        ),
    ] = None,
    holdout: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", readable=False, help="Folder of images to validate on; repeatable."
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
        float | None, typer.Option(help="Length of the run.", callback=positive)
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Length of the run, instead.")] = None,
    size: Annotated[
        str, typer.Option(metavar="HxW", help="Height and width of the pairs.")
    ] = "384x512",
    batch: Annotated[int, typer.Option(min=1, help="Pairs in a step, on each device.")] = 16,
    lr: Annotated[float, typer.Option(help="Highest learning rate.", callback=positive)] = 3e-4,
    robust: Annotated[
        float | None,
        typer.Option(help="Power of the errors, such as 0.4, for a last run.", callback=positive),
    ] = None,
    motion: Annotated[
        float, typer.Option(metavar="PX", help="Translation in a typical scene.", callback=positive)
    ] = 13.0,
    init: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Weights to start from.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in DIR.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and scenes.")] = 0,
    device: DeviceOption = "auto",
    devices: Annotated[int, typer.Option(min=1, help="Number of GPUs.")] = 1,
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
    """Train weights on pairs of images rendered on the fly.

    Their flow is exact. They are made of the given images, or of nothing but computed patterns. A
    run ends after its minutes or steps, or on Ctrl-C; `weights.safetensors` in DIR is what
    `--weights` takes. The learning rate rises, then falls to nearly nothing at the end.
    """
    if preview is None and output is None:
        raise typer.BadParameter("give -o DIR, or --preview PNG")
    if preview is None and (minutes is None) == (steps is None):
        raise typer.BadParameter("give the length of the run: --minutes or --steps")
    height, width = _size(size)
    with friendly_errors(quiet):
        import_torch()
        from pwcflow.training.run import preview_scenes, run_training
        from pwcflow.training.scene import SceneSettings
        from pwcflow.training.settings import TrainSettings

        scenes = SceneSettings(
            height=height,
            width=width,
            typical_motion=motion,
            procedural=SceneSettings.procedural if photos else 1.0,
        )
        if preview:
            preview_scenes(preview, scenes, photos or [], sprites or [], device, seed)
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
                peak_lr=lr,
                q=robust,
                seed=seed,
                device=device,
                devices=devices,
                init=init,
                resume=resume,
                echo=not quiet,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        result = run_training(
            settings,
            scenes,
            photos=photos or [],
            sprites=sprites or [],
            holdout=holdout or [],
            manifest=evaluation,
        )
        told = f"{result['weights']}: {result['pairs']} pairs, {result['outcome']}"
        tell(told, result, quiet=quiet, as_json=as_json)
