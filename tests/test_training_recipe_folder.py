"""What a recipe finds in its folder: what it goes on with, and what it refuses."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pwcflow.errors import OutputError, WeightsError
from pwcflow.training.checkpoint import load_checkpoint, save_checkpoint
from pwcflow.training.trainer import train
from tests.command_line import files_below
from tests.training_recipes import copy_run, recipe, settings_of
from tests.training_source import shifted_textures, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of all stages, and what it came to."""
    settings = settings_of(tmp_path_factory.mktemp("whole"))
    return settings.output, recipe(settings)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steps": 6}, "length 5 steps; resume it so, not with 6 steps"),
        ({"steps": None, "minutes": 0.5}, "length 5 steps; resume it so, not with 0.5 minutes"),
        ({"batch": 2}, "batch 1; resume it so, not with 2"),
        ({"seed": 41}, "seed 40; resume it so, not with 41"),
    ],
)
def test_a_recipe_does_not_go_on_with_other_settings_behind_stages_that_are_done(
    whole, tmp_path, changes, told
):
    copy_run(whole[0], tmp_path / "copy")
    for name in ("2", "3"):  # as after a kill between two stages
        shutil.rmtree(tmp_path / "copy" / name)
    before = files_below(tmp_path)
    with pytest.raises(
        WeightsError, match=f"copy is of a recipe with the {told}, or choose another"
    ):
        recipe(replace(settings_of(tmp_path / "copy"), resume=True, **changes))
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("record", [None, "[]", "{"])
def test_a_wrong_resume_of_a_recipe_without_a_record_leaves_the_right_one_open(
    whole, tmp_path, record
):
    copy_run(whole[0], tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/3")
    (tmp_path / "copy/2/result.json").unlink()
    (tmp_path / "copy/recipe.json").unlink()
    if record is not None:
        (tmp_path / "copy/recipe.json").write_text(record)
    before = files_below(tmp_path)
    for changes, told in (
        ({"batch": 2}, "batch 1, where this recipe has 2 for it"),
        ({"seed": 41}, "seed 41, where this recipe has 42"),  # one more than the recipe's
        ({"steps": 20}, "steps 1, where this recipe has 4"),
        ({"steps": None, "minutes": 0.5}, "steps 1, where this recipe has None"),
    ):
        with pytest.raises(WeightsError, match=f"copy/1 was trained with the {told}"):
            recipe(replace(settings_of(tmp_path / "copy"), resume=True, **changes))
        assert files_below(tmp_path) == before
    summary = recipe(replace(settings_of(tmp_path / "copy"), resume=True))
    assert Path(summary["weights"]).read_bytes() == (whole[0] / "weights.safetensors").read_bytes()


def test_an_unfinished_recipe_has_no_result_of_an_earlier_last_stage(whole, tmp_path):
    copy_run(whole[0], tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/3")
    for name in ("weights.safetensors", "checkpoint.pt"):  # so that it cannot go on
        (tmp_path / "copy/2" / name).unlink()
    with pytest.raises(WeightsError, match=r"there is no checkpoint .*/2/checkpoint.pt to go on"):
        recipe(replace(settings_of(tmp_path / "copy"), resume=True))
    assert not (tmp_path / "copy/result.json").exists()


def test_a_stage_whose_result_was_not_written_is_not_taken_for_finished(whole, tmp_path):
    copy_run(whole[0], tmp_path / "copy")
    (tmp_path / "copy/3/result.json").write_text('{"outcome": "fini')
    (tmp_path / "copy/3/weights.safetensors").unlink()
    summary = recipe(replace(settings_of(tmp_path / "copy"), resume=True))
    assert summary["errors"] == pytest.approx(whole[1]["errors"], rel=1e-5)
    weights = (tmp_path / "copy/weights.safetensors").read_bytes()
    assert weights == (whole[0] / "weights.safetensors").read_bytes()


def test_a_result_without_its_figures_is_measured_again(whole, tmp_path):
    copy_run(whole[0], tmp_path / "copy")
    (tmp_path / "copy/1/result.json").write_text('{"outcome": "finished", "pairs": "x"}')
    summary = recipe(replace(settings_of(tmp_path / "copy"), resume=True))
    assert [stage["pairs"] for stage in summary["stages"]] == [1, 3, 1]


def test_weights_of_a_stage_that_are_damaged_or_gone_come_from_its_checkpoint(whole, tmp_path):
    copy_run(whole[0], tmp_path / "copy")
    (tmp_path / "copy/2/weights.safetensors").unlink()
    os.truncate(tmp_path / "copy/3/weights.safetensors", 1000)
    recipe(replace(settings_of(tmp_path / "copy"), resume=True))
    for name in ("weights.safetensors", "2/weights.safetensors", "3/weights.safetensors"):
        assert (tmp_path / "copy" / name).read_bytes() == (whole[0] / name).read_bytes()


def test_a_damaged_checkpoint_of_a_stage_is_told_with_what_to_do(whole, tmp_path):
    copy_run(whole[0], tmp_path / "copy")
    (tmp_path / "copy/3/result.json").unlink()
    damaged = tmp_path / "copy/3/checkpoint.pt"
    start = damaged.read_bytes()[:1000]
    damaged.unlink()
    damaged.write_bytes(start)
    with pytest.raises(WeightsError, match=r"or remove .*3, and --resume begins this stage anew"):
        recipe(replace(settings_of(tmp_path / "copy"), resume=True))


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_without_a_recipe_leaves_what_a_recipe_made(whole, tmp_path, resume):
    copy_run(whole[0], tmp_path / "copy")
    with pytest.raises(OutputError, match=r"of a run without checkpoint.pt, such as one by a rec"):
        train(tiny(tmp_path / "copy", resume=resume), shifted_textures)


def test_folders_of_other_runs_are_left_alone(tmp_path):
    (tmp_path / "checkpoint.pt").touch()
    for resume in (False, True):
        with pytest.raises(OutputError, match="of a run without a recipe; choose another folder"):
            recipe(settings_of(tmp_path, resume=resume))
    assert not (tmp_path / "1").exists()


def test_a_recipe_whose_first_stage_is_gone_is_not_begun_anew(whole, tmp_path):
    copy_run(whole[0], tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/1")
    with pytest.raises(WeightsError, match=r"1 has neither .*2 was .* all from .*1 to .*3, and"):
        recipe(replace(settings_of(tmp_path / "copy"), resume=True))


def test_a_stage_that_is_gone_is_not_trained_anew_behind_the_one_after_it(whole, tmp_path):
    copy = tmp_path / "copy"
    copy_run(whole[0], copy)
    shutil.rmtree(copy / "2")
    before = files_below(tmp_path)
    told = (
        f"{copy}/2 has neither a checkpoint nor a whole result, but {copy}/3 was trained after it; "
        f"bring them back, or remove all from {copy}/2 to {copy}/3, and --resume trains these anew"
    )
    with pytest.raises(WeightsError, match=f"^{re.escape(told)}$"):
        recipe(settings_of(copy, resume=True))
    assert files_below(tmp_path) == before
    shutil.rmtree(copy / "3")
    recipe(settings_of(copy, resume=True))
    weights = (copy / "weights.safetensors").read_bytes()
    assert weights == (whole[0] / "weights.safetensors").read_bytes()


def test_a_result_that_is_not_whole_is_of_no_use_to_later_stages_without_a_checkpoint(
    whole, tmp_path
):
    copy_run(whole[0], tmp_path / "copy")
    (tmp_path / "copy/1/result.json").write_text("{")
    (tmp_path / "copy/1/checkpoint.pt").unlink()
    with pytest.raises(WeightsError, match=r"1 has neither .*2 was .* all from .*1 to .*3, and"):
        recipe(settings_of(tmp_path / "copy", resume=True))


@pytest.mark.parametrize("gone", [None, "result.json", "checkpoint.pt"])
def test_a_stage_that_was_begun_with_other_weights_than_those_before_it_is_not_kept(
    whole, tmp_path, gone
):
    """As the third if the second was trained anew, to its end or not."""
    copy = tmp_path / "copy"
    copy_run(whole[0], copy)
    first, second = (load_checkpoint(copy / name / "checkpoint.pt") for name in "12")
    # As if its steps had not changed the weights.
    shutil.copy(copy / "1/weights.safetensors", copy / "2/weights.safetensors")
    save_checkpoint(copy / "2/checkpoint.pt", replace(second, optimizer=first.optimizer))
    if gone:
        (copy / "2" / gone).unlink()
    before = files_below(tmp_path)
    told = (
        f"{copy}/3 was begun with other weights than those of {copy}/2, which was trained anew "
        f"since, or replaced; bring the earlier one back, or remove {copy}/3, and --resume goes on "
        f"from {copy}/2"
    )
    with pytest.raises(WeightsError, match=f"^{re.escape(told)}$"):
        recipe(settings_of(copy, resume=True))
    assert files_below(tmp_path) == before


def test_stages_follow_though_the_weights_between_are_damaged_and_cannot_come_back(whole, tmp_path):
    """What is wrong is told of the file."""
    copy_run(whole[0], tmp_path / "copy")
    (tmp_path / "copy/2/checkpoint.pt").unlink()
    os.truncate(tmp_path / "copy/2/weights.safetensors", 1000)
    with pytest.raises(WeightsError, match=r"there is no checkpoint .*/2/checkpoint.pt to go on"):
        recipe(settings_of(tmp_path / "copy", resume=True))
