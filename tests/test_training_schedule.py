"""Learning rates and progress, worked out by hand."""

import pytest

from pwcflow.training.schedule import Pace, one_cycle


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(0, 0), (0.025, 0.5), (0.05, 1), (0.525, 0.5025), (1, 0.005), (1.5, 0.005), (-1, 0)],
)
def test_the_rate_rises_in_a_line_and_falls_along_a_cosine(progress, expected):
    assert one_cycle(progress, 1.0) == pytest.approx(expected)
    assert one_cycle(progress, 3e-4) == pytest.approx(3e-4 * expected)


def test_a_run_may_start_at_its_highest_rate():
    assert one_cycle(0.0, 2.0, warm_share=0.0) == 2.0


def test_progress_by_steps_needs_no_clock():
    pace = Pace(steps=40, seconds=None)
    pace.observe(5, 1000.0)
    assert [pace.progress(step) for step in (0, 10, 40)] == [0, 0.25, 1]


def test_progress_by_time_goes_on_at_the_pace_last_seen():
    pace = Pace(steps=None, seconds=100.0)
    assert pace.progress(7) == 0
    pace.observe(10, 20.0)
    assert pace.progress(10) == pytest.approx(0.2)
    assert pace.progress(15) == pytest.approx(0.3)
    pace.observe(20, 25.0)
    assert pace.progress(30) == pytest.approx(0.3)
    pace.observe(20, 26.0)  # no step in between: the time counts, the pace stays
    assert pace.progress(22) == pytest.approx(0.27)
