"""Threads share what is held back of stderr, and each is told of its own complaints alone."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pwcflow.errors import ImageError
from pwcflow.held_stderr import dropped_stderr, with_complaints
from pwcflow.image_file import read_image

from .image_bytes import encoded, save

SECONDS = 20  # for what takes milliseconds
DAMAGED = b"Corrupt JPEG data: bad Huffman code\n"


class Meeting:
    """Work of several threads that are all at it at the same time, when they do it first."""

    def __init__(self, *texts):
        self.calls = [0] * len(texts)
        self._texts = texts
        self._barrier = threading.Barrier(len(texts))

    def work(self, number):
        self.calls[number] += 1
        if self.calls[number] == 1:
            self._barrier.wait(SECONDS)
        os.write(2, self._texts[number])
        if self.calls[number] == 1:
            self._barrier.wait(SECONDS)
        return number

    def held(self):
        with ThreadPoolExecutor(len(self._texts)) as threads:
            numbers = range(len(self._texts))
            return list(threads.map(lambda n: with_complaints(lambda: self.work(n)), numbers))


def test_complaints_are_held_back_and_other_text_is_passed_on(capfd):
    text = b"50 %Corrupt JPEG data: bad Huffman code\nhello\nlibpng warning: x\n"
    result, complaints = with_complaints(lambda: os.write(2, text))
    assert result == len(text)
    assert complaints == b"Corrupt JPEG data: bad Huffman code\nlibpng warning: x\n"
    assert capfd.readouterr() == ("", "50 %hello\n")


def test_threads_without_complaints_work_side_by_side(capfd):
    meeting = Meeting(b"a\n", b"b\n", b"c\n")
    assert meeting.held() == [(0, b""), (1, b""), (2, b"")]
    assert meeting.calls == [1, 1, 1]
    assert sorted(capfd.readouterr().err.split()) == ["a", "b", "c"]


def test_a_complaint_is_told_to_the_thread_whose_it_is(capfd):
    meeting = Meeting(b"", DAMAGED, b"")
    assert meeting.held() == [(0, b""), (1, DAMAGED), (2, b"")]
    assert meeting.calls[1] == 2  # once more, with nobody beside it
    assert capfd.readouterr().err == ""


def test_who_was_alone_does_not_work_twice():
    meeting = Meeting(DAMAGED)
    assert meeting.held() == [(0, DAMAGED)]
    assert meeting.calls == [1]


def test_text_is_passed_on_while_others_are_still_at_work(capfd):
    done, started = threading.Event(), threading.Event()

    def long_work():
        started.set()
        return done.wait(SECONDS)

    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(with_complaints, long_work)
        assert started.wait(SECONDS)
        with_complaints(lambda: os.write(2, b"\r50 %libpng warning: half a line"))
        seen = capfd.readouterr().err
        with_complaints(lambda: os.write(2, b" and its end\n\r60 %"))
        done.set()
        assert job.result() == (True, b"")
    assert (seen, capfd.readouterr().err) == ("\r50 %", "\r60 %")


def test_dropping_waits_until_nobody_is_at_work_and_keeps_others_out(capfd):
    order, done, started = [], threading.Event(), threading.Event()

    def long_work():
        started.set()
        done.wait(SECONDS)
        order.append("work")

    def drop():
        with dropped_stderr():
            order.append("dropped")
            os.write(2, b"not seen\n")

    with ThreadPoolExecutor(3) as threads:
        jobs = [threads.submit(with_complaints, long_work)]
        assert started.wait(SECONDS)
        jobs.append(threads.submit(drop))
        done.set()
        for job in jobs:
            job.result(SECONDS)
    with_complaints(lambda: os.write(2, b"seen\n"))
    assert order == ["work", "dropped"]
    assert capfd.readouterr().err == "seen\n"


def test_stderr_is_put_back_after_an_error(capfd):
    with pytest.raises(ZeroDivisionError):
        with_complaints(lambda: 1 // 0)
    os.write(2, b"seen\n")
    assert capfd.readouterr().err == "seen\n"


def test_of_many_jpegs_read_at_a_time_just_the_damaged_ones_are_told(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    whole = encoded(".jpg", pixels)
    data = {True: whole, False: whole[: len(whole) // 2] + whole[-2:]}
    sound = [number % 3 != 1 for number in range(60)]
    files = [save(tmp_path / f"{n}.jpg", data[good]) for n, good in enumerate(sound)]

    def is_read(file):
        try:
            return read_image(file).shape == pixels.shape
        except ImageError:
            return False

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(is_read, files)) == sound


def test_it_works_without_a_stderr():
    script = (
        "import os; os.close(2); from pwcflow.held_stderr import with_complaints\n"
        "print(with_complaints(lambda: os.write(2, b'hello\\n')))"
    )
    run = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert run.stdout == "(6, b'')\n"
