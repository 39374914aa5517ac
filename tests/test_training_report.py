"""A run is measured on pairs that stay the same, and told to the log and to TensorBoard."""

import os
import signal
import sys
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pwcflow.aligned import AlignedPwcNet
from pwcflow.cli import app
from pwcflow.color import flow_to_color
from pwcflow.errors import OutputError
from pwcflow.training.checkpoint import load_checkpoint
from pwcflow.training.contact_sheet import comparison_sheet
from pwcflow.training.report import images_told, of_same_images
from pwcflow.training.settings import TrainSettings
from pwcflow.training.tensorboard import EventFile
from pwcflow.training.trainer import train
from pwcflow.training.validation import measure
from tests.test_video_writer import largest_file
from tests.training_source import ShiftedTextures, lines, shifted_textures

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
BOTH = {"training": {"photographs": 3}, "holdout": {"photographs": 1}}
SILENT = {name: torch.zeros_like(weight) for name, weight in AlignedPwcNet().state_dict().items()}
"""Weights with which no flow is found anywhere."""


def fixed_sets(device):
    """Return two sets of pairs other than those trained on."""
    return {
        name: partial(ShiftedTextures, device, rank, 10)
        for name, rank in (("training", 8), ("holdout", 9))
    }


def tiny(output, **changes):
    values = {
        "batch": 1, "height": 64, "width": 64, "steps": 3, "device": "cpu", "log_every": 1,
        "validation_batches": 2,
    }  # fmt: skip
    return TrainSettings(output=output, **values | changes)


def split(log):
    """Return the lines of validations, and the others."""
    told = [line for line in log if "holdout_epe_px" in line]
    return told, [line for line in log if line not in told]


def events(folder):
    """Return what TensorBoard shows of a run: numbers by name and step, and pictures."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    shown = accumulator.EventAccumulator(str(folder), size_guidance={"images": 0, "scalars": 0})
    shown.Reload()
    tags = shown.Tags()
    numbers = {tag: {e.step: e.value for e in shown.Scalars(tag)} for tag in tags["scalars"]}
    pictures = {tag: {e.step: e for e in shown.Images(tag)} for tag in tags["images"]}
    return numbers, pictures


def test_the_error_of_no_flow_at_all_is_the_mean_length_of_the_true_one():
    source = ShiftedTextures("cpu", batch=2)
    lengths = []
    for step in range(3):
        source.load(step)
        lengths += source.scenes.motion.flatten(1).norm(dim=1).tolist()
    measured = measure(SILENT, ShiftedTextures("cpu", batch=2), 3, CPU)
    assert measured.epe_px == pytest.approx(np.mean(lengths), rel=1e-5)
    assert measured.motion_px == pytest.approx(np.mean(lengths), rel=1e-5)


def test_pixels_without_true_flow_do_not_count():
    class HalfKnown(ShiftedTextures):
        def render(self):
            batch = super().render()
            batch.flow[:, 0], batch.flow[:, 1] = 3.0, 4.0
            batch.flow[..., 32:] = float("nan")
            batch.valid[..., 32:] = 0
            return batch

    assert measure(SILENT, HalfKnown("cpu"), 2, CPU).epe_px == pytest.approx(5.0)


def test_a_comparison_shows_a_frame_the_estimate_and_the_truth_in_one_scale():
    source = ShiftedTextures("cpu", batch=2, size=320)
    source.load(0)
    batch = source.render()
    batch.images[:, 0], batch.images[:, 1], batch.images[:, 2] = 0.2, 0.4, 0.6
    batch.flow[:, 0], batch.flow[:, 1] = 8.0, 0.0
    estimates = torch.zeros(2, 2, 320, 320)
    estimates[1, 0] = 4.0
    sheet = comparison_sheet(batch, estimates)
    assert sheet.shape == (2 * 320, 3 * 320, 3)
    assert sheet[160, 160].tolist() == [153, 102, 51]
    assert sheet[160, 480].tolist() == [255, 255, 255]
    scaled = [flow_to_color(np.full((1, 1, 2), (u, 0), np.float32), 8.0)[0, 0] for u in (4, 8)]
    for column, expected in ((480, scaled[0]), (800, scaled[1])):
        assert sheet[480, column].tolist() == expected.tolist()


def test_a_run_is_measured_before_between_and_after_and_learns_the_same(tmp_path):
    measured, plain = (tiny(tmp_path / name) for name in ("measured", "plain"))
    summary = train(replace(measured, validate_every=2), shifted_textures, fixed_sets)
    train(plain, shifted_textures)
    told, rest = split(lines(measured.output))
    assert [line["step"] for line in told] == [0, 2, 3]
    for errors, line in ((summary.errors_before, told[0]), (summary.errors, told[2])):
        assert errors == {
            "training": pytest.approx(line["training_epe_px"], rel=1e-5),
            "holdout": pytest.approx(line["holdout_epe_px"], rel=1e-5),
        }
    assert summary.errors["training"] != summary.errors_before["training"]
    for name, length in summary.errors_of_no_motion.items():
        assert length == pytest.approx(measure(SILENT, fixed_sets(CPU)[name](), 2, CPU).epe_px)
    assert set(summary.errors_of_no_motion) == {"training", "holdout"}
    expected = lines(plain.output)
    for key in ("step", "pairs", "loss", "epe_px", "lr", "grad_norm"):
        assert [line[key] for line in rest] == [line[key] for line in expected]
    average = load_checkpoint(measured.checkpoint_path).optimizer["average"]
    again = measure(average, ShiftedTextures(CPU, 9, 10), 2, CPU)
    assert again.epe_px == pytest.approx(summary.errors["holdout"], rel=1e-5)


def test_a_resumed_run_is_measured_at_its_end_only_and_knows_the_errors_before(tmp_path):
    settings = tiny(tmp_path, steps=1)
    begun = train(settings, shifted_textures, fixed_sets)
    summary = train(replace(settings, steps=2, resume=True), shifted_textures, fixed_sets)
    assert [line["step"] for line in split(lines(tmp_path))[0]] == [0, 1, 2]
    assert summary.errors_before == begun.errors_before
    assert summary.errors_before != {}
    assert set(summary.errors) == {"training", "holdout"}


def test_a_run_that_was_interrupted_has_no_error_after(tmp_path):
    class Stopping(ShiftedTextures):
        def load(self, at):
            if at == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            super().load(at)

    summary = train(tiny(tmp_path), Stopping, fixed_sets)
    assert (summary.outcome, summary.step) == ("interrupted", 1)
    assert set(summary.errors_before) == {"training", "holdout"}
    assert summary.errors == summary.errors_of_no_motion == {}


class StoppingIn(ShiftedTextures):
    """Pairs to measure on; while those of a step are rendered, a signal comes."""

    def render(self):
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal ends it")


def test_a_run_that_is_interrupted_before_its_first_step_leaves_what_goes_on(tmp_path):
    """While its first pairs are rendered, and while the weights are measured before any step."""
    whole = train(tiny(tmp_path / "whole"), shifted_textures, fixed_sets)
    for name, make, sets in (
        ("prepared", StoppingIn, fixed_sets),
        ("measured", shifted_textures, lambda device: {"training": partial(StoppingIn, device)}),
    ):
        settings = tiny(tmp_path / name)
        summary = train(settings, make, sets)
        assert (summary.outcome, summary.step, summary.errors_before) == ("interrupted", 0, {})
        assert lines(settings.output) == []
        assert load_checkpoint(settings.checkpoint_path).step == 0
        resumed = train(replace(settings, resume=True), shifted_textures, fixed_sets)
        assert resumed.errors_before == whole.errors_before
        assert resumed.weights.read_bytes() == whole.weights.read_bytes()


def test_a_run_that_is_interrupted_while_it_is_measured_at_its_end_is_measured_later(tmp_path):
    measured = []

    def sets(device):
        measured.append(device)
        stops = len(measured) == 2  # after the measurement before the first step
        return {"training": partial(StoppingIn if stops else ShiftedTextures, device, 8, 10)}

    summary = train(tiny(tmp_path), shifted_textures, sets)
    assert (summary.outcome, summary.step, summary.errors) == ("interrupted", 3, {})
    resumed = train(replace(tiny(tmp_path), resume=True), shifted_textures, sets)
    assert (resumed.outcome, resumed.step, set(resumed.errors)) == ("finished", 3, {"training"})
    assert resumed.weights.read_bytes() == summary.weights.read_bytes()
    assert (resumed.loss, resumed.epe_px) == pytest.approx((summary.loss, summary.epe_px), rel=1e-5)


def test_a_measurement_between_that_is_interrupted_is_made_when_the_run_goes_on(tmp_path):
    measured = []

    def sets(device):
        measured.append(device)
        stops = len(measured) == 2  # of the steps 0, 1, 1 again, 2 and 3
        return {"holdout": partial(StoppingIn if stops else ShiftedTextures, device, 8, 10)}

    parts, whole = (tiny(tmp_path / name, validate_every=1) for name in ("parts", "whole"))
    assert train(parts, shifted_textures, sets).outcome == "interrupted"
    assert [line["step"] for line in lines(parts.output)] == [0, 1]
    resumed = replace(parts, resume=True)
    assert train(resumed, shifted_textures, sets).outcome == "finished"
    train(whole, shifted_textures, sets)
    told = lines(parts.output)
    assert [line["step"] for line in told] == [0, 1, 1, 2, 2, 3, 3]
    assert split(told)[0] == split(lines(whole.output))[0]
    train(replace(resumed, steps=4), shifted_textures, sets)  # step 3 has been measured
    assert [line["step"] for line in lines(parts.output)] == [0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_whoever_watches_is_told_what_a_run_is_at(tmp_path, capfd):
    train(tiny(tmp_path, echo=True, steps=1), shifted_textures, fixed_sets)
    said = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("{")]
    measuring = "measuring the weights on 2 pairs of each set ..."
    assert said == [
        "preparing 1 pair for the first step ...",
        measuring,
        "training; a line follows every step, and Ctrl-C ends it after the step it is at ...",
        measuring,
    ]
    train(tiny(tmp_path, echo=True, steps=2, log_every=2, resume=True), shifted_textures)
    told = "\ntraining goes on from step 1; a line follows every 2 steps, and Ctrl-C ends it after"
    assert told in capfd.readouterr().err
    train(tiny(tmp_path / "quiet", steps=1), shifted_textures, fixed_sets)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("now", "before", "told"),
    [
        (
            {"training": {"photographs": 0, "cut_outs": 0}, "holdout": {"photographs": 1}},
            {"training": {"photographs": 5, "cut_outs": 1}},
            "rendering from computed patterns instead of 5 photographs and 1 cut-out, "
            "measuring on 1 photograph instead of no others",
        ),
        (
            {"training": {"photographs": 3, "cut_outs": 0}},
            {"training": {"photographs": 3, "cut_outs": 0}},
            "rendering from 3 photographs",
        ),
        (
            {"training": {"pairs": 3}},
            {"training": {"pairs": 1}},
            "training on 3 real pairs instead of 1 real pair",
        ),
        ({"training": {"pairs": 3}}, {}, "training on 3 real pairs"),
    ],
)
def test_images_are_told_beside_what_they_take_the_place_of(now, before, told):
    assert images_told(now, before) == told


@pytest.mark.parametrize(
    ("now", "before", "names"),
    [
        (BOTH, BOTH, {"training", "holdout"}),
        (BOTH, BOTH | {"training": {"photographs": 4}}, {"holdout"}),
        ({"training": BOTH["training"]}, BOTH, {"training"}),
        (BOTH, {}, {"training", "holdout"}),
        ({}, {}, {"training", "holdout"}),
    ],
)
def test_errors_on_other_images_than_before_are_not_told_beside_new_ones(now, before, names):
    errors = {"training": 1.5, "holdout": 2.5}
    assert of_same_images(errors, now, before) == {name: errors[name] for name in names}


def test_errors_on_another_number_of_pairs_are_not_told_beside_new_ones(tmp_path):
    settings = tiny(tmp_path, steps=1)
    train(settings, shifted_textures, fixed_sets)
    fewer = replace(settings, steps=2, resume=True, validation_batches=1)
    summary = train(fewer, shifted_textures, fixed_sets)
    assert (summary.errors_before, set(summary.errors)) == ({}, {"training", "holdout"})


def test_a_full_disk_under_tensorboard_is_told_once_and_by_no_thread(tmp_path):
    pytest.importorskip("tensorboard")
    before = threading.excepthook
    events = EventFile(tmp_path / "events", resumed_at=-1)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    with largest_file(1000), pytest.raises(OutputError, match="file too large; check its folder"):
        events.add_picture("validation", "training", noise, 0)
    with pytest.raises(OutputError, match="file too large; check its folder"):
        events.close()
    assert threading.excepthook == before
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file exists; check its folder"):
        EventFile(tmp_path / "file", resumed_at=-1)
    assert threading.excepthook == before


def test_tensorboard_shows_the_log_and_the_pairs(tmp_path):
    pytest.importorskip("tensorboard")
    train(tiny(tmp_path, tensorboard=True), shifted_textures, fixed_sets)
    numbers, pictures = events(tmp_path / "tensorboard")
    told, rest = split(lines(tmp_path))
    for group, log in (("training", rest), ("validation", told)):
        for line in log:
            for name in set(line) - {"step"}:
                shown = numbers[f"{group}/{name}"][line["step"]]
                assert shown == pytest.approx(line[name], rel=1e-5), name
    assert {len(values) for values in numbers.values()} == {2, 3}
    for name in ("training", "holdout"):
        assert sorted(pictures[f"validation/{name}"]) == [0, 3]
        picture = pictures[f"validation/{name}"][3]
        assert (picture.height, picture.width) == (320, 960)


def test_what_a_run_was_resumed_before_is_not_shown_twice(tmp_path):
    pytest.importorskip("tensorboard")
    settings = tiny(tmp_path, tensorboard=True, steps=2)
    train(settings, shifted_textures)
    checkpoint = settings.checkpoint_path.read_bytes()
    train(replace(settings, steps=4, resume=True), shifted_textures)
    settings.checkpoint_path.write_bytes(checkpoint)  # as if the machine had failed at step 4
    train(replace(settings, steps=3, resume=True), shifted_textures)
    numbers, _ = events(tmp_path / "tensorboard")
    assert sorted(numbers["training/loss"]) == [1, 2, 3]
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3]


@pytest.mark.parametrize("resume", [True, False])
def test_what_a_run_told_before_it_begins_anew_is_not_shown_twice(tmp_path, resume):
    pytest.importorskip("tensorboard")
    settings = tiny(tmp_path, tensorboard=True, steps=2)
    train(settings, shifted_textures, fixed_sets)
    settings.checkpoint_path.unlink()  # as if it had been killed before there was one
    settings.weights_path.unlink()
    train(replace(settings, steps=1, resume=resume), shifted_textures, fixed_sets)
    assert [line["step"] for line in lines(tmp_path)] == [0, 1, 1]
    numbers, pictures = events(tmp_path / "tensorboard")
    assert sorted(numbers["training/loss"]) == [1]
    assert sorted(numbers["validation/training_epe_px"]) == [0, 1]
    assert sorted(pictures["validation/training"]) == [0, 1]


def test_the_first_of_several_processes_writes_alone(tmp_path):
    pytest.importorskip("tensorboard")
    settings = tiny(tmp_path, tensorboard=True, steps=1, devices=2, validation_batches=1)
    summary = train(settings, shifted_textures, fixed_sets)
    assert [line["step"] for line in lines(tmp_path)] == [0, 1, 1]
    assert set(summary.errors) == set(summary.errors_before) == {"training", "holdout"}
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_without_the_package_one_line_says_so_and_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    arguments = ["train", "-o", str(tmp_path / "run"), "--steps", "1", "--device", "cpu"]
    result = CliRunner().invoke(app, [*arguments, "--tensorboard"])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    for part in ("error: ", "needs the package tensorboard", "pip install 'pwcflow[tensorboard]'"):
        assert part in result.stderr
    assert not (tmp_path / "run").exists()
