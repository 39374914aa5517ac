"""A signal is heard by all who wait for one, and by those who begin to wait after it."""

import os
import signal
import time

import pytest

from pwcflow.training.interruption import catching_interruptions
from pwcflow.training.processes import run_processes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_blocks_around_one_another_all_hear_of_a_signal(number):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
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


def interrupted_while_it_loads(ranks):
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)


def test_processes_that_are_told_to_end_before_they_can_listen_are_an_interruption():
    with pytest.raises(KeyboardInterrupt):
        run_processes("cpu", 1, interrupted_while_it_loads)
