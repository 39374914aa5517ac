"""What `keep` writes and measures lies between the trained weights and the initial, or others."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pwcflow.aligned import align_state
from pwcflow.errors import WeightsError
from pwcflow.training.checkpoint import export_weights, load_checkpoint
from pwcflow.training.initial import initial_weights
from pwcflow.training.interpolation import interpolated
from pwcflow.training.trainer import train
from pwcflow.training.validation import measure
from pwcflow.weights import load_weights
from tests.command_line import invoke
from tests.test_training_report import CPU, fixed_sets
from tests.test_training_trainer import stopping_at
from tests.training_source import ShiftedTextures, lines, shifted_textures, tiny

pytestmark = pytest.mark.usefixtures("one_thread")

HALF_STEP = 2.0**-11
"""The most that rounding to float16 changes, as a share, of numbers that are not tiny."""


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    path = tmp_path_factory.mktemp("init") / "init.safetensors"
    save_file(initial_weights(7), path)
    return path


def kept(output, init, **changes):
    return tiny(output, init=init, keep=0.25, peak_lr=1e-3, **changes)


@pytest.mark.parametrize(
    ("keep", "expected"),
    [(0.0, [3.0, -4.0, 8.0]), (0.25, [2.5, -3.0, 8.0]), (0.75, [1.5, -1.0, 8.0])],
)
def test_a_share_of_weights_and_the_rest_of_the_trained(keep, expected):
    trained = {"a": torch.tensor([3.0, -4.0]), "b": torch.tensor([[8.0]])}
    initial = {"a": torch.tensor([1.0, 0.0]), "b": torch.tensor([[8.0]])}
    between = interpolated(trained, initial, keep)
    assert [*between["a"].tolist(), *between["b"].flatten().tolist()] == expected
    assert between["b"].shape == (1, 1)


def test_a_share_is_rounded_once():
    # 3/4 of -1 and 1/4 of 3 + 2^-22. Their difference, 4 + 2^-22, is no float32.
    trained, initial = ({"a": torch.tensor([value])} for value in (-1.0, 3.0 + 2.0**-22))
    assert interpolated(trained, initial, 0.25)["a"].tolist() == [2.0**-24]


def test_weights_that_did_not_change_stay_to_the_last_bit():
    weights = {"a": torch.rand(1000, generator=torch.Generator().manual_seed(1))}
    for keep in (0.1, 0.2, 0.7):
        assert torch.equal(interpolated(weights, weights, keep)["a"], weights["a"])


def test_the_file_holds_the_share_in_half_precision(tmp_path):
    weights = initial_weights(3)
    trained, initial = (
        {name: torch.full_like(weight, value) for name, weight in weights.items()}
        for value in (2.0, 1.0)
    )
    path = tmp_path / "weights.safetensors"
    export_weights(interpolated(align_state(trained), align_state(initial), 0.2), path)
    for name, tensor in load_file(path).items():
        assert tensor.shape == weights[name].shape
        # 0.2 * 1 + 0.8 * 2 = 1.8, between 1843 / 1024 and 1844 / 1024, and nearer to the first
        assert torch.equal(tensor, torch.full_like(tensor, 1843 / 1024)), name


def assert_between(written, initial, trained, keep):
    for name in trained:
        expected = keep * initial[name].double() + (1 - keep) * trained[name].double()
        torch.testing.assert_close(
            written[name].double(), expected, rtol=1.01 * HALF_STEP, atol=2.0**-25
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory, init):
    """A run of three steps, and what it came to."""
    settings = kept(tmp_path_factory.mktemp("whole"), init, validation_batches=1)
    return settings, train(settings, shifted_textures, fixed_sets)


def test_a_run_writes_and_measures_what_lies_between(whole, init):
    settings, summary = whole
    trained, initial = load_weights(settings.checkpoint_path).state, load_weights(init).state
    assert_between(load_weights(settings.weights_path).state, initial, trained, 0.25)
    change = trained["context.0.weight"] - initial["context.0.weight"]
    assert change.abs().max() > 1e-4
    between = {name: 0.25 * initial[name] + 0.75 * trained[name] for name in trained}
    for weights, errors in ((between, summary.errors), (initial, summary.errors_before)):
        measured = measure(align_state(weights), ShiftedTextures(CPU, 9, 10), 1, CPU)
        assert errors["holdout"] == pytest.approx(measured.epe_px, rel=1e-5)
    assert summary.errors["holdout"] != summary.errors_before["holdout"]


def test_training_goes_the_same_way_whatever_is_kept(whole, tmp_path):
    plain = replace(whole[0], output=tmp_path, keep=0.0)
    train(plain, shifted_textures)
    ours, theirs = (load_checkpoint(run.checkpoint_path) for run in (whole[0], plain))
    for slot, tensors in theirs.optimizer.items():
        assert all(torch.equal(ours.optimizer[slot][name], tensors[name]) for name in tensors), slot
    assert theirs.kept is None


def test_a_run_that_goes_on_needs_the_file_it_began_with_no_more(whole, tmp_path, init):
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(init.read_bytes())
    parts = kept(tmp_path / "parts", copy)
    assert train(parts, stopping_at(1)).outcome == "interrupted"
    save_file(initial_weights(8), copy)
    assert train(replace(parts, resume=True), stopping_at(2)).outcome == "interrupted"
    copy.unlink()
    resumed = replace(parts, resume=True, init=None)
    assert train(resumed, shifted_textures).outcome == "finished"
    assert [line["step"] for line in lines(parts.output)] == [1, 2, 3]
    assert parts.weights_path.read_bytes() == whole[0].weights_path.read_bytes()


def changed(settings, output, change):
    """Return settings to go on with a copy of a checkpoint whose content was changed."""
    content = torch.load(settings.checkpoint_path, weights_only=True)
    change(content)
    torch.save(content, output / "checkpoint.pt")
    return replace(settings, output=output, resume=True)


@pytest.mark.parametrize(("before", "now"), [(0.25, 0.0), (0.25, 0.5), (0.0, 0.25)])
def test_another_share_is_not_gone_on_with(whole, tmp_path, before, now):
    settings = changed(whole[0], tmp_path, lambda content: content["settings"].update(keep=before))
    message = f"a run with {before:g} of other weights kept; resume it so, not with {now:g} of"
    with pytest.raises(WeightsError, match=message):
        train(replace(settings, keep=now), shifted_textures)


@pytest.mark.parametrize(
    ("begun", "now", "goes_on"),
    [
        (("init", None), ("init", "other"), False),
        (("init", None), ("other", None), False),
        (("init", None), ("init", "init"), True),
        (("init", None), ("init", "copy"), True),
        (("other", "init"), ("other", "other"), False),
        (("other", "init"), ("other", None), False),
        (("other", "init"), ("other", "copy"), True),
        (("other", "init"), (None, None), True),
    ],
)
def test_a_share_of_other_weights_is_not_gone_on_with(whole, tmp_path, init, begun, now, goes_on):
    files = {name: tmp_path / f"{name}.safetensors" for name in ("other", "copy")}
    files |= {"init": init, None: None}
    save_file(initial_weights(8), files["other"])
    files["copy"].write_bytes(init.read_bytes())
    first, of = (files[name] and str(files[name]) for name in begun)

    def begin_with_these(content):
        content["settings"].update(init=first, keep_of=of)
        content["begun_with"]["name"] = first

    settings = changed(whole[0], tmp_path, begin_with_these)
    settings = replace(settings, init=files[now[0]], keep_of=files[now[1]])
    if goes_on:
        assert train(settings, shifted_textures).step == 3
        return
    message = f"a run that keeps a share of {init}; resume it so, not with {files['other']}, or"
    with pytest.raises(WeightsError, match=re.escape(message)):
        train(settings, shifted_textures)


def test_other_weights_are_refused_of_a_run_that_went_on_without_naming_its_own(whole, tmp_path):
    other = tmp_path / "other.safetensors"
    save_file(initial_weights(8), other)
    settings = changed(whole[0], tmp_path, lambda content: content["settings"].update(init=None))
    message = f"a run that keeps a share of other weights; resume it so, not with {other}, or"
    with pytest.raises(WeightsError, match=re.escape(message)):
        train(replace(settings, init=other), shifted_textures)


def test_a_checkpoint_from_before_there_was_keep_goes_on(whole, tmp_path):
    def make_old(content):
        assert content["format"] == "pwcflow training 4"
        del content["initial"], content["images"], content["begun_with"]
        del content["settings"]["keep"]
        del content["settings"]["motion"]
        content["format"] = "pwcflow training 1"

    settings = replace(changed(whole[0], tmp_path, make_old), keep=0.0)
    assert train(settings, shifted_textures).step == 3
    written = load_weights(settings.weights_path).state
    trained = load_weights(settings.checkpoint_path).state
    assert_between(written, trained, trained, 0.0)
    with pytest.raises(WeightsError, match="a run with 0 of other weights kept"):
        train(replace(changed(whole[0], tmp_path, make_old), keep=0.25), shifted_textures)


def test_kept_weights_of_another_shape_are_refused(whole, tmp_path):
    settings = changed(whole[0], tmp_path, lambda content: content["initial"].popitem())
    with pytest.raises(WeightsError, match="its kept weights have other shapes"):
        train(settings, shifted_textures)


@pytest.mark.parametrize("of_others", [False, True])
def test_the_command_keeps_a_share_of_the_weights_it_starts_from_or_of_others(
    inputs, init, of_others
):
    options = ["--steps", 1, "--size", "64x64", "--batch", 1, "--device", "cpu", "--keep", 0.5]
    others = init
    if of_others:
        others = Path("others.safetensors")
        save_file({name: 2 * weight for name, weight in load_file(init).items()}, others)
        options += ["--keep-of", others]
    result = invoke("train", "-o", "out/run", *options, "--init", init, "--json", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    written = load_weights(Path(json.loads(result.stdout)["weights"])).state
    trained = load_weights(Path("out/run/checkpoint.pt")).state
    assert_between(written, load_weights(others).state, trained, 0.5)


def test_a_run_killed_before_its_first_checkpoint_asks_for_its_initial_weights_again(
    tmp_path, init
):
    begun = kept(tmp_path, init, resume=True)
    begun.log_path.write_text("{}\n")  # as after a kill
    with pytest.raises(WeightsError, match="so the run begins: give the initial weights"):
        train(replace(begun, init=None), shifted_textures)
    assert train(begun, shifted_textures).outcome == "finished"
