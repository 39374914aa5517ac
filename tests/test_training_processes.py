"""Several processes train one network: other pairs, equal weights, errors told once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from safetensors.torch import save_file
from torch.multiprocessing import ProcessExitedException

from pwcflow.errors import PwcFlowError, WeightsError
from pwcflow.training.checkpoint import load_checkpoint
from pwcflow.training.divergence import DivergedError
from pwcflow.training.initial import initial_weights
from pwcflow.training.processes import run_processes
from pwcflow.training.trainer import train
from pwcflow.weights import load_weights
from tests.command_line import posix
from tests.training_source import (
    ShiftedTextures,
    join_as,
    lines,
    run_and_keep_the_state,
    shifted_textures,
    tiny,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_processes_see_other_pairs_and_keep_equal_weights(tmp_path):
    mp.spawn(run_and_keep_the_state, (tiny(tmp_path, steps=2), 2, free_port()), nprocs=2)
    first, second = (torch.load(tmp_path / f"rank{rank}.pt") for rank in (0, 1))
    for slot, tensors in first.items():
        assert all(torch.equal(second[slot][name], tensors[name]) for name in tensors), slot

    class Both:
        """The pairs of both processes in one batch."""

        def __init__(self, device, rank, world):
            self.sources = [ShiftedTextures(device, rank, 2) for rank in (0, 1)]
            self.batch = ShiftedTextures(device, batch=2)

        def load(self, step):
            for source in self.sources:
                source.load(step)

        def render(self):
            a, b = (source.render() for source in self.sources)
            self.batch.images.copy_(
                torch.stack((a.images[0], b.images[0], a.images[1], b.images[1]))
            )
            self.batch.flow.copy_(torch.cat((a.flow, b.flow)))
            self.batch.valid.fill_(1.0)
            return self.batch

    alone = tiny(tmp_path / "alone", steps=2, batch=2)
    train(alone, Both)
    single = load_checkpoint(alone.checkpoint_path).optimizer["first_moment"]
    for name, moment in single.items():
        torch.testing.assert_close(first["first_moment"][name], moment, rtol=1e-3, atol=1e-6)


def test_processes_are_started_for_several_devices(tmp_path):
    init = tmp_path / "init.safetensors"
    save_file(initial_weights(7), init)
    settings = tiny(tmp_path, steps=1, devices=2, init=init, keep=0.25)
    summary = train(settings, shifted_textures)
    assert (summary.outcome, summary.step, summary.pairs) == ("finished", 1, 2)
    assert [line["pairs"] for line in lines(tmp_path)] == [2]
    initial, trained, written = (
        load_weights(path).state["context.0.weight"]
        for path in (init, summary.checkpoint, summary.weights)
    )
    assert not torch.equal(initial, trained)
    # Half the space between float16 numbers below 1, at most.
    torch.testing.assert_close(written, 0.25 * initial + 0.75 * trained, rtol=0, atol=2.0**-12)


def test_a_run_goes_on_with_another_number_of_devices_and_says_so(tmp_path, capfd):
    settings = tiny(tmp_path, steps=1, echo=True)
    train(settings, shifted_textures)
    assert "going on" not in capfd.readouterr().err
    resumed = replace(settings, steps=2, devices=2, resume=True)
    assert train(resumed, shifted_textures).pairs == 1 + 2
    assert capfd.readouterr().err.splitlines()[0] == "going on with 2 devices instead of 1"
    assert load_checkpoint(settings.checkpoint_path).settings["devices"] == 2


def pairs_to_measure_on(device):
    return {"training": lambda: ShiftedTextures(device)}


def diverge_and_keep_what_is_told(rank, settings, world, port):
    """Be one of the processes that torchrun would start; leave the error that ends it in a file."""
    join_as(rank, world, port)
    try:
        train(settings, shifted_textures, pairs_to_measure_on)
    except DivergedError as error:
        (settings.output / f"rank{rank}.txt").write_text(str(error))


def test_all_processes_end_with_the_error_that_the_first_alone_can_see(tmp_path):
    """It alone measures. The weights are finite: see the same run in one process."""
    settings = tiny(tmp_path, steps=1, peak_lr=4e3)
    mp.spawn(diverge_and_keep_what_is_told, (settings, 2, free_port()), nprocs=2)
    first, second = ((tmp_path / f"rank{rank}.txt").read_text() for rank in (0, 1))
    assert first == second
    assert first.startswith("training diverged: the errors of the weights of step 1 are not finite")
    assert not settings.weights_path.exists()


def torchrun(*options):
    """Train in two processes for a step; return the exit code and what both print."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = ["train", "-o", "run", "--size", "64x64", "--batch", "1", "--device", "cpu"]
    run = subprocess.run(
        [*launcher, "--nproc-per-node", "2", "-m", "pwcflow", *command, "--steps", "1", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return run.returncode, run.stdout, run.stderr.splitlines()


def test_under_torchrun_what_a_run_came_to_is_told_once(here):
    code, stdout, _ = torchrun("--json")
    assert code == 0
    summary = json.loads(stdout)
    assert (summary["outcome"], summary["step"], summary["pairs"]) == ("finished", 1, 2)
    assert set(summary["errors"]) == set(summary["errors_before"]) == {"training"}


def test_under_torchrun_no_process_takes_a_run_that_diverged_for_finished(here):
    code, stdout, stderr = torchrun("--lr", "4e3")
    assert (code, stdout) == (1, "")
    told = (
        "error: training diverged: the errors of the weights of step 1 are not finite; begin anew "
        "in another folder with a lower rate"
    )
    assert {line for line in stderr if line.startswith("error: ")} == {told}
    assert not (here / "run/weights.safetensors").exists()


class EndedInItsFifteenthStep(ShiftedTextures):
    """Pairs; the second process is told to end while it makes step 15 and loads the next."""

    def load(self, step):
        if self.rank == 1 and step == 15:
            os.kill(os.getpid(), signal.SIGTERM)
        super().load(step)


def test_processes_on_a_cpu_end_after_the_step_they_are_at(tmp_path, capfd):
    """And not at the next line of the log, after the first 10 steps either."""
    settings = tiny(tmp_path, steps=18, log_every=100, devices=2, echo=True)
    summary = train(settings, EndedInItsFifteenthStep)
    assert (summary.outcome, summary.step) == ("interrupted", 15)
    assert "100 steps, and Ctrl-C ends it after the step it is at" in capfd.readouterr().err


def test_an_error_in_a_process_is_told_as_in_one(tmp_path):
    settings = tiny(tmp_path, resume=True, devices=2)
    settings.checkpoint_path.write_text("nothing")
    with pytest.raises(WeightsError, match=r"checkpoint.pt is damaged: its data cannot be read"):
        train(settings, shifted_textures)


def be_killed_as_the_second(ranks):
    if ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@posix
def test_a_process_that_is_killed_is_told_in_a_sentence(caplog):
    with pytest.raises(PwcFlowError, match="process 2 of 2 was killed, by somebody or by the"):
        run_processes("cpu", 2, be_killed_as_the_second)
    assert caplog.messages == []


def die_of_a_bug(ranks):
    os._exit(3)


def test_a_process_that_ends_by_itself_is_not_called_killed():
    with pytest.raises(ProcessExitedException, match="terminated with exit code 3"):
        run_processes("cpu", 1, die_of_a_bug)


def refuse_in_the_first(ranks):
    if ranks.rank == 0:
        raise WeightsError("mine")
    time.sleep(60)


def test_the_error_of_one_process_is_all_that_is_told_when_another_has_to_be_ended(caplog):
    with pytest.raises(WeightsError, match="mine"):
        run_processes("cpu", 2, refuse_in_the_first)
    assert caplog.messages == []


def ask_for_too_much_memory(ranks):
    if ranks.rank == 1:
        torch.empty(2**50)
    time.sleep(60)


def ask_numpy_for_too_much_memory(ranks):
    if ranks.rank == 1:
        np.empty(2**50)
    time.sleep(60)


@pytest.mark.parametrize("work", [ask_for_too_much_memory, ask_numpy_for_too_much_memory])
def test_want_of_memory_in_one_process_is_told_in_the_sentence_of_a_run_in_one(work):
    with pytest.raises(PwcFlowError, match="there is not enough memory for this size; use sma"):
        run_processes("cpu", 2, work)
