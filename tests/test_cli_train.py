"""What `pwcflow train` does and tells at the command line."""

import json
import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow.flow_file import read_flow, write_flow
from pwcflow.image_file import read_image, write_image
from pwcflow.locks import LOCK_NAME, locked_folder
from tests.command_line import SIDE, assert_one_error_line, invoke


def test_training_into_a_folder_that_another_run_writes_into_is_refused(inputs):
    length = ["--steps", 1, "--size", "64x64", "--batch", 1, "--device", "cpu"]
    with locked_folder(Path("out/run")):
        result = invoke("train", "-o", "out/run", *length)
        assert [path.name for path in Path("out/run").iterdir()] == [LOCK_NAME]
    assert result.exit_code == 1
    assert_one_error_line(result.stderr, "out/run is being written by another process; wait until")


def test_trained_weights_are_those_of_an_estimate(inputs):
    length = ["--steps", "2", "--size", "64x64", "--batch", "1", "--device", "cpu"]
    result = invoke("train", "-o", "out/new/run", *length, "--quiet", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    summary = json.loads(result.stdout)
    assert (summary["outcome"], summary["step"], summary["pairs"]) == ("finished", 2, 2)
    assert summary["weights"] == "out/new/run/weights.safetensors"
    pair = ["1.png", "2.png", "-o", "out/a.flo", "--device", "cpu"]
    assert invoke("estimate", *pair, "--weights", summary["weights"]).exit_code == 0
    assert read_flow(Path("out/a.flo")).shape == (SIDE, SIDE, 2)
    again = invoke("train", "-o", "out/new/run", *length)
    assert again.exit_code == 1
    assert_one_error_line(again.stderr, "is of an earlier run")


@pytest.mark.parametrize(
    ("height", "flow", "told"),
    [
        (40, 1.0, "but its true flow, flow.flo, is 64 x 40"),
        (64, np.nan, "flow.flo is known at no pixel"),
    ],
)
def test_pairs_to_measure_on_are_read_before_the_training(here, height, flow, told):
    for name in ("1.png", "2.png"):
        write_image(here / name, np.full((64, 64, 3), 90, np.uint8))
    write_flow(here / "flow.flo", np.full((height, 64, 2), flow, np.float32))
    (here / "a.csv").write_text("dataset,sequence,frame1,frame2,gt\nx,a,1.png,2.png,flow.flo\n")
    length = ["--steps", "1", "--size", "64x64", "--batch", "1", "--device", "cpu"]
    result = invoke("train", "-o", "run", *length, "--eval", "a.csv")
    assert result.exit_code == 1
    assert_one_error_line(result.stderr, told)
    assert not (here / "run").exists()


def test_a_training_tells_what_images_it_was_given(inputs):
    square = np.full((40, 40, 4), 200, np.uint8)
    square[:10, :, 3] = 0
    for folder, photos, cut_outs in (("many", 3, 1), ("few", 1, 2)):
        Path(folder).mkdir()
        for number in range(photos):
            write_image(f"{folder}/{number}.png", square[..., :3])
        for number in range(cut_outs):
            cv2.imwrite(f"{folder}/cut{number}.png", square)
    few = {"photographs": 1, "cut_outs": 2}
    runs = {
        "--photos many --sprites many --holdout few": (
            "rendering from 3 photographs and 1 cut-out, measuring on 1 photograph and 2 cut-outs",
            {"training": {"photographs": 3, "cut_outs": 1}, "holdout": few},
        ),
        "--sprites many --holdout few": (  # whose photograph is not needed
            "rendering from 1 cut-out, measuring on 2 cut-outs",
            {
                "training": {"photographs": 0, "cut_outs": 1},
                "holdout": few | {"photographs": 0},
            },
        ),
        "--photos many": (
            "rendering from 3 photographs",
            {"training": {"photographs": 3, "cut_outs": 0}},
        ),
        "": (
            "rendering from computed patterns",
            {"training": {"photographs": 0, "cut_outs": 0}},
        ),
    }
    common = ["--size", "64x64", "--batch", "1", "--device", "cpu", "--steps", "1", "--json"]
    for number, (folders, (told, counts)) in enumerate(runs.items()):
        result = invoke("train", "-o", f"out/{number}", *folders.split(), *common)
        assert result.stderr.splitlines()[:2] == ["reading what pairs are made of ...", told]
        assert json.loads(result.stdout)["images"] == counts
        assert json.loads(Path(f"out/{number}/result.json").read_text())["images"] == counts


def test_a_finished_training_is_told_as_it_was_and_not_measured_again(inputs):
    common = ["-o", "out/run", "--size", "64x64", "--batch", "1", "--device", "cpu"]

    def resume(*options):
        return invoke("train", *common, "--resume", *options)

    first = invoke("train", *common, "--steps", "1")
    assert first.stdout.startswith(
        "out/run/weights.safetensors: 1 pair, finished, error on training pairs "
    )
    weights, log = (Path("out/run", name) for name in ("weights.safetensors", "log.jsonl"))
    before = weights.read_bytes(), log.read_bytes()
    weights.unlink()
    again = resume("--steps", "1")
    told = "the run in out/run is finished: there is nothing left to train\n"
    assert (again.exit_code, again.stdout, again.stderr) == (0, first.stdout, told)
    assert (weights.read_bytes(), log.read_bytes()) == before
    assert resume("--steps", "1", "--quiet").stderr == ""
    other = resume("--steps", "1", "--seed", "7")
    assert other.exit_code == 1
    assert_one_error_line(other.stderr, "of a run with the seed 0; resume it so, not with")
    result = Path("out/run/result.json")
    of_one_step = result.read_text()
    longer = resume("--steps", "2")
    assert longer.stdout.startswith("out/run/weights.safetensors: 2 pairs, finished, error on")
    result.write_text(of_one_step)  # as if the longer one had been killed before it told
    assert resume("--steps", "2").stdout.startswith("out/run/weights.safetensors: 2 pairs, ")


def test_a_finished_training_is_measured_on_a_holdout_that_is_new(inputs):
    common = ["-o", "out/run", "--size", "64x64", "--batch", "1", "--device", "cpu", "--steps", "1"]
    invoke("train", *common, "--photos", "frames", "--json")
    folders = ["--photos", "frames", "--holdout", "frames"]
    again = json.loads(invoke("train", *common, *folders, "--resume", "--json").stdout)
    assert (again["step"], set(again["errors"])) == (1, {"training", "holdout"})


def test_a_training_goes_on_with_other_images_and_says_so_but_not_with_other_motion(inputs):
    Path("two").mkdir()
    for number in range(2):
        write_image(f"two/{number}.png", np.zeros((40, 40, 3), np.uint8))
    common = ["-o", "out/run", "--size", "64x64", "--batch", "1", "--device", "cpu"]
    first = ["--photos", "frames", "--holdout", "frames"]
    assert invoke("train", *common, *first, "--steps", "1").exit_code == 0
    # 13 px at 384x512, times the lesser of 64 / 384 and 64 / 512, which is 0.125.
    as_begun = invoke("train", *common, *first, "--steps", "2", "--motion", "1.625", "--resume")
    assert "instead of" not in as_begun.stderr
    assert as_begun.stdout.count(" -> ") == 2
    before = json.loads(Path("out/run/result.json").read_text())["errors_before"]
    grown = ["--photos", "two", "--holdout", "frames", "--steps", "3"]
    assert invoke("train", *common, *grown, "--resume").exit_code == 0
    now = json.loads(Path("out/run/result.json").read_text())
    assert now["errors_before"] == {"holdout": before["holdout"]}
    assert set(now["errors"]) == {"training", "holdout"}
    other = invoke("train", *common, "--photos", "frames", "--steps", "4", "--resume")
    assert other.exit_code == 0
    assert re.search(r"finished, error on training pairs \d+\.\d\d px", other.stdout)
    told = (
        "rendering from 3 photographs instead of 2 photographs, measuring on no others instead of "
        "3 photographs"
    )
    assert told in other.stderr.splitlines()
    for steps in (4, 5):  # it is finished; it is not
        refused = invoke(
            "train", *common, "--photos", "two", "--steps", steps, "--motion", "3", "--resume"
        )
        assert refused.exit_code == 1
        assert_one_error_line(
            refused.stderr,
            "is of a run with rendered pairs that typically move 1.625 px; resume it so, not with "
            "rendered pairs that typically move 3 px, or give",
        )


@pytest.mark.parametrize("left", [None, "out/run", "out/run/.pwcflow.lock", "out/run/log.jsonl"])
def test_a_training_begins_where_there_is_no_checkpoint_to_go_on_with_and_says_so(inputs, left):
    """As one that is given the first time, or was killed before its first step."""
    length = ["--steps", 1, "--size", "64x64", "--batch", 1, "--device", "cpu"]
    if left == "out/run":
        Path(left).mkdir()
    elif left:
        Path("out/run").mkdir()
        Path(left).write_text("")
    result = invoke("train", "-o", "out/run", *length, "--resume")
    assert result.exit_code == 0
    told = "there is no checkpoint in out/run yet: the run begins from nothing"
    assert [line for line in result.stderr.splitlines() if "begins" in line] == [told]
    again = invoke("train", "-o", "out/run", *length, "--resume")
    assert again.stderr == "the run in out/run is finished: there is nothing left to train\n"


def test_a_preview_is_a_picture_of_pairs_in_two_columns(inputs):
    result = invoke("train", "--preview", "out/a.png", "--size", "64x64", "--device", "cpu")
    assert (result.exit_code, result.stdout) == (0, "out/a.png: pairs and their flow\n")
    assert read_image(Path("out/a.png")).shape == (6 * 320, 2 * 960, 3)


def test_a_training_that_diverged_is_an_error_and_leaves_no_weights_and_no_result(inputs):
    length = ["--size", "64x64", "--batch", "1", "--device", "cpu", "--steps", "1"]
    result = invoke("train", "-o", "out/run", *length, "--lr", "1e30", "--quiet", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert_one_error_line(result.stderr, "training diverged: the weights of step 1 are not finite")
    left = {path.name for path in Path("out/run").iterdir()}
    assert left - {LOCK_NAME} == {"log.jsonl"}
