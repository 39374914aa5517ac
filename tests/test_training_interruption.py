"""A signal is heard by all who wait for one, and by those who begin to wait after it."""

import os
import signal
import time

import pytest

from pwcflow.training.interruption import catching_interruptions
from pwcflow.training.processes import run_processes
from tests.command_line import posix

NUMBERS = [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)]


@pytest.mark.usefixtures("hangup_ends")
@pytest.mark.parametrize("number", NUMBERS)
def test_blocks_around_one_another_all_hear_of_a_signal(number):
    before = {number: signal.getsignal(number) for number in NUMBERS}
    told = []
    with catching_interruptions(lambda: told.append("outer")) as outer:
        with catching_interruptions() as earlier:
            pass
        with catching_interruptions(lambda: told.append("inner")) as inner:
            assert not inner.requested
            os.kill(os.getpid(), number)
            assert (inner.requested, outer.requested, told) == (True, True, ["inner", "outer"])
        with catching_interruptions(lambda: told.append("later")) as later:
            assert later.requested
        assert told == ["inner", "outer", "later"]
        assert not earlier.requested
    assert {number: signal.getsignal(number) for number in before} == before


def test_a_second_ctrl_c_interrupts_at_once():
    with pytest.raises(KeyboardInterrupt), catching_interruptions(), catching_interruptions():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_a_second_ctrl_c_interrupts_at_once_in_a_block_that_began_after_the_first():
    with pytest.raises(KeyboardInterrupt), catching_interruptions():
        os.kill(os.getpid(), signal.SIGINT)
        with catching_interruptions() as later:
            assert later.requested
            os.kill(os.getpid(), signal.SIGINT)


def test_a_second_ctrl_c_interrupts_at_once_after_the_block_that_caught_the_first():
    with pytest.raises(KeyboardInterrupt), catching_interruptions() as outer:
        with catching_interruptions():
            os.kill(os.getpid(), signal.SIGINT)
        assert outer.requested
        os.kill(os.getpid(), signal.SIGINT)


@posix
def test_under_nohup_a_closed_terminal_interrupts_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with catching_interruptions() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interruption.requested
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def interrupted_while_it_loads(ranks):
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)


def test_processes_that_are_told_to_end_before_they_can_listen_are_an_interruption():
    with pytest.raises(KeyboardInterrupt):
        run_processes("cpu", 1, interrupted_while_it_loads)


def test_what_nobody_needs_is_left_at_once_and_not_begun_any_more():
    done = []

    def work():
        done.append("begun")
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("not to be done")

    with catching_interruptions() as interruption:
        assert interruption.unless_requested(lambda: "made") == "made"
        assert interruption.unless_requested(work) is None
        assert (interruption.requested, done) == (True, ["begun"])
        os.kill(os.getpid(), signal.SIGTERM)  # outside of such work it is a wish again
        assert interruption.unless_requested(work) is None
    assert done == ["begun"]


@pytest.mark.parametrize("numbers", [NUMBERS[:2], NUMBERS[1::-1]], ids=str)
def test_a_signal_that_is_passed_on_too_does_not_disturb_what_is_tidied_up(numbers):
    """A terminal sends Ctrl-C to all processes; the first of them passes it on as SIGTERM."""
    done = []

    def work():
        try:
            os.kill(os.getpid(), numbers[0])
        finally:
            os.kill(os.getpid(), numbers[1])
            done.append("tidied up")

    with catching_interruptions() as interruption:
        assert interruption.unless_requested(work) is None
    assert done == ["tidied up"]
