"""A recipe trains in stages, each from the weights before it, and goes on where it was stopped."""

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pwcflow.counted import counted
from pwcflow.errors import DeviceError, OutputError
from pwcflow.locks import InUseError, locked_folder
from pwcflow.training.checkpoint import load_checkpoint
from pwcflow.training.recipe import DEFAULT, RECIPES, Stage
from pwcflow.weights import load_weights
from tests.command_line import assert_one_error_line, invoke
from tests.test_training_keep import assert_between
from tests.training_recipes import SMALL, copy_run, recipe, settings_of
from tests.training_source import lines, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of all stages, and what it came to."""
    settings = settings_of(tmp_path_factory.mktemp("whole"))
    return settings.output, recipe(settings)


def test_the_stages_fill_the_time_and_the_first_begins_from_nothing():
    assert sum(stage.share for stage in DEFAULT) == pytest.approx(1)
    assert [stage.q for stage in DEFAULT] == [None, 0.5, 0.5, 0.5, 0.5, 0.5, 0.4, 0.4]
    # As E, F, H, I, L, M with N, and O in weights/RUNS.md.
    assert [(s.height, s.width, s.typical_motion, s.peak_lr) for s in DEFAULT[1:]] == [
        (384, 512, 13, 6e-4),
        (384, 640, 15, 6e-4),
        (448, 768, 16, 5e-4),
        (448, 1024, 20, 2e-4),
        (448, 896, 19, 3e-4),
        (448, 896, 19, 1.5e-4),
        (448, 896, 19, 1.5e-4),
    ]
    kept = {number: stage.keep for number, stage in enumerate(DEFAULT, 1) if stage.keep}
    assert kept == {3: 0.2, 6: 0.58, 8: 0.4}
    assert RECIPES == {"default": DEFAULT}


def test_each_stage_is_a_run_of_its_share_from_the_weights_before(whole):
    output, _ = whole
    runs = [load_checkpoint(output / name / "checkpoint.pt").settings for name in "123"]
    for name, values in {
        "steps": [1, 3, 1],
        "seed": [41, 42, 43],
        "init": [
            None,
            str(output / "1/weights.safetensors"),
            str(output / "2/weights.safetensors"),
        ],
        "keep": [0, 0, 0.25],
        "width": [64, 64, 128],
        "peak_lr": [1e-3, 2e-4, 1e-3],
        "q": [None, 0.5, None],
        "warm_share": [0.05, 0.5, 0.05],
        "optimizer": ["muon", "muon", "adamw"],
    }.items():
        assert [run[name] for run in runs] == values, name
    first, second = (lines(output / name) for name in "12")
    # The same scenes, and weights that were rounded to float16 between.
    assert second[0]["training_epe_px"] == pytest.approx(first[-1]["training_epe_px"], rel=1e-2)
    assert first[-1]["training_epe_px"] != first[0]["training_epe_px"]
    # Twice the width has a mean motion of its own.
    assert lines(output / "3")[0]["training_motion_px"] != first[0]["training_motion_px"]


def test_the_last_weights_are_those_of_the_recipe(whole):
    output, summary = whole
    written = output / "weights.safetensors"
    assert written.read_bytes() == (output / "3/weights.safetensors").read_bytes()
    initial, trained = (
        load_weights(output / path).state for path in ("2/weights.safetensors", "3/checkpoint.pt")
    )
    assert_between(load_weights(written).state, initial, trained, 0.25)
    assert not torch.equal(initial["context.0.weight"], trained["context.0.weight"])
    assert summary == json.loads((output / "result.json").read_text())
    results = [json.loads((output / name / "result.json").read_text()) for name in "123"]
    assert (summary["outcome"], summary["pairs"]) == ("finished", 5)
    assert summary["errors"] == results[2]["errors"]
    assert summary["errors_of_no_motion"] == results[2]["errors_of_no_motion"]
    assert summary["seconds"] == pytest.approx(sum(result["seconds"] for result in results))
    assert [stage["pairs"] for stage in summary["stages"]] == [1, 3, 1]
    for stage, result in zip(summary["stages"], results, strict=True):
        assert (stage["seconds"], stage["errors"]) == (result["seconds"], result["errors"])
    assert [stage["share"] for stage in summary["stages"]] == [0.2, 0.6, 0.2]
    assert [line["stage"] for line in lines(output)] == [1, 2, 3]


def end_after_a_step_of(stage, output):
    """Send SIGTERM to this process when a stage has told of its first step."""

    def wait():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            log = output / stage / "log.jsonl"
            if log.exists() and '"loss"' in log.read_text():
                if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:  # or it is too late
                    os.kill(os.getpid(), signal.SIGTERM)
                return
            time.sleep(0.005)

    threading.Thread(target=wait).start()


def test_an_interrupted_stage_goes_on_to_the_same_weights(whole, tmp_path):
    settings = settings_of(tmp_path / "parts")
    output, done = settings.output, whole[0]
    copy_run(done / "1", output / "1")
    end_after_a_step_of("2", output)
    message = "stage 2 of 3 is not finished; the same command with --resume goes on from there"
    with pytest.raises(KeyboardInterrupt, match=message):
        recipe(replace(settings, resume=True))
    assert 1 <= load_checkpoint(output / "2/checkpoint.pt").step < 3
    assert not (output / "3").exists()
    assert not (output / "weights.safetensors").exists()
    with pytest.raises(OutputError, match="2 is of an earlier run; resume it, or choose another"):
        recipe(settings)
    kept = (output / "1/result.json").stat().st_mtime_ns
    summary = recipe(replace(settings, resume=True))
    assert (output / "1/result.json").stat().st_mtime_ns == kept
    assert [stage["pairs"] for stage in summary["stages"]] == [1, 3, 1]
    for name in ("weights.safetensors", "2/weights.safetensors"):
        assert (output / name).read_bytes() == (done / name).read_bytes()


def test_a_stage_that_somebody_else_goes_on_with_is_left_alone(whole, tmp_path):
    copy_run(whole[0], tmp_path / "run")
    settings = settings_of(tmp_path / "run", resume=True)
    with locked_folder(tmp_path / "run" / "2"), pytest.raises(InUseError, match="another process"):
        recipe(settings)
    assert recipe(settings)["outcome"] == "finished"


def test_a_finished_recipe_is_finished_when_resumed(whole, tmp_path):
    copy_run(whole[0], tmp_path / "copy")
    for name in "123":  # as somebody does who is short of space
        (tmp_path / "copy" / name / "checkpoint.pt").unlink()
    (tmp_path / "copy/weights.safetensors").unlink()
    settings = settings_of(tmp_path / "copy")
    with pytest.raises(OutputError, match="3 is of an earlier run"):
        recipe(settings)
    summary = recipe(replace(settings, resume=True))
    assert summary["pairs"] == 5
    assert Path(summary["weights"]).read_bytes() == (whole[0] / "weights.safetensors").read_bytes()


def test_a_recipe_begins_where_there_is_no_checkpoint_to_go_on_with_and_says_so(tmp_path, capfd):
    """There is nothing, its record, or the log of its first stage too."""
    one = (Stage(share=1.0, peak_lr=1e-3, **SMALL),)
    for name in ("nothing", "record", "log"):
        settings = tiny(tmp_path / name, echo=True, resume=True)
        if name != "nothing":
            settings.output.mkdir()
            record = '{"length": "3 steps", "batch": 1, "seed": 0}'
            (settings.output / "recipe.json").write_text(record)
            settings.log_path.touch()
        if name == "log":
            (settings.output / "1").mkdir()
            (settings.output / "1/log.jsonl").touch()
        assert recipe(settings, one)["pairs"] == 3
        said = f"there is no checkpoint in {settings.output / '1'} yet: the run begins from nothing"
        assert capfd.readouterr().err.splitlines().count(said) == 1


def test_torchrun_is_refused_in_one_line(here, monkeypatch):
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(DeviceError, match="not for torchrun"):
        recipe(settings_of(here / "run"))
    result = invoke("train", "-o", "run", "--recipe", "default", "--minutes", 1)
    assert result.exit_code == 1
    assert_one_error_line(result.stderr, "a recipe is not for torchrun", "--devices")
    assert not (here / "run").exists()


def test_the_command_trains_by_a_recipe(here, monkeypatch):
    monkeypatch.setitem(RECIPES, "default", (Stage(share=1.0, peak_lr=1e-3, **SMALL),))
    options = ["--recipe", "default", "--minutes", 0.001, "--batch", 1, "--device", "cpu"]
    result = invoke("train", "-o", "run", *options, "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    again = invoke("train", "-o", "run", *options, "--resume")
    assert again.exit_code == 0
    assert again.stderr == "stage 1 of 1 is finished\n"
    pairs = counted(json.loads((here / "run/1/result.json").read_text())["pairs"], "pair")
    assert again.stdout.startswith(
        f"run/weights.safetensors: {pairs}, finished, error on training pairs "
    )
    refused = invoke("train", "-o", "run", *options)
    assert refused.exit_code == 1
    assert_one_error_line(refused.stderr, "run/1 is of an earlier run; resume it")
