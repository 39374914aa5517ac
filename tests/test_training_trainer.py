"""A run learns, stops when it shall, and goes on as if it had not."""

import os
import shutil
import signal
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from pwcflow.aligned import AlignedPwcNet, align_state
from pwcflow.errors import OutputError, WeightsError
from pwcflow.network import PwcNet
from pwcflow.training.checkpoint import load_checkpoint, save_checkpoint
from pwcflow.training.start import is_over
from pwcflow.training.trainer import train
from pwcflow.weights import load_weights
from tests.repeated_runs import contents
from tests.test_video_writer import largest_file
from tests.training_source import ShiftedTextures, fixed_textures, lines, shifted_textures, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


def stopping_at(step):
    """Return a renderer's maker whose process is told to end while it loads a step."""

    class Stopping(ShiftedTextures):
        def load(self, at):
            if at == step:
                os.kill(os.getpid(), signal.SIGTERM)
            super().load(at)

    return Stopping


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    output = tmp_path_factory.mktemp("learnt")
    settings = tiny(output, steps=15, peak_lr=1e-3, log_every=3)
    return settings, train(settings, fixed_textures)


def test_the_loss_of_one_pair_falls(learnt):
    settings, summary = learnt
    losses = [line["loss"] for line in lines(settings.output)]
    assert losses[-1] < losses[0] / 5
    assert (summary.outcome, summary.step, summary.pairs) == ("finished", 15, 15)
    assert summary.loss == pytest.approx(losses[-1], rel=1e-5)


def test_the_log_says_what_was_done(learnt):
    log = lines(learnt[0].output)
    assert [line["step"] for line in log] == [3, 6, 9, 12, 15]
    assert set(log[0]) == {
        "step", "pairs", "seconds", "pairs_per_second", "loss", "epe_px", "lr", "grad_norm",
        "loss_scale", "skipped",
    }  # fmt: skip
    assert log[-1]["lr"] == pytest.approx(5e-6)
    assert all(line["skipped"] == 0 and line["grad_norm"] > 0 for line in log)


def test_the_weights_load_and_give_the_flow_of_the_average(learnt):
    _, summary = learnt
    flows = []
    for path in (summary.checkpoint, summary.weights):  # float32 and float16
        network = AlignedPwcNet()
        network.load_state_dict(align_state(load_weights(path).state))
        source = ShiftedTextures("cpu", fixed=True)
        source.load(0)
        with torch.inference_mode():
            flows.append(network(source.render().images)[-1])
    assert flows[0].abs().max() > 0.01  # of 20 px
    torch.testing.assert_close(flows[0], flows[1], rtol=0, atol=2e-3)


def test_a_run_starts_from_given_weights(learnt, tmp_path):
    summary = train(tiny(tmp_path, steps=1, init=learnt[1].weights), fixed_textures)
    assert summary.loss < 2 * load_first_loss(learnt) / 5


def load_first_loss(learnt):
    return lines(learnt[0].output)[0]["loss"]


def test_an_earlier_run_is_not_overwritten(learnt):
    with pytest.raises(OutputError, match="earlier run; resume it"):
        train(learnt[0], fixed_textures)


def test_a_run_that_is_over_is_over_when_resumed(learnt):
    summary = train(replace(learnt[0], resume=True), fixed_textures)
    assert (summary.outcome, summary.step) == ("finished", 15)
    last = lines(learnt[0].output)[-1]
    assert (summary.loss, summary.epe_px) == (last["loss"], last["epe_px"])


def assert_same_state(run, other):
    ours, theirs = (load_checkpoint(one.checkpoint_path).optimizer for one in (run, other))
    for slot, tensors in theirs.items():
        assert all(torch.equal(ours[slot][name], tensors[name]) for name in tensors), slot


def assert_same_log(run, other, steps):
    """Compare what does not depend on the clock, in the lines of some steps."""
    ours, theirs = ({line["step"]: line for line in lines(one.output)} for one in (run, other))
    for key in ("loss", "epe_px", "lr", "grad_norm"):
        assert [ours[step][key] for step in steps] == [theirs[step][key] for step in steps]


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    """Return what makes, once for each optimizer, a run of three steps that saves after each.

    It gives its settings, and a copy of its checkpoint taken while its third step is made.
    """

    @cache
    def whole(optimizer):
        output = tmp_path_factory.mktemp(optimizer)
        copy = output / "copy.pt"
        settings = tiny(output / "run", optimizer=optimizer, checkpoint_minutes=1e-9)

        class Watched(ShiftedTextures):
            def load(self, at):
                if at == 2:
                    shutil.copy(settings.checkpoint_path, copy)
                super().load(at)

        train(settings, Watched)
        return settings, copy

    return whole


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_sigterm_leaves_a_checkpoint_that_goes_on_bit_for_bit(wholes, tmp_path, optimizer):
    whole, _ = wholes(optimizer)
    parts = tiny(tmp_path, optimizer=optimizer)
    before = signal.getsignal(signal.SIGTERM)
    assert train(parts, stopping_at(1)).outcome == "interrupted"
    assert signal.getsignal(signal.SIGTERM) is before
    assert load_checkpoint(parts.checkpoint_path).step == 1
    assert train(replace(parts, resume=True), shifted_textures).outcome == "finished"
    for run in (whole, parts):
        assert [line["step"] for line in lines(run.output)] == [1, 2, 3]
    assert_same_log(parts, whole, [1, 2, 3])
    assert_same_state(parts, whole)


def test_a_run_that_dies_in_its_first_step_goes_on(wholes, tmp_path):
    class Dying(ShiftedTextures):
        def load(self, at):
            if at == 1:  # asked for while the first step is made
                raise RuntimeError("the power is gone")
            super().load(at)

    parts = tiny(tmp_path)
    with pytest.raises(RuntimeError, match="the power is gone"):
        train(parts, Dying)
    assert train(replace(parts, resume=True), shifted_textures).step == 3
    assert parts.weights_path.read_bytes() == wholes("adamw")[0].weights_path.read_bytes()


@pytest.mark.parametrize(
    ("change", "was", "now"),
    [
        ({"optimizer": "muon"}, "the optimizer adamw", "the optimizer muon"),
        ({"width": 128}, "pairs of 64x64", "pairs of 64x128"),
        ({"batch": 2}, "a batch of 1", "a batch of 2"),
        ({"seed": 7}, "the seed 0", "the seed 7"),
        ({"q": 0.5}, "no robust loss", "a robust loss of 0.5"),
        ({"motion": 5.0}, "real pairs", "rendered pairs that typically move 5 px"),
    ],
)
def test_another_run_is_not_resumed(learnt, change, was, now):
    before = contents(learnt[0].output)
    with pytest.raises(
        WeightsError, match=f"of a run with {was}; resume it so, not with {now}, or"
    ):
        train(replace(learnt[0], resume=True, **change), fixed_textures)
    assert contents(learnt[0].output) == before


def test_a_longer_run_at_another_rate_is(learnt, tmp_path):
    settings = replace(learnt[0], output=tmp_path, resume=True, steps=16, peak_lr=1e-5)
    shutil.copy(learnt[0].checkpoint_path, settings.checkpoint_path)
    assert train(settings, fixed_textures).step == 16


def test_the_rate_of_a_run_that_is_made_shorter_is_that_of_the_shorter_one(tmp_path):
    """Half a cosine from 1e-3 to 5e-6: at 1/6 and 1/3 of a run, and at 3/4 and 4/4 of another."""
    settings = tiny(tmp_path, steps=6, peak_lr=1e-3, warm_share=0.0)
    train(settings, stopping_at(2))
    train(replace(settings, steps=4, resume=True), shifted_textures)
    rates = [0.000933348, 0.00075125, 0.000150714, 0.000005]
    assert [line["lr"] for line in lines(tmp_path)] == rates


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """A run of 50,000 minutes that stopped after a third of them, at a thousand steps a second."""
    settings = tiny(tmp_path_factory.mktemp("long"), steps=1)
    train(settings, shifted_textures)
    begun = load_checkpoint(settings.checkpoint_path)
    save_checkpoint(settings.checkpoint_path, replace(begun, step=10**9, seconds=1e6))
    settings.log_path.unlink()
    return replace(settings, steps=None, minutes=50_000, warm_share=0.0, resume=True)


@pytest.mark.parametrize(
    ("minutes", "rate"),
    # Half a cosine from 1e-3 to 5e-6, after a third, two thirds, and a sixth.
    [(50_000, 0.00075125), (25_000, 0.00025375), (100_000, 0.000933348)],
)
def test_the_rate_by_minutes_is_that_of_the_new_ones(long_run, tmp_path, minutes, rate):
    settings = replace(long_run, output=tmp_path, minutes=minutes, peak_lr=1e-3)
    shutil.copy(long_run.checkpoint_path, settings.checkpoint_path)
    assert train(settings, stopping_at(10**9 + 1)).outcome == "interrupted"
    told = [(line["step"], line["lr"]) for line in lines(tmp_path)]
    assert told == [(10**9 + 1, pytest.approx(rate, rel=1e-5))]


def test_a_run_that_is_made_shorter_than_it_was_is_finished_at_once(long_run, tmp_path, capfd):
    settings = replace(long_run, output=tmp_path, minutes=16_000, echo=True)  # 960,000 seconds
    shutil.copy(long_run.checkpoint_path, settings.checkpoint_path)
    summary = train(settings, shifted_textures)
    assert (summary.outcome, summary.step) == ("finished", 10**9)
    assert lines(tmp_path) == []
    assert summary.weights.read_bytes() == long_run.weights_path.read_bytes()
    assert capfd.readouterr().err.splitlines()[1:] == [
        "the run has already lasted as long as it is to: nothing is left to train"
    ]


def test_muon_lowers_the_loss_of_one_pair(tmp_path):
    settings = tiny(tmp_path, steps=15, peak_lr=1e-3, log_every=5, optimizer="muon")
    summary = train(settings, fixed_textures)
    assert summary.loss < lines(tmp_path)[0]["loss"] / 2
    assert load_weights(summary.weights).state


def test_a_run_ends_by_the_clock(tmp_path):
    summary = train(tiny(tmp_path, steps=None, minutes=0.5 / 60), shifted_textures)
    assert summary.outcome == "finished"
    assert summary.step >= 1
    assert 0.3 < summary.seconds < 30


def test_a_run_by_minutes_is_over_though_its_processes_stopped_a_moment_too_early(tmp_path):
    settings = tiny(tmp_path, steps=None, minutes=0.1 / 60)
    step = train(settings, shifted_textures).step
    checkpoint = load_checkpoint(settings.checkpoint_path)
    save_checkpoint(settings.checkpoint_path, replace(checkpoint, seconds=0.09))
    assert is_over(settings, step)
    assert not is_over(settings, step - 1)  # what is told is of a run that was shorter
    assert is_over(replace(settings, minutes=0.05 / 60), step)
    assert not is_over(replace(settings, minutes=0.2 / 60), step)
    assert not is_over(replace(settings, minutes=None, steps=step + 1), step)


@pytest.mark.parametrize(
    ("length", "seconds"), [({"minutes": 2}, 24), ({"minutes": 60}, 300), ({"steps": 9}, 300)]
)
def test_a_short_run_has_checkpoints_too(tmp_path, length, seconds):
    settings = tiny(tmp_path, **{"steps": None} | length)
    assert settings.checkpoint_seconds == pytest.approx(seconds)


def test_checkpoints_are_written_on_the_way_and_what_a_kill_leaves_goes_on(wholes, tmp_path):
    """A killed process leaves the checkpoint before, here that of step 1."""
    whole, copy = wholes("adamw")
    assert load_checkpoint(copy).step == 1
    parts = tiny(tmp_path, resume=True)
    shutil.copy(copy, parts.checkpoint_path)
    train(parts, shifted_textures)
    assert [line["step"] for line in lines(parts.output)] == [2, 3]
    assert_same_log(parts, whole, [2, 3])
    assert_same_state(parts, whole)


def test_a_full_disk_is_told_and_keeps_the_checkpoint_before(learnt, tmp_path):
    path = tmp_path / "checkpoint.pt"
    shutil.copy(learnt[0].checkpoint_path, path)
    before, checkpoint = path.read_bytes(), load_checkpoint(path)
    with pytest.raises(OutputError, match="file too large; write to a file"), largest_file(10**6):
        save_checkpoint(path, checkpoint)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_with_one_bit_flipped_is_damaged(learnt, tmp_path):
    damaged = bytearray(learnt[0].checkpoint_path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(damaged)
    with pytest.raises(WeightsError, match="is damaged: its data cannot be read"):
        load_checkpoint(path)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that none can read")
def test_a_checkpoint_that_cannot_be_read_is_not_called_damaged(tmp_path):
    settings = tiny(tmp_path, resume=True)
    settings.checkpoint_path.symlink_to("/proc/self/mem")
    with pytest.raises(WeightsError, match="cannot be read: input/output error; check its"):
        train(settings, shifted_textures)


@pytest.mark.parametrize("resume", [True, False])
def test_a_recipe_is_not_gone_on_with_as_a_plain_run(tmp_path, resume):
    stage = tmp_path / "1" / "checkpoint.pt"
    stage.parent.mkdir()
    stage.touch()
    with pytest.raises(OutputError, match="is of a run by a recipe; go on with that recipe"):
        train(tiny(tmp_path, resume=resume), shifted_textures)


@pytest.mark.parametrize("name", ["init", "keep_of"])
def test_nothing_is_made_where_the_weights_to_begin_with_are_refused(tmp_path, name):
    missing = {name: tmp_path / "none.safetensors"}
    with pytest.raises(WeightsError, match=r"none\.safetensors"):
        train(tiny(tmp_path / "run", keep=0.5, **{"init": "default"} | missing), shifted_textures)
    assert not (tmp_path / "run").exists()


def test_a_renderer_of_another_size_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the renderer must give"):
        train(tiny(tmp_path, batch=2), shifted_textures)


def test_what_cannot_be_resumed_is_said(tmp_path):
    settings = tiny(tmp_path, resume=True)
    settings.checkpoint_path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(WeightsError, match="is damaged"):
        train(settings, shifted_textures)
    torch.save(PwcNet().state_dict(), settings.checkpoint_path)
    with pytest.raises(WeightsError, match="not the state of a training run"):
        train(settings, shifted_textures)


@pytest.mark.parametrize(
    "wrong",
    [
        {"minutes": 1},
        {"steps": None},
        {"batch": 0},
        {"height": 100},
        {"ema": 1},
        {"clip": 0},
        {"optimizer": "sgd"},
        {"keep": 1, "init": "default"},
        {"keep": 0.2},
        {"keep_of": "default"},
    ],
    ids=str,
)
def test_settings_that_make_no_run_are_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"must be|one of the two"):
        tiny(tmp_path, **wrong)


@pytest.mark.gpu
def test_the_loss_of_one_pair_falls_in_half_precision(tmp_path):
    settings = tiny(tmp_path, steps=60, peak_lr=1e-3, log_every=10, device="cuda")
    train(settings, fixed_textures)
    losses = [line["loss"] for line in lines(tmp_path)]
    assert losses[-1] < losses[0] / 5
