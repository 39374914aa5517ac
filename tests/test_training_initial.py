"""The weights that a run begins with, and goes on with alone."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from pwcflow.errors import WeightsError
from pwcflow.training.checkpoint import load_checkpoint
from pwcflow.training.initial import initial_weights
from pwcflow.training.start import is_over
from pwcflow.training.trainer import train
from tests.training_source import shifted_textures, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


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


@pytest.fixture
def files(here):
    """Files of weights: `copy` has what `init` has, `other` something else."""
    for seed, name in ((7, "init"), (8, "other")):
        save_file(initial_weights(seed), f"{name}.safetensors")
    (here / "copy.safetensors").write_bytes((here / "init.safetensors").read_bytes())
    return here


def test_a_run_goes_on_with_the_weights_it_was_begun_with_by_any_name_or_by_none(files):
    settings = tiny(files / "run", steps=1, init="init.safetensors")
    train(settings, shifted_textures)
    for steps, init in enumerate((None, files / "init.safetensors", "copy.safetensors"), 2):
        resumed = replace(settings, steps=steps, init=init, resume=True)
        assert train(resumed, shifted_textures).step == steps
    (files / "init.safetensors").unlink()  # the same command goes on, though it is gone
    assert train(replace(settings, steps=5, resume=True), shifted_textures).step == 5


@pytest.mark.parametrize(
    ("begun", "now", "told"),
    [
        ("init.safetensors", "other.safetensors", "begun with the weights init.safetensors"),
        ("init.safetensors", "default", "begun with the weights init.safetensors"),
        (None, "other.safetensors", "begun from nothing"),
    ],
)
def test_a_run_does_not_go_on_with_other_weights_than_it_was_begun_with(files, begun, now, told):
    settings = tiny(files / "run", steps=1, init=begun)
    train(settings, shifted_textures)
    train(replace(settings, steps=2, init=None, resume=True), shifted_textures)
    before = settings.checkpoint_path.read_bytes()
    other = replace(settings, steps=3, init=now, resume=True)
    message = f"is of a run {told}; resume it so, not with the weights {now}, or give it as"
    with pytest.raises(WeightsError, match=message):
        train(other, shifted_textures)
    with pytest.raises(WeightsError, match=message):
        is_over(other, 2)
    assert settings.checkpoint_path.read_bytes() == before


def test_a_checkpoint_that_does_not_tell_what_it_was_begun_with_goes_on(files):
    settings = tiny(files / "run", steps=1)
    train(settings, shifted_textures)
    content = torch.load(settings.checkpoint_path, weights_only=True)
    assert content.pop("begun_with") == {}
    torch.save(content | {"format": "pwcflow training 3"}, settings.checkpoint_path)
    resumed = replace(settings, steps=2, init="other.safetensors", resume=True)
    assert train(resumed, shifted_textures).step == 2
    assert load_checkpoint(settings.checkpoint_path).begun_with is None
