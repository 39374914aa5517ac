"""What was measured, as a text for a person and as a dictionary for `--json`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pwcflow.bench.machine import Machine
from pwcflow.bench.network import PairCost
from pwcflow.bench.run import BenchResult
from pwcflow.bench.timing import Times
from pwcflow.bench.video import Stage, VideoCost
from pwcflow.bench.volumes import VolumeCost
from pwcflow.counted import counted

NOTHING = "-"

_PAIR_HEADER = (
    "size", "batch", "network p50", "p95", "whole p50", "p95", "pairs/s", "GPU MB", "reserved",
    "process MB",
)  # fmt: skip
_VOLUME_HEADER = (
    "level", "C x H x W", "ours p50", "p95", "plain", "localcorr", "backward p50", "p95", "plain",
)  # fmt: skip
_STAGE_HEADER = ("stage", "mean", "p50", "p95", "per second")


def lines_of(result: BenchResult) -> list[str]:
    """Return the tables, line by line."""
    lines = [
        f"{_where(result.machine)}, torch {result.machine.torch}, {result.precision}, "
        f"network scale {result.network_scale:g}, weights {result.weights}, "
        f"{counted(result.repeats, 'call')} each",
    ]
    if result.pairs:
        lines += [
            "",
            "A pair of images, in ms: the network alone; the whole, from numpy images to numpy "
            "flow.",
            *table(_PAIR_HEADER, [_pair_row(*row) for row in result.pairs]),
        ]
    for (height, width), rows in result.volumes:
        total = sum(row.ours.p50 for row in rows)
        lines += [
            "",
            f"The cost volume of a {height}x{width} pair, in us, p50 where not said; ours of all "
            f"levels together {figure(total)}.",
            *table(_VOLUME_HEADER, [_volume_row(row) for row in rows]),
        ]
    if result.video:
        lines += ["", *_video_lines(result.video)]
    return lines


def summary_of(result: BenchResult) -> dict[str, Any]:
    """Return all figures by name, with their units in the names."""
    return {
        **asdict(result.machine),
        "precision": result.precision,
        "network_scale": result.network_scale,
        "weights": result.weights,
        "repeats": result.repeats,
        "pairs": [pair_summary(*row) for row in result.pairs],
        "cost_volume": [
            {"height": size[0], "width": size[1], "levels": [volume_summary(row) for row in rows]}
            for size, rows in result.volumes
        ],
        "video": result.video and video_summary(result.video),
    }


def pair_summary(size: tuple[int, int], batch: int, cost: PairCost | None) -> dict[str, Any]:
    """Return one size and batch; without figures where memory did not suffice."""
    return {
        "height": size[0],
        "width": size[1],
        "batch": batch,
        "out_of_memory": cost is None,
        "network_ms_per_pair": cost and asdict(cost.network),
        "whole_ms_per_pair": cost and asdict(cost.whole),
        "network_pairs_per_second": cost and 1e3 / cost.network.p50,
        "whole_pairs_per_second": cost and 1e3 / cost.whole.p50,
        "peak_memory_mb": cost and asdict(cost.memory),
    }


def volume_summary(cost: VolumeCost) -> dict[str, Any]:
    """Return one level of the cost volume."""
    return {
        "level": cost.level,
        "channels": cost.channels,
        "height": cost.height,
        "width": cost.width,
        "ours_us": asdict(cost.ours),
        "plain_torch_us": cost.plain and asdict(cost.plain),
        "localcorr_us": cost.localcorr and asdict(cost.localcorr),
        "ours_backward_us": asdict(cost.ours_backward),
        "plain_torch_backward_us": cost.plain_backward and asdict(cost.plain_backward),
    }


def video_summary(cost: VideoCost) -> dict[str, Any]:
    """Return the stages of a video."""
    slowest, mean = cost.slowest()
    stages = {
        f"{name}_ms": {"mean": stage.mean, **asdict(stage.times)}
        for name in ("decode", "network", "write")
        for stage in [getattr(cost, name)]
    }
    return {
        "path": str(cost.path),
        "frames": cost.frames,
        "height": cost.height,
        "width": cost.width,
        **stages,
        "together_ms": {"mean": cost.together},
        "slowest": slowest,
        "together_over_slowest": cost.together / mean,
    }


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table, its columns aligned on the right; one of nothing but dashes is left out."""
    columns = [
        (title, *cells)
        for title, *cells in zip(header, *rows, strict=True)
        if set(cells) != {NOTHING}
    ]
    padded = [[cell.rjust(max(map(len, column))) for cell in column] for column in columns]
    return ["  ".join(row) for row in zip(*padded, strict=True)]


def figure(number: float | None) -> str:
    """Return a number with three digits or all those before the point; a dash for none."""
    if number is None:
        return NOTHING
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{decimals}f}"


def _where(machine: Machine) -> str:
    cpu = f"CPU {machine.cpu}" if machine.cpu else "CPU"
    return ", ".join(filter(None, (machine.gpu, cpu, counted(machine.cpu_threads, "thread"))))


def _pair_row(size: tuple[int, int], batch: int, cost: PairCost | None) -> tuple[str, ...]:
    name = f"{size[0]}x{size[1]}", str(batch)
    if cost is None:
        return (*name, "no memory", *[NOTHING] * (len(_PAIR_HEADER) - 3))
    memory = cost.memory
    return (
        *name,
        *_figures(cost.network),
        *_figures(cost.whole),
        figure(1e3 / cost.whole.p50),
        *map(figure, (memory.gpu_allocated, memory.gpu_reserved, memory.process)),
    )


def _volume_row(cost: VolumeCost) -> tuple[str, ...]:
    return (
        str(cost.level),
        f"{cost.channels} x {cost.height} x {cost.width}",
        *_figures(cost.ours),
        _median(cost.plain),
        _median(cost.localcorr),
        *_figures(cost.ours_backward),
        _median(cost.plain_backward),
    )


def _video_lines(cost: VideoCost) -> list[str]:
    slowest, mean = cost.slowest()
    rows = [_stage_row(name, getattr(cost, name)) for name in ("decode", "network", "write")]
    together = figure(cost.together), NOTHING, NOTHING, figure(1e3 / cost.together)
    return [
        f"{cost.path}: {cost.frames} frames of {cost.height}x{cost.width}, in ms a pair: each "
        "stage alone, and all together as `pwcflow video` runs them.",
        *table(_STAGE_HEADER, [*rows, ("together", *together)]),
        f"The slowest stage is {slowest}; all together take {cost.together / mean:.2f} times as "
        "long.",
    ]


def _stage_row(name: str, stage: Stage) -> tuple[str, ...]:
    return (name, figure(stage.mean), *_figures(stage.times), figure(1e3 / stage.mean))


def _figures(times: Times) -> tuple[str, str]:
    return figure(times.p50), figure(times.p95)


def _median(times: Times | None) -> str:
    return figure(times.p50 if times else None)
