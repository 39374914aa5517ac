"""A run learns, stops when it shall, and goes on as if it had not."""

import json
import os
import shutil
import signal
import socket
from dataclasses import replace

import pytest
import torch
import torch.multiprocessing as mp
from torch.utils._python_dispatch import TorchDispatchMode

from pwcflow.aligned import AlignedPwcNet, align_state
from pwcflow.errors import OutputError, WeightsError
from pwcflow.network import PwcNet
from pwcflow.training import trainer as trainer_module
from pwcflow.training.checkpoint import load_checkpoint, save_checkpoint
from pwcflow.training.flat import flatten
from pwcflow.training.initial import initial_weights
from pwcflow.training.muon import FlatMuon
from pwcflow.training.optimizer import AdamSettings, FlatAdamW
from pwcflow.training.settings import TrainSettings
from pwcflow.training.step import TrainingStep
from pwcflow.training.trainer import DivergedError, train
from pwcflow.weights import load_weights
from tests.test_video_writer import largest_file
from tests.training_source import (
    ShiftedTextures,
    fixed_textures,
    run_and_keep_the_state,
    shifted_textures,
)


def tiny(output, **changes):
    values = {"batch": 1, "height": 64, "width": 64, "steps": 3, "device": "cpu", "log_every": 1}
    return TrainSettings(output=output, **values | changes)


def lines(path):
    return [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]


def stopping_at(step):
    """Return a renderer's maker whose process is told to end while it loads a step."""

    class Stopping(ShiftedTextures):
        def load(self, at):
            if at == step:
                os.kill(os.getpid(), signal.SIGTERM)
            super().load(at)

    return Stopping


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """With several, oneDNN adds up gradients in an order that changes from run to run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    output = tmp_path_factory.mktemp("learnt")
    settings = tiny(output, steps=25, peak_lr=1e-3, log_every=5)
    return settings, train(settings, fixed_textures)


def test_the_loss_of_one_pair_falls(learnt):
    settings, summary = learnt
    losses = [line["loss"] for line in lines(settings.output)]
    assert losses[-1] < losses[0] / 5
    assert (summary.outcome, summary.step, summary.pairs) == ("finished", 25, 25)
    assert summary.loss == pytest.approx(losses[-1], rel=1e-5)


def test_the_log_says_what_was_done(learnt):
    log = lines(learnt[0].output)
    assert [line["step"] for line in log] == [5, 10, 15, 20, 25]
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
    assert (summary.outcome, summary.step, summary.loss) == ("finished", 25, None)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_sigterm_leaves_a_checkpoint_that_goes_on_bit_for_bit(tmp_path, optimizer):
    whole, parts = (
        tiny(tmp_path / name, steps=3, optimizer=optimizer) for name in ("whole", "parts")
    )
    train(whole, shifted_textures)
    before = signal.getsignal(signal.SIGTERM)
    assert train(parts, stopping_at(1)).outcome == "interrupted"
    assert signal.getsignal(signal.SIGTERM) is before
    assert load_checkpoint(parts.checkpoint_path).step == 1
    assert train(replace(parts, resume=True), shifted_textures).outcome == "finished"
    assert [line["step"] for line in lines(parts.output)] == [1, 2, 3]
    for key in ("loss", "epe_px", "lr", "grad_norm"):
        assert [line[key] for line in lines(parts.output)] == [
            line[key] for line in lines(whole.output)
        ]
    ours, theirs = (load_checkpoint(run.checkpoint_path).optimizer for run in (parts, whole))
    for slot, tensors in theirs.items():
        assert all(torch.equal(ours[slot][name], tensors[name]) for name in tensors), slot


def test_a_run_of_the_other_optimizer_is_not_resumed(learnt):
    with pytest.raises(WeightsError, match="with the optimizer adamw; resume it with that"):
        train(replace(learnt[0], optimizer="muon", resume=True), fixed_textures)


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


def test_checkpoints_are_written_on_the_way(tmp_path):
    steps = []

    class Watching(ShiftedTextures):
        def load(self, at):
            if at == 2:
                steps.append(load_checkpoint(tmp_path / "checkpoint.pt").step)
            super().load(at)

    train(tiny(tmp_path, steps=2, checkpoint_minutes=1e-9), Watching)
    assert steps == [1]


@pytest.mark.parametrize(
    ("length", "seconds"), [({"minutes": 2}, 24), ({"minutes": 60}, 300), ({"steps": 9}, 300)]
)
def test_a_short_run_has_checkpoints_too(tmp_path, length, seconds):
    settings = tiny(tmp_path, **{"steps": None} | length)
    assert settings.checkpoint_seconds == pytest.approx(seconds)


def test_what_a_kill_leaves_goes_on_bit_for_bit(tmp_path):
    """A killed process leaves the checkpoint before, here that of step 1."""
    whole, parts = (tiny(tmp_path / name, checkpoint_minutes=1e-9) for name in ("whole", "parts"))
    parts.output.mkdir()

    class Watched(ShiftedTextures):
        def load(self, at):
            if at == 2:
                shutil.copy(whole.checkpoint_path, parts.checkpoint_path)
            super().load(at)

    train(whole, Watched)
    assert load_checkpoint(parts.checkpoint_path).step == 1
    train(replace(parts, resume=True), shifted_textures)
    assert [line["step"] for line in lines(parts.output)] == [2, 3]
    for key in ("loss", "epe_px", "lr", "grad_norm"):
        expected = [line[key] for line in lines(whole.output)][1:]
        assert [line[key] for line in lines(parts.output)] == expected
    ours, theirs = (load_checkpoint(run.checkpoint_path).optimizer for run in (parts, whole))
    for slot, tensors in theirs.items():
        assert all(torch.equal(ours[slot][name], tensors[name]) for name in tensors), slot


def test_a_full_disk_is_told_and_keeps_the_checkpoint_before(learnt, tmp_path):
    path = tmp_path / "checkpoint.pt"
    shutil.copy(learnt[0].checkpoint_path, path)
    before, checkpoint = path.read_bytes(), load_checkpoint(path)
    with pytest.raises(OutputError, match="file too large; write to a file"), largest_file(10**6):
        save_checkpoint(path, checkpoint)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_that_stay_infinite_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "FAILURES_TOLERATED", 2)

    class Broken(ShiftedTextures):
        def render(self):
            batch = super().render()
            batch.images[:, 0] = float("nan")
            return batch

    settings = tiny(tmp_path, steps=10)
    with pytest.raises(DivergedError, match="2 steps in a row were not finite, up to step 2"):
        train(settings, Broken)
    log = lines(tmp_path)
    assert [line["skipped"] for line in log] == [1, 1]
    assert [line["loss"] for line in log] == [None, None]
    assert log[1]["loss_scale"] == log[0]["loss_scale"] / 2
    weights = load_weights(settings.weights_path).state  # still those it began with
    expected = initial_weights(settings.seed)
    assert torch.equal(weights["context.0.weight"], expected["context.0.weight"].half().float())


def test_a_renderer_of_another_size_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the renderer must give"):
        train(tiny(tmp_path, batch=2), shifted_textures)


def test_what_cannot_be_resumed_is_said(tmp_path):
    settings = tiny(tmp_path, resume=True)
    with pytest.raises(WeightsError, match="there is no checkpoint"):
        train(settings, shifted_textures)
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
    ],
    ids=str,
)
def test_settings_that_make_no_run_are_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"must be|one of the two"):
        tiny(tmp_path, **wrong)


def test_initial_flow_is_small_and_upsampled_bilinearly():
    state = initial_weights(0)
    assert all(torch.equal(state[name], weight) for name, weight in initial_weights(0).items())
    assert not any(state[name].any() for name in state if name.endswith("bias"))
    hidden = state["decoders.4.dense.2.0.weight"]
    expected = (2 / (1.01 * hidden[0].numel())) ** 0.5
    assert hidden.std().item() == pytest.approx(expected, rel=0.02)
    head = state["decoders.4.flow_head.weight"]
    expected = 0.1 * (2 / (1.01 * head[0].numel())) ** 0.5
    assert head.std().item() == pytest.approx(expected, rel=0.05)
    kernel = state["decoders.3.upsample_flow.weight"]
    line = torch.tensor([0.25, 0.75, 0.75, 0.25])
    assert torch.equal(kernel[0, 0], torch.outer(line, line))
    assert not kernel[0, 1].any()


def prepared_step(device="cpu", optimizer="adamw"):
    network = AlignedPwcNet()
    network.set_precision(torch.float16 if device == "cuda" else torch.float32).to(device)
    settings = AdamSettings(1e-4, 1.0, 0.999)
    muon = optimizer == "muon"
    rule = FlatMuon.of(network, settings) if muon else FlatAdamW(flatten(network), settings)
    rule.start(align_state(initial_weights(0)))
    source = ShiftedTextures(device)
    source.load(0)
    return TrainingStep(network, source, rule)


class Recording(TorchDispatchMode):
    """Keeps the name of each operator, those of the backward pass included."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_asks_the_host_for_nothing(optimizer):
    """What makes a tensor of host memory, or a number of a tensor, cannot be captured."""
    step = prepared_step(optimizer=optimizer)
    with Recording() as recording:
        step.find_gradient()
        step.update()
    assert any("convolution_backward" in name for name in recording.names)
    host = ("_local_scalar_dense", "lift_fresh", "nonzero", "masked_select", "is_nonzero", "unique")
    assert not {name for name in recording.names if any(word in name for word in host)}


def test_processes_see_other_pairs_and_keep_equal_weights(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(run_and_keep_the_state, (tiny(tmp_path, steps=2), 2, port), nprocs=2)
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
    summary = train(tiny(tmp_path, steps=1, devices=2), shifted_textures)
    assert (summary.outcome, summary.step, summary.pairs) == ("finished", 1, 2)
    assert [line["pairs"] for line in lines(tmp_path)] == [2]
    assert load_weights(summary.weights).state


def test_an_error_in_a_process_is_told_as_in_one(tmp_path):
    settings = tiny(tmp_path, resume=True, devices=2)
    with pytest.raises(WeightsError, match="there is no checkpoint"):
        train(settings, shifted_textures)


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_replayed_graphs_train_like_plain_calls(tmp_path, optimizer):
    losses = []
    for graphs in (True, False):
        changes = {"steps": 8, "device": "cuda", "graphs": graphs, "optimizer": optimizer}
        settings = tiny(tmp_path / str(graphs), **changes)
        train(settings, shifted_textures)
        losses.append([line["loss"] for line in lines(settings.output)])
        assert all(line["skipped"] == 0 for line in lines(settings.output))
    # Sums of float16 gradients depend on their order, which differs from run to run.
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_capture_changes_no_state(optimizer):
    step = prepared_step("cuda", optimizer)
    before = step.optimizer.state()
    step.capture()
    after = step.optimizer.state()
    for slot, tensors in before.items():
        assert all(torch.equal(after[slot][name], tensors[name]) for name in tensors), slot
    assert not step.statistics.sums.any()


@pytest.mark.gpu
def test_the_loss_of_one_pair_falls_in_half_precision(tmp_path):
    settings = tiny(tmp_path, steps=60, peak_lr=1e-3, log_every=10, device="cuda")
    train(settings, fixed_textures)
    losses = [line["loss"] for line in lines(tmp_path)]
    assert losses[-1] < losses[0] / 5
