"""Reading, estimating and writing a video at the same time, and an end at any moment of it."""

import io
import sys
import weakref
from contextlib import suppress
from itertools import pairwise

import pytest

from pwcflow.errors import OutputError, VideoError
from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from tests.fake_estimator import FakeEstimator
from tests.gray_frames import (
    flows_in,
    frames_folder,
    frames_of,
    gray,
    means_of,
    names_in,
    run,
)

pytestmark = pytest.mark.usefixtures("no_thread_is_left_behind")


LONG = 60


class Stumbling(FakeEstimator):
    """Does something when it has come to a flow, and may replace it."""

    def __init__(self, at, then):
        super().__init__()
        self._at, self._then = at, then

    def flows(self, frames, expected=None):
        for number, flow in enumerate(super().flows(frames)):
            yield (self._then() or flow[:-8]) if number == self._at else flow


def interrupt():
    raise KeyboardInterrupt


def run_long(tmp_path, estimator, levels=range(LONG), **options):
    source = frames_folder(tmp_path / "frames", levels, "{:03d}.png")
    return run(estimator, source, folder=tmp_path / "flows", viz=tmp_path / "viz.avi", **options)


def test_the_flows_of_a_long_video_are_all_there_and_in_order(tmp_path, estimator):
    summary = run_long(tmp_path, estimator)
    assert summary["flows"] == LONG - 1
    assert means_of(tmp_path / "flows") == list(pairwise(range(LONG)))
    assert len(frames_of(tmp_path / "viz.avi")[1]) == LONG - 1
    # a quarter above the first motion of 1 px, and 5 % more with every flow after it
    assert summary["max_flow_px"] == pytest.approx(1.25 * 1.05 ** (LONG - 2), abs=1e-3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("fails_at", "end"), [(None, "59/59"), (30, "30/59"), (0, "0/59")])
def test_the_progress_bar_counts_the_flows_that_are_written(
    tmp_path, estimator, monkeypatch, fails_at, end
):
    monkeypatch.setattr(sys, "stderr", Terminal())
    estimator.fails_at = fails_at
    source = frames_folder(tmp_path / "frames", range(LONG), "{:03d}.png")
    outputs = VideoOutputs(folder=tmp_path / "flows", viz=tmp_path / "viz.avi")
    with suppress(VideoError):
        estimate_video(estimator.load, source, outputs, progress=True)
    assert f"| {end} [" in sys.stderr.getvalue().split("\r")[-1]


class Counted(FakeEstimator):
    """Counts the flows that exist at a time."""

    alive = most_alive = 0

    def decode(self, first, second):
        flow = super().decode(first, second)
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        weakref.finalize(flow, self._gone)
        return flow

    def _gone(self):
        self.alive -= 1


def test_a_network_faster_than_the_writers_waits_for_them(tmp_path):
    estimator = Counted()
    run_long(tmp_path, estimator)
    assert 2 < estimator.most_alive <= 16 + 2
    assert estimator.alive == 0


def test_a_file_that_cannot_be_written_ends_the_video_at_its_flow(tmp_path):
    taken = tmp_path / "flows" / "000007.flo"
    estimator = Stumbling(7, taken.mkdir)
    with pytest.raises(OutputError, match=r"000007\.flo: it is a folder"):
        run_long(tmp_path, estimator)
    assert flows_in(tmp_path / "flows") == [f"{number:06d}.flo" for number in range(8)]
    taken.rmdir()
    assert means_of(tmp_path / "flows") == list(pairwise(range(8)))
    assert names_in(tmp_path) == ["flows", "frames"]  # no colour video, as it was before
    assert len(estimator.encoded) < 7 + 20


def test_a_colour_frame_that_cannot_be_written_ends_the_video_at_its_flow(tmp_path):
    estimator = Stumbling(7, lambda: None)  # a flow of another size
    with pytest.raises(ValueError, match="all frames need the shape of the first"):
        run_long(tmp_path, estimator)
    assert means_of(tmp_path / "flows") == list(pairwise(range(8)))
    assert names_in(tmp_path) == ["flows", "frames"]
    assert len(estimator.encoded) < 7 + 20


def test_a_full_disk_is_told_when_a_damaged_frame_comes_later(tmp_path):
    taken = tmp_path / "flows" / "000001.flo"
    frames = frames_folder(tmp_path / "frames", [1, 2, 3, 4])
    write_image(frames / "frame5.png", gray(40, 32, 80))
    with pytest.raises(OutputError, match=r"000001\.flo: it is a folder"):
        run(Stumbling(1, taken.mkdir), frames, folder=tmp_path / "flows")
    assert flows_in(tmp_path / "flows") == ["000000.flo", "000001.flo"]


@pytest.mark.parametrize("at", [0, 1, 30])
def test_an_estimator_that_fails_loses_no_flow_that_is_being_written(tmp_path, estimator, at):
    estimator.fails_at = at
    kept = f"before: {at} flow" if at else "nothing was written"
    with pytest.raises(VideoError, match=f"no flow here; .*{kept}"):
        run_long(tmp_path, estimator)
    if at:
        assert means_of(tmp_path / "flows") == list(pairwise(range(at + 1)))
        assert len(frames_of(tmp_path / "viz.avi")[1]) == at
    else:
        assert names_in(tmp_path) == ["frames"]


def test_an_error_of_ours_leaves_the_flows_before_it(tmp_path):
    def fail():
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="CUDA"):
        run_long(tmp_path, Stumbling(20, fail))
    assert means_of(tmp_path / "flows") == list(pairwise(range(21)))
    assert names_in(tmp_path) == ["flows", "frames"]


def test_an_interruption_keeps_every_flow_that_was_handed_over(tmp_path):
    with pytest.raises(
        KeyboardInterrupt,
        match=r"^kept what comes before: 20 flows in .*; the same command goes on from there$",
    ):
        run_long(tmp_path, Stumbling(20, interrupt))
    assert means_of(tmp_path / "flows") == list(pairwise(range(21)))
    assert len(frames_of(tmp_path / "viz.avi")[1]) == 20
