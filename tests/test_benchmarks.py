"""What the scripts in tests/benchmarks make of what they measured."""

import numpy as np
import pytest

from pwcflow.bench import report
from pwcflow.runs.video_outputs import VideoOutputs
from tests.benchmarks import growth, long_video

from .test_bench_figures import COST

# growth


def test_sizes_of_growth_have_about_their_megapixels():
    assert growth.size_of(0.25) == (375, 667)
    for megapixels in growth.MEGAPIXELS:
        height, width = growth.size_of(megapixels)
        assert height * width == pytest.approx(megapixels * 1e6, rel=2e-3)


@pytest.mark.parametrize(
    ("low", "high", "log", "ticks"),
    [
        (0.3, 17, True, [0.2, 0.5, 1, 2, 5, 10, 20]),
        (100, 1000, True, [100, 200, 500, 1000]),
        (1, 5.5, False, [0, 1, 2, 3, 4, 5, 6]),
        (0.1, 0.22, False, [0, 0.05, 0.1, 0.15, 0.2, 0.25]),
    ],
)
def test_ticks_are_round_and_span_the_values(low, high, log, ticks):
    assert growth.ticks_of(low, high, log=log) == pytest.approx(ticks)


def test_growth_is_drawn_also_where_memory_did_not_suffice():
    def rows(name, values):
        costs = [COST] * (len(values) - 1) + [None]
        return [
            {name: value, **report.pair_summary((64, 64), 1, cost)}
            for value, cost in zip(values, costs, strict=True)
        ]

    image = growth.draw(
        {
            "machine": {"card": "a card", "torch": "2.13", "commit": "abc", "date": "2026-11-30"},
            "precision": "fp16",
            "by_size": rows("megapixels", [0.25, 1, 33]),
            "by_batch": rows("batch", [32]),
        }
    )
    assert image.dtype == np.uint8
    by_size, by_batch = np.hsplit(image[growth.HEADER :], 2)
    for color in growth.COLORS:
        assert (by_size == color).all(-1).any()
        assert not (by_batch == color).all(-1).any()


# a long video


def samples_of(*rows):
    return [long_video.Sample(*row) for row in rows]


def test_the_speed_of_a_long_video_leaves_out_what_comes_first_and_last():
    # 3 s before the first flow, then 2 ms each, and a second in which the last ones are finished.
    begun = samples_of((3.0, 0, 1, 1), (3.1, 50, 1, 1), (3.2, 100, 1, 1))
    going_on = samples_of((3.4, 200, 1, 1), (3.8, 400, 1, 1), (4.0, 500, 1, 1))
    finished = samples_of((4.2, 992, 1, 1), (5.0, 992, 1, 1))  # counted by 16
    assert long_video.steady(begun + going_on + finished, 1000) == pytest.approx(2.0)
    assert long_video.steady(begun + finished, 1000) is None


def test_flow_files_of_a_long_video_are_counted_by_sixteen(tmp_path):
    outputs = VideoOutputs(folder=tmp_path)
    counts = []
    for start, stop in ((0, 15), (15, 16), (16, 49)):
        for number in range(start, stop):
            (tmp_path / f"{number:06d}.flo").touch()
        counts.append(long_video.flows_on_disk(outputs, counts[-1] if counts else 0))
    assert counts == [0, 16, 48]
    assert long_video.flows_on_disk(VideoOutputs(folder=None, viz=tmp_path / "a.mp4"), 0) == 0


def test_memory_of_the_first_half_of_the_time_stands_beside_that_of_the_second():
    samples = samples_of((1, 0, 100, 5), (2, 9, 400, 6), (3, 10, 300, 8), (4, 20, 350, 7))
    assert long_video.flatness(samples) == {"process": [400, 350], "gpu reserved": [6, 8]}
    on_a_cpu = samples_of((1, 0, 100, None), (4, 20, 350, None))
    assert long_video.flatness(on_a_cpu) == {"process": [100, 350]}
