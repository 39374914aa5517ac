"""What `pwcflow bench` makes of its samples, and how it tells them."""

from pathlib import Path

import pytest
import torch

from pwcflow.bench import report
from pwcflow.bench.network import PairCost
from pwcflow.bench.timing import WARM_UP, Memory, Times, time_calls
from pwcflow.bench.video import Stage, VideoCost
from pwcflow.bench.volumes import shape_of

CPU = torch.device("cpu")
MEMORY = Memory(gpu_allocated=412.0, gpu_reserved=500.0, process=None)
COST = PairCost(network=Times(0.5, 0.625), whole=Times(2.0, 4.0), memory=MEMORY)


@pytest.mark.parametrize(
    ("samples", "p50", "p95"),
    [
        ([7.0], 7.0, 7.0),
        ([4.0, 1.0, 3.0, 2.0], 2.5, 3.85),  # 0.95 of the way over 3 gaps: 0.85 into the last one
        (list(range(101)), 50.0, 95.0),
    ],
)
def test_percentiles_lie_between_the_two_nearest_samples(samples, p50, p95):
    times = Times.of(samples)
    assert (times.p50, times.p95) == (pytest.approx(p50), pytest.approx(p95))


def test_the_first_calls_do_not_count_and_the_others_do():
    calls = []
    times = time_calls(lambda: calls.append(1), CPU, 4)
    assert len(calls) == WARM_UP["cpu"] + 4
    assert 0 <= times.p50 <= times.p95


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"), (0.004, "0.00"), (9.994, "9.99"), (9.995, "10.0"), (99.94, "99.9"),
        (99.95, "100"), (1234.5, "1234"),
    ],
)  # fmt: skip
def test_figures_have_three_digits(number, text):
    assert report.figure(number) == text


def test_columns_are_aligned_and_one_of_dashes_is_left_out():
    rows = [("a", "-", "1.00", "-"), ("longer", "-", "-", "12")]
    assert report.table(("name", "absent", "ms", "us"), rows) == [
        "  name    ms  us",
        "     a  1.00   -",
        "longer     -  12",
    ]


def test_a_pair_is_told_by_its_median_and_one_without_memory_keeps_its_place():
    rows = [report.pair_summary((436, 1024), batch, cost) for batch, cost in [(1, COST), (8, None)]]
    assert rows[0] == {
        "height": 436,
        "width": 1024,
        "batch": 1,
        "out_of_memory": False,
        "network_ms_per_pair": {"p50": 0.5, "p95": 0.625},
        "whole_ms_per_pair": {"p50": 2.0, "p95": 4.0},
        "network_pairs_per_second": 2000.0,
        "whole_pairs_per_second": 500.0,
        "peak_memory_mb": {"gpu_allocated": 412.0, "gpu_reserved": 500.0, "process": None},
    }
    assert rows[1]["out_of_memory"]
    assert rows[1]["network_ms_per_pair"] is rows[1]["whole_pairs_per_second"] is None


def test_the_slowest_stage_is_the_one_that_all_together_are_held_against():
    decode, network, write = (Stage.of(samples) for samples in ([2.0, 4.0], [1.0], [0.5, 0.25]))
    cost = VideoCost(Path("clip.mp4"), 9, 436, 1024, decode, network, write, together=3.75)
    assert cost.slowest() == ("decode", 3.0)
    assert report.video_summary(cost) == {
        "path": "clip.mp4",
        "frames": 9,
        "height": 436,
        "width": 1024,
        "decode_ms": {"mean": 3.0, "p50": 3.0, "p95": pytest.approx(3.9)},
        "network_ms": {"mean": 1.0, "p50": 1.0, "p95": 1.0},
        "write_ms": {"mean": 0.375, "p50": 0.375, "p95": pytest.approx(0.4875)},
        "together_ms": {"mean": 3.75},
        "slowest": "decode",
        "together_over_slowest": 1.25,
    }


def test_levels_have_the_shapes_of_the_network():
    assert [shape_of(level, 448, 1024) for level in (6, 5, 4, 3, 2)] == [
        (196, 7, 16), (128, 14, 32), (96, 28, 64), (64, 56, 128), (32, 112, 256),
    ]  # fmt: skip
