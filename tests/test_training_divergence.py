"""A training whose numbers are not finite ends so, and leaves nothing that is of no use."""

from dataclasses import replace

import pytest

from pwcflow.training import trainer as trainer_module
from pwcflow.training.checkpoint import load_checkpoint
from pwcflow.training.divergence import DivergedError
from pwcflow.training.trainer import train
from tests.repeated_runs import contents
from tests.training_source import ShiftedTextures, lines, shifted_textures, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


def test_numbers_that_stay_infinite_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "FAILURES_TOLERATED", 2)

    class Broken(ShiftedTextures):
        def render(self):
            batch = super().render()
            batch.images[:, 0] = float("nan")
            return batch

    settings = tiny(tmp_path, steps=10)
    told = r"2 steps in a row were not finite, up to step 2; begin anew with a lower rate$"
    with pytest.raises(DivergedError, match=told):
        train(settings, Broken)
    log = lines(tmp_path)
    assert [line["skipped"] for line in log] == [1, 1]
    assert [line["loss"] for line in log] == [None, None]
    assert log[1]["loss_scale"] == log[0]["loss_scale"] / 2
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def broken_from(step):
    """Return a renderer's maker whose images are NaN from a step on, counted from 0."""

    class Broken(ShiftedTextures):
        def load(self, at):
            super().load(at)
            if at >= step:
                self.scenes.textures.fill_(float("nan"))

    return Broken


def test_a_checkpoint_of_before_the_last_change_may_be_resumed_after_divergence(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(trainer_module, "FAILURES_TOLERATED", 2)
    settings = tiny(tmp_path, steps=1)
    train(settings, shifted_textures)
    before = contents(tmp_path)
    told = r"up to step 4; resume .*checkpoint\.pt, which is of step 1, with a lower rate$"
    with pytest.raises(DivergedError, match=told):
        train(replace(settings, steps=10, resume=True), broken_from(2))
    told = r"up to step 3; begin anew in another folder with a lower rate$"
    with pytest.raises(DivergedError, match=told):
        train(replace(settings, steps=10, resume=True), broken_from(1))
    assert contents(tmp_path) | {"log.jsonl": b""} == before | {"log.jsonl": b""}


def test_no_checkpoint_is_written_while_steps_are_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "FAILURES_TOLERATED", 2)
    settings = tiny(tmp_path, steps=10, checkpoint_minutes=1e-9)  # after each step
    with pytest.raises(DivergedError, match="up to step 5; begin anew in another folder with a"):
        train(settings, broken_from(3))
    assert load_checkpoint(settings.checkpoint_path).step == 3
    assert not settings.weights_path.exists()


def test_weights_that_are_not_finite_are_not_written(tmp_path):
    # AdamW's first step is as long as the rate in each weight: 0.005 * 1e30 at the end of a run.
    settings = tiny(tmp_path, steps=1, peak_lr=1e30)
    with pytest.raises(DivergedError, match="weights of step 1 are not finite in float16; begin"):
        train(settings, shifted_textures)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize("every", [None, 1])
def test_weights_whose_errors_are_not_finite_are_not_written(tmp_path, every):
    """Each is about 20, finite, but one layer after another of them gives no finite flow."""
    settings = tiny(tmp_path, steps=1, peak_lr=4e3, validate_every=every)

    def make_validation(device):
        return {"training": lambda: ShiftedTextures(device)}

    with pytest.raises(DivergedError, match="errors of the weights of step 1 are not finite; begi"):
        train(settings, shifted_textures, make_validation)
    assert lines(tmp_path)[-1]["training_epe_px"] is None
    assert not settings.weights_path.exists()
