"""The options of `video` that tell which frames are taken, at the command line."""

import json

import cv2
import pytest
from typer.testing import CliRunner

from pwcflow.cli import app
from pwcflow.flow_file import read_flow
from tests.video_samples import picture


@pytest.fixture
def frames(tmp_path):
    for index in range(8):
        cv2.imwrite(str(tmp_path / f"f{index}.png"), picture(index))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["video", *map(str, arguments)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--start", "x"], "neither a frame number"),
        (["--start", "9", "--end", "3"], "must come after start 9"),
        (["--step", "0"], "--step"),
        (["--resize", "640"], "is not a size"),
        (["--scale", "0"], "scale must be a number above 0"),
        (["--scale", "nan"], "scale must be a number above 0"),
        (["--resize", "4x4", "--max-side", "3"], "give one"),
        (["--raw", "4x4:vhs"], "is no raw format"),
        (["--reader", "vlc"], "auto, opencv and av"),
    ],
)
def test_wrong_values_are_wrong_usage(frames, options, message):
    result = run(frames, "-o", frames / "flows", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_start_beyond_the_end_is_told_in_one_line(frames):
    result = run(frames / "f%d.png", "-o", frames / "flows", "--start", 8)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: --start 8 is beyond the end of ")
    assert result.stderr.count("\n") == 1


def test_the_flow_is_that_of_the_frames_taken_and_resized(frames):
    flows = frames / "flows"
    options = ["--start", 1, "--end", 7, "--step", 2, "--scale", 0.5]
    result = run(frames / "f%d.png", "-o", flows, "--device", "cpu", "--json", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    summary = json.loads(result.stdout)
    assert (summary["flows"], summary["width"], summary["height"]) == (2, 64, 48)
    assert read_flow(flows / "000001.flo").shape == (48, 64, 2)
    record = json.loads((flows / "pwcflow.json").read_text())
    assert record["frame_numbers"] == [1, 3, 5]
    assert record["input"]["settings"] == {"start": "1", "end": "7", "step": 2, "scale": 0.5}
    assert record["reading"]["resized_from"] == "128x96"
    assert record["reading"]["resized_to"] == "64x48"
