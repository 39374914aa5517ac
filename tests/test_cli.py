"""What the commands do and tell; training and their errors are in test_cli_*.py."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pwcflow.flow_file import read_flow, write_flow
from pwcflow.image_file import read_image
from pwcflow.visualization import STYLES, occlusion, overlay
from tests.command_line import (
    COMMANDS,
    PROVENANCE,
    RECORD,
    SIDE,
    assert_one_error_line,
    files_below,
    invoke,
    process,
)


@pytest.mark.parametrize("args", [[], *([command] for command in COMMANDS)], ids=str)
def test_help_needs_neither_torch_nor_cupy_nor_opencv(tmp_path, args):
    for name in ("torch", "cupy", "cv2"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is blocked')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code, stdout, stderr = process(*args, "--help", env=env)
    assert (code, stderr) == (0, "")
    assert stdout.startswith("Usage: ")
    assert not args or f"pwcflow {args[0]} " in stdout.split("Examples:")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_what_is_given_rather_than_its_type(command):
    assert not re.search("<[a-z]", invoke(command, "--help").stdout)


@pytest.mark.parametrize("command", ["estimate", "video", "visualize"])
def test_help_has_an_example_of_every_style(command):
    examples = invoke(command, "--help").stdout.split("Examples:")[1]
    for style in STYLES:
        not_of_videos = command == "video" and style in ("error", "occlusion")
        shown = f"--style {style}" in examples or (style == "wheel" and "legend inside" in examples)
        assert shown or (not_of_videos and style in examples)


@pytest.mark.parametrize(("command", "verb"), [("estimate", "write"), ("visualize", "read")])
def test_help_says_whether_the_flow_back_is_an_input_or_an_output(command, verb):
    told = " ".join(invoke(command, "--help").stdout.split())
    assert f"--backward FILE Flow file to {verb}, " in told


def test_help_says_how_opaque_what_lies_over_a_frame_is():
    told = " ".join(invoke("visualize", "--help").stdout.split())
    assert f"[default: {overlay.OPACITY:g}; {occlusion.OPACITY:g} for occlusion]" in told


def test_every_style_can_be_asked_for_at_the_command_line(inputs):
    write_flow(Path("square.flo"), np.full((SIDE, SIDE, 2), 2, np.float32))
    write_flow(Path("back.flo"), np.full((SIDE, SIDE, 2), -2, np.float32))
    beside = {"frame": "1.png", "second": "2.png", "truth": "square.flo", "backward": "back.flo"}
    for name, style in STYLES.items():
        options = [text for part in style.needs for text in (f"--{part}", beside[part])]
        output = f"out/{name}.png"
        result = invoke("visualize", "square.flo", "-o", output, "--style", name, *options)
        assert (result.exit_code, result.stderr) == (0, "")
        scale = f", {style.scale_tells} 2.828 px" if style.has_scale else ""
        error = ", mean end-point error 0 px, 0.0 % outliers" if name == "error" else ""
        assert result.stdout == f"{output}: 1 image{error}{scale}\n"


def test_flow_files_are_shown_without_torch_and_cupy(inputs):
    for name in ("torch", "cupy"):
        (inputs / "folder" / f"{name}.py").write_text(f"raise ImportError('{name} is blocked')\n")
    env = {**os.environ, "PYTHONPATH": str(inputs / "folder")}
    code, stdout, stderr = process("visualize", "flow.flo", "-o", "out/a.png", env=env)
    assert (code, stdout, stderr) == (
        0,
        "out/a.png: 1 image, fully saturated at 2.828 px\n",
        "",
    )


@pytest.mark.parametrize("args", [[], *([command] for command in COMMANDS)], ids=str)
def test_the_short_option_helps_too_and_cuts_no_sentence(args):
    result = invoke(*args, "-h")
    assert result.exit_code == 0
    assert result.stdout == invoke(*args, "--help").stdout
    usage, told = result.stdout.split("\n", 1)
    assert usage.endswith("]...") or "..." not in usage
    assert "..." not in told
    assert "{" not in result.stdout  # some versions of Typer show {FIRST}


def test_the_version_is_that_of_the_package():
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout == f"pwcflow {importlib.metadata.version('pwcflow')}\n"


def test_the_installed_command_is_the_same_program(inputs):
    script = Path(sys.executable).with_name("pwcflow")
    if not script.exists():
        pytest.skip("the command is not installed beside this Python")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == process("--version")[1]


def test_a_pair_gives_a_flow_file_and_a_colour_image_and_one_sentence(inputs):
    result = invoke("estimate", "1.png", "2.png", "-o", "out/a.flo", "--viz", "out/a.png")
    assert result.exit_code == 0
    told = re.fullmatch(
        "out/a.flo and out/a.png: 64 x 64 pixels, largest motion (.*) px, "
        "fully saturated at (.*) px\n",
        result.stdout,
    )
    assert told
    assert told[1] == told[2]
    assert result.stderr == ""
    assert read_flow(Path("out/a.flo")).shape == (SIDE, SIDE, 2)
    assert read_image(Path("out/a.png")).shape == (SIDE, SIDE, 3)


def test_json_is_all_there_is_on_stdout_and_says_what_made_the_result(inputs):
    code, stdout, stderr = process("estimate", "1.png", "2.png", "-o", "out/a.flo", "--json")
    assert (code, stderr) == (0, "")
    summary = json.loads(stdout)
    assert summary.keys() == PROVENANCE | {
        "first", "second", "flow", "backward", "viz", "style", "scale", "max_flow_px", "width",
        "height", "largest_motion_px", "end_point_error_px", "outliers", "flows_measured",
    }  # fmt: skip
    assert (summary["first"], summary["second"]) == ("1.png", "2.png")
    assert (summary["flow"], summary["viz"], summary["max_flow_px"]) == ("out/a.flo", None, None)
    assert (summary["width"], summary["height"]) == (SIDE, SIDE)
    assert (summary["weights"], summary["precision"]) == ("default", "fp32")
    assert len(summary["weights_sha256"]) == 64
    longest = np.hypot(*np.moveaxis(read_flow(Path("out/a.flo")), -1, 0)).max()
    assert summary["largest_motion_px"] == pytest.approx(longest, abs=1e-3)


def test_json_of_a_video_counts_its_flows(inputs):
    result = invoke("video", "three.mp4", "--flo", "out", "--viz", "out/v.mp4", "--json")
    summary = json.loads(result.stdout)
    assert summary.keys() == PROVENANCE | {
        "video", "frames", "flows", "flow_folder", "viz", "style", "scale", "max_flow_px",
        "width", "height", "outcome", "flows_kept",
    }  # fmt: skip
    assert (summary["frames"], summary["flows"]) == (3, 2)
    assert (summary["flow_folder"], summary["viz"]) == ("out", "out/v.mp4")
    assert summary["max_flow_px"] == round(summary["max_flow_px"], 3) >= 1
    assert (summary["style"], summary["scale"]) == ("wheel", "running")
    assert files_below(inputs / "out") == ["000000.flo", "000001.flo", RECORD, "v.mp4"]


def test_json_of_colour_images_tells_their_scale(inputs):
    result = invoke("visualize", "flow.flo", "-o", "out/a.png", "--max-flow", "7.5", "--json")
    assert json.loads(result.stdout) == {
        "input": "flow.flo",
        "output": "out/a.png",
        "images": 1,
        "fps": None,
        "style": "wheel",
        "scale": "fixed",
        "max_flow_px": 7.5,
        "end_point_error_px": None,
        "outliers": None,
        "flows_measured": 0,
    }


def test_quiet_prints_nothing(inputs):
    assert process("visualize", "flow.flo", "-o", "out/a.png", "--quiet") == (0, "", "")
    for args in (
        ("estimate", "1.png", "2.png", "-o", "out/a.flo"),
        ("video", "frames", "-o", "out"),
    ):
        result = invoke(*args, "--quiet")
        assert (result.exit_code, result.output) == (0, "")
    assert files_below(inputs / "out") == ["000000.flo", "000001.flo", "a.flo", "a.png", RECORD]


# where the results of `video` go


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (["-o", "out/new"], ["new/000000.flo", "new/000001.flo", f"new/{RECORD}"]),
        (["-o", "out"], ["000000.flo", "000001.flo", RECORD]),
        (["-o", "out/v.MP4"], ["v.MP4"]),
        (["--viz", "out/v.avi"], ["v.avi"]),
        (["--flo", "out/1.5"], ["1.5/000000.flo", "1.5/000001.flo", f"1.5/{RECORD}"]),
        (
            ["-o", "out/new", "--viz", "out/v.mkv"],
            ["new/000000.flo", "new/000001.flo", f"new/{RECORD}", "v.mkv"],
        ),
        (
            ["-o", "out/v.mov", "--flo", "out/f"],
            ["f/000000.flo", "f/000001.flo", f"f/{RECORD}", "v.mov"],
        ),
    ],
    ids=" ".join,
)
def test_the_output_of_a_video_is_a_folder_or_a_video_by_its_name(inputs, options, files):
    result = invoke("video", "frames", *options)
    assert result.exit_code == 0
    scale = r", fully saturated at \d+\.\d{1,3} px" if any("v." in file for file in files) else ""
    assert re.search(f": 2 flows of 64 x 64 pixels{scale}\n$", result.stdout)
    assert files_below(inputs / "out") == files


def test_a_second_run_finds_all_done_and_needs_leave_when_the_input_has_changed(inputs):
    assert invoke("video", "frames", "-o", "out").exit_code == 0
    again = invoke("video", "frames", "-o", "out")
    assert (again.exit_code, again.stdout) == (
        0,
        "out: 2 flows of 64 x 64 pixels, complete before\n",
    )
    Path("frames/2.png").unlink()
    changed = invoke("video", "frames", "-o", "out")
    assert changed.exit_code == 1
    assert_one_error_line(
        changed.stderr, "out holds flows of ", " before it changed", "--overwrite"
    )
    result = invoke("video", "frames", "-o", "out", "--overwrite")
    assert (result.exit_code, result.stdout) == (0, "out: 1 flow of 64 x 64 pixels\n")
    assert files_below(inputs / "out") == ["000000.flo", RECORD]


WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from pwcflow.__main__ import main; main()"


@pytest.mark.parametrize("many", [False, True])
def test_what_is_complete_is_found_so_without_torch(inputs, many):
    Path("clips").mkdir()
    Path("frames").rename("clips/a")
    given = ["video", "clips" if many else "clips/a", "-o", "out", "--json"]
    first = json.loads(invoke(*given).stdout)
    again = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *given], capture_output=True, text=True, check=False
    )
    assert (again.returncode, again.stderr) == (0, "")
    told = json.loads(again.stdout)
    pairs = zip(first["results"], told["results"], strict=True) if many else [(first, told)]
    for done, skipped in pairs:
        assert (done["outcome"], skipped["outcome"]) == ("done", "skipped")
        for name in ("flows", "width", "height", "weights", "weights_sha256", "device"):
            assert skipped[name] == done[name]
    other = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *given, "--weights", "1.png"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    reasons = other.stderr if not many else json.loads(other.stdout)["results"][0]["reason"]
    assert "with the weights default, now 1.png; give --overwrite" in reasons


def test_a_folder_that_is_called_like_a_video_gets_the_flow_files(inputs):
    Path("out/clip.mp4").mkdir()
    assert invoke("video", "frames", "-o", "out/clip.mp4").exit_code == 0
    assert files_below(inputs / "out/clip.mp4") == ["000000.flo", "000001.flo", RECORD]
