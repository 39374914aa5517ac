"""The command `bench`."""

from pathlib import Path
from typing import Annotated

import typer

from pwcflow.cli.console import friendly_errors, import_torch, tell_lines
from pwcflow.cli.options import (
    LARGEST_BATCH,
    DeviceOption,
    JsonOption,
    NetworkScaleOption,
    PrecisionOption,
    QuietOption,
    WeightsOption,
    height_by_width,
)

BENCH_EXAMPLES = """\b
Examples:
  pwcflow bench --precision fp16
  pwcflow bench clip.mp4 --precision fp16
  pwcflow bench --size 436x1024 --size 1080x1920 --batch 1 --batch 8 --json
"""


def bench(
    video: Annotated[
        Path | None,
        typer.Argument(
            metavar="VIDEO",
            readable=False,
            help="A short video, or a folder of frames, to measure each stage on.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            readable=False,
            help="Where flows of VIDEO are written, and removed again; the system's folder for "
            "temporary files unless given.",
        ),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HxW",
            help="Height and width of the images; repeatable.  "
            "[default: 436x1024; none with VIDEO]",
        ),
    ] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=LARGEST_BATCH,
            metavar="N",
            help="Pairs in a call; repeatable.  [default: 1]",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Calls that are timed.  [default: 30 on a GPU, 5 on a CPU]",
        ),
    ] = None,
    weights: WeightsOption = "default",
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    network_scale: NetworkScaleOption = 1.0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how fast this machine is.

    Times are medians (p50) and 95th percentiles (p95), on images of random texture, by size and
    batch; then those of the cost volume at each level, on a GPU beside plain PyTorch, which is what
    a CPU runs, and beside the package localcorr where it is installed.

    Of a VIDEO, reading, the network and writing are measured alone, then all together, to see which
    one bounds; all its frames are read and their flows written, so a few seconds of it are best.
    """
    if output and not video:
        raise typer.BadParameter("--output is for the flows of a video; give VIDEO too")
    unasked = [] if video and not batch else ["436x1024"]
    sizes = [height_by_width(text, "436x1024") for text in size or unasked]
    with friendly_errors(quiet):
        import_torch()
        from pwcflow.bench.report import lines_of, summary_of
        from pwcflow.bench.run import BenchSettings, run_bench

        settings = BenchSettings(
            sizes=sizes,
            batches=batch or [1],
            video=video,
            folder=output,
            weights=weights,
            device=device,
            precision=precision,
            network_scale=network_scale,
            repeats=repeats,
        )
        result = run_bench(settings, quiet=quiet)
        tell_lines(lines_of(result), summary_of(result), quiet=quiet, as_json=as_json)
