"""A step waits for nothing, so that it can be captured, and its graph trains like calls."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pwcflow.aligned import AlignedPwcNet, align_state
from pwcflow.training.flat import flatten
from pwcflow.training.initial import initial_weights
from pwcflow.training.muon import FlatMuon
from pwcflow.training.optimizer import AdamSettings, FlatAdamW
from pwcflow.training.step import TrainingStep
from pwcflow.training.trainer import train
from tests.training_source import ShiftedTextures, lines, shifted_textures, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


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
