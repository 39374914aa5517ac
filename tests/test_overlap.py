"""Reading ahead and writing behind keep the order, keep to their bounds, and stop when told."""

import threading
import time
import weakref
from contextlib import closing, suppress
from functools import partial

import numpy as np
import pytest

from pwcflow import overlap
from pwcflow.overlap import WriteBehind, items_at_once, prefetch

SMALL, LARGE = (4, 4, 3), (4320, 7680, 3)  # an 8K frame has 100 MB
FLOWS = 100


@pytest.fixture(autouse=True)
def no_thread_is_left_behind():
    before = threading.enumerate()
    yield
    assert threading.enumerate() == before


class Frames:
    """Numbered frames that count how many of them exist, and of which one is damaged."""

    def __init__(self, count=FLOWS, shape=SMALL, damaged=None, seconds=0.0):
        self.made = 0
        self.alive = self.most_alive = 0
        self._count, self._shape, self._damaged, self._seconds = count, shape, damaged, seconds
        self._lock = threading.Lock()

    def __iter__(self):
        for load in self.loads():
            yield load()

    def loads(self, *, told_at_once=False):
        """Yield what loads each frame; the damage is found by loading it, or told at once."""
        for number in range(self._count):
            time.sleep(self._seconds)
            if told_at_once and number == self._damaged:
                raise ValueError(f"frame {number}")
            yield partial(self._frame, number)

    def _frame(self, number):
        if number == self._damaged:
            raise ValueError(f"frame {number}")
        frame = np.empty(self._shape, np.uint8)  # pages that nobody touches take no memory
        frame[0, 0, 0] = number
        with self._lock:
            self.made += 1
            self.alive += 1
            self.most_alive = max(self.most_alive, self.alive)
        weakref.finalize(frame, self._gone)
        return frame

    def _gone(self):
        with self._lock:
            self.alive -= 1


def number_of(frame):
    return int(frame[0, 0, 0])


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("size", "items"), [(1, 16), (16 << 20, 16), (32 << 20, 8), (100 << 20, 2), (1 << 30, 2)]
)
def test_few_large_items_wait_or_sixteen_small_ones(size, items):
    assert items_at_once(size) == items


# reading ahead


@pytest.mark.parametrize("seconds", [0.0, 0.002], ids=["fast reader", "slow reader"])
def test_frames_come_in_order(seconds):
    frames = Frames(seconds=seconds)
    assert list(map(number_of, prefetch(frames.loads()))) == list(range(FLOWS))


def test_no_frames_are_no_frames():
    assert list(prefetch([])) == []


@pytest.mark.parametrize(("shape", "ahead"), [(SMALL, 16), (LARGE, 2)])
def test_no_more_frames_are_read_ahead_than_memory_is_meant_for(shape, ahead):
    frames = Frames(shape=shape)
    with closing(prefetch(frames.loads())) as ready:
        for taken in range(1, 6):
            next(ready)
            wait_until(lambda taken=taken: frames.made == taken + ahead)
            time.sleep(0.02)  # a thread that does not know when to stop would go on
            assert frames.made == taken + ahead
    assert frames.most_alive <= ahead + 3  # the last one taken, and the one in the hand of each


def test_a_slow_reader_keeps_no_frame_that_was_taken():
    frames = Frames(seconds=0.002)
    for _ in prefetch(frames.loads()):
        pass
    assert frames.most_alive <= 4


def test_frames_are_loaded_side_by_side_and_come_in_order(monkeypatch):
    monkeypatch.setattr(overlap, "usable_processors", lambda: 4)
    together, loaded = threading.Barrier(4), []

    def load(number):
        if 1 <= number <= 4:
            together.wait(20)
        if number == 1:
            wait_until(lambda: 9 in loaded)
        loaded.append(number)
        return np.full(SMALL, number, np.uint8)

    frames = prefetch(partial(load, number) for number in range(10))
    assert list(map(number_of, frames)) == list(range(10))
    assert loaded[0] == 0  # alone: its size tells how many there may be
    assert loaded.index(1) > loaded.index(9)


@pytest.mark.parametrize("told_at_once", [False, True])
@pytest.mark.parametrize("damaged", [0, 1, 5, FLOWS - 1])
def test_a_damaged_frame_is_told_after_those_before_it(damaged, told_at_once):
    seen = []
    with pytest.raises(ValueError, match=f"frame {damaged}$"):
        for frame in prefetch(Frames(damaged=damaged).loads(told_at_once=told_at_once)):
            seen.append(number_of(frame))
    assert seen == list(range(damaged))


def test_closing_stops_the_reading():
    frames = Frames(seconds=0.002)
    with closing(prefetch(frames.loads())) as ready:
        next(ready)
        wait_until(lambda: frames.made > 3)
    made = frames.made
    time.sleep(0.02)
    assert frames.made == made < FLOWS


def test_nothing_is_read_before_the_first_frame_is_asked_for():
    frames = Frames()
    prefetch(frames.loads()).close()
    assert frames.made == 0


# writing behind


class Disk:
    """Writes flows to a list: some slowly, one not at all."""

    def __init__(self, seconds=0.0, full_at=None, slow=()):
        self.written = []
        self.undone = []
        self._seconds, self._full_at, self._slow = seconds, full_at, slow

    def write(self, number, flow):
        time.sleep(0.05 if number in self._slow else self._seconds)
        assert number == number_of(flow)
        if number == self._full_at:
            raise OSError(f"full at {number}")
        self.written.append(number)

    def undo(self, number):
        self.undone.append(number)

    @property
    def left(self):
        return sorted(set(self.written) - set(self.undone))


def write_all(behind, flows):
    for flow in flows:
        behind.write(flow)
    behind.finish()


def test_one_thread_writes_in_order_and_several_write_all():
    files, video = Disk(slow=[0, 7]), Disk()
    with WriteBehind([[(files.write, 4)], [(video.write, 1)]], files.undo) as behind:
        write_all(behind, Frames())
        assert behind.written == FLOWS
    assert video.written == sorted(files.written) == list(range(FLOWS))
    assert files.written != video.written  # the slow ones came later
    assert files.undone == []


@pytest.mark.parametrize(("shape", "most"), [(SMALL, 16), (LARGE, 2)])
def test_slow_writers_hold_up_whoever_has_too_many_flows(shape, most):
    flows, files, video = Frames(40, shape), Disk(0.001), Disk(0.003)
    with WriteBehind([[(files.write, 4)], [(video.write, 1)]], files.undo) as behind:
        for handed_in, flow in enumerate(flows, 1):
            behind.write(flow)
            assert handed_in - behind.written < most
        behind.finish()
    del flow
    assert min(most, 3) <= flows.most_alive <= most + 2  # one being made, and one not yet let go
    assert flows.alive == 0


@pytest.mark.parametrize("full_at", [0, 5, FLOWS - 1])
@pytest.mark.parametrize("place", ["files", "video"])
def test_a_failure_is_told_at_its_flow_and_what_comes_after_it_is_undone(place, full_at):
    flows = Frames()
    full, other = Disk(0.002, full_at), Disk()
    writers = [[(full.write, 4)], [(other.write, 1)]]
    if place == "video":
        writers = [[(other.write, 4)], [(full.write, 1)]]
    with (  # an earlier flow may still be on its way, and is not lost
        pytest.raises(OSError, match=f"full at {full_at}$"),
        WriteBehind(writers, lambda number: (full.undo(number), other.undo(number))) as behind,
    ):
        write_all(behind, flows)
    assert behind.written == full_at
    assert full.left == other.left == list(range(full_at))
    assert flows.made < full_at + 20  # and it ends the work


def test_the_first_of_several_failures_is_told_though_a_later_one_was_faster():
    early, late = Disk(full_at=3, slow=[3]), Disk(full_at=8)
    with (
        pytest.raises(OSError, match=r"full at 3$"),
        WriteBehind([[(early.write, 4)], [(late.write, 1)]], early.undo) as behind,
    ):
        write_all(behind, Frames())
    assert behind.written == 3
    assert early.left == [0, 1, 2]


def test_a_failure_elsewhere_waits_for_what_was_handed_in():
    files = Disk(0.002)
    with (
        pytest.raises(ValueError, match=r"frame 12$"),
        WriteBehind([[(files.write, 2)]], files.undo) as behind,
    ):
        write_all(behind, Frames(damaged=12))
    assert behind.written == 12
    assert files.left == list(range(12))


def test_whoever_interrupts_does_not_wait_for_what_has_not_begun():
    video = Disk(0.05)
    with suppress(KeyboardInterrupt), WriteBehind([[(video.write, 1)]], video.undo) as behind:
        for flow in Frames(10):
            behind.write(flow)
        raise KeyboardInterrupt
    assert behind.written == len(video.left) < 10
    assert video.left == list(range(behind.written))


class Studio:
    """Draws the picture of a flow, here its number times ten; late ones of some flows."""

    def __init__(self, slow=(), fails_at=None):
        self.drawn = []
        self._slow, self._fails_at = slow, fails_at

    def draw(self, number, flow):
        time.sleep(0.05 if number in self._slow else 0.0)
        if number == self._fails_at:
            raise ValueError(f"nothing to see in {number}")
        self.drawn.append(number)
        return 10 * number_of(flow)


def test_what_several_threads_draw_is_written_in_order():
    studio, shown = Studio(slow=[0, 7]), []
    steps = [(studio.draw, 4), (lambda number, picture: shown.append((number, picture)), 1)]
    with WriteBehind([steps], print) as behind:
        write_all(behind, Frames())
        assert behind.written == FLOWS
    assert shown == [(number, 10 * number) for number in range(FLOWS)]
    assert studio.drawn != sorted(studio.drawn) == list(range(FLOWS))


def test_what_cannot_be_drawn_is_told_after_what_came_before():
    studio, shown, files = Studio(fails_at=5), [], Disk()
    steps = [(studio.draw, 4), (lambda number, _: shown.append(number), 1)]
    with (
        pytest.raises(ValueError, match=r"nothing to see in 5$"),
        WriteBehind([[(files.write, 1)], steps], files.undo) as behind,
    ):
        write_all(behind, Frames())
    assert behind.written == 5
    assert shown[:5] == files.left == list(range(5))
    assert 5 not in shown


def test_whoever_interrupts_does_not_wait_for_pictures_that_are_not_begun():
    studio, shown = Studio(slow=range(FLOWS)), []
    steps = [(studio.draw, 2), (lambda number, _: shown.append(number), 1)]
    with suppress(KeyboardInterrupt), WriteBehind([steps], print) as behind:
        for flow in Frames(10):
            behind.write(flow)
        raise KeyboardInterrupt
    assert behind.written == len(shown) < 10
    assert shown == list(range(behind.written))


def test_without_a_place_to_go_flows_are_counted_at_once():
    with WriteBehind([], print) as behind:
        write_all(behind, Frames())
    assert behind.written == FLOWS
