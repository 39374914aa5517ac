import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pwcflow.cli import app
from pwcflow.flow_file import read_flow, write_flow
from pwcflow.image_file import read_image, write_image
from pwcflow.opencv_log import quiet_codecs
from pwcflow.video import count_frames
from pwcflow.visualization import STYLES

COMMANDS = ["estimate", "video", "visualize", "train"]
SIDE = 64
RECORD = "pwcflow.json"
PROVENANCE = {"weights", "weights_sha256", "device", "precision", "seconds"}


def picture(shift=0):
    """Smooth waves, moved to the right."""
    y, x = np.mgrid[:SIDE, :SIDE] / 5.0
    waves = np.stack([np.sin(x - shift / 5), np.cos(y), np.sin(x - shift / 5 + y)], -1)
    return ((waves + 1) * 127).astype(np.uint8)


def make_video(path, frames):
    with quiet_codecs(opening_writer=True):
        fourcc = cv2.VideoWriter.fourcc(*("MJPG" if path.suffix == ".avi" else "mp4v"))
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, 25.0, (SIDE, SIDE))
    assert writer.isOpened()
    for index in range(frames):
        writer.write(picture(index % 16))
    writer.release()
    return path


def half(path, source):
    data = source.read_bytes()
    path.write_bytes(data[: len(data) // 2])


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """A folder to work in, with good inputs and every kind of bad one; outputs go to `out`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    write_image(Path("1.png"), picture(0))
    write_image(Path("2.png"), picture(2))
    write_image(Path("wide.png"), np.zeros((48, 80, 3), np.uint8))
    write_flow(Path("flow.flo"), np.full((4, 6, 2), 2, np.float32))
    half(Path("half.png"), Path("1.png"))
    half(Path("half.flo"), Path("flow.flo"))
    Path("empty").touch()
    for suffix in (".png", ".mp4", ".flo"):
        Path(f"empty{suffix}").touch()
        Path(f"text{suffix}").write_text("not what its name says\n")
    Path("folder").mkdir()
    Path("flows").mkdir()
    write_flow(Path("flows/000000.flo"), np.full((4, 6, 2), 2, np.float32))
    make_video(Path("one.mp4"), 1)
    make_video(Path("three.mp4"), 3)
    half(Path("half.mp4"), make_video(Path("twenty.mp4"), 20))
    frames = Path("frames")
    frames.mkdir()
    for index in range(3):
        write_image(frames / f"{index}.png", picture(index))
    torch.save({"layer.weight": torch.zeros(3, 3)}, "other.pt")
    return tmp_path


def invoke(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def assert_one_error_line(stderr, *texts):
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert stderr.endswith("\n")
    for text in texts:
        assert text in stderr


def start(*args, **options):
    """Start the command line as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pwcflow", *map(str, args)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        **options,
    )


def process(*args, **options):
    with start(*args, **options) as running:
        stdout, stderr = running.communicate(timeout=120)
    return running.returncode, stdout, stderr


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# what is told: help, version, summaries


@pytest.mark.parametrize("args", [[], *([command] for command in COMMANDS)], ids=str)
def test_help_needs_neither_torch_nor_cupy_nor_opencv(tmp_path, args):
    for name in ("torch", "cupy", "cv2"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is blocked')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code, stdout, stderr = process(*args, "--help", env=env)
    assert (code, stderr) == (0, "")
    assert stdout.startswith("Usage: ")
    assert not args or f"pwcflow {args[0]} " in stdout.split("Examples:")[1]


@pytest.mark.parametrize("command", ["estimate", "video", "visualize"])
def test_help_has_an_example_of_every_style(command):
    examples = invoke(command, "--help").stdout.split("Examples:")[1]
    for style in STYLES:
        not_of_videos = command == "video" and style in ("error", "occlusion")
        shown = f"--style {style}" in examples or (style == "wheel" and "legend inside" in examples)
        assert shown or (not_of_videos and style in examples)


def test_every_style_can_be_asked_for_at_the_command_line(inputs):
    write_flow(Path("square.flo"), np.full((SIDE, SIDE, 2), 2, np.float32))
    beside = {"frame": "1.png", "second": "2.png", "truth": "square.flo", "backward": "square.flo"}
    for name, style in STYLES.items():
        options = [text for part in style.needs for text in (f"--{part}", beside[part])]
        output = f"out/{name}.png"
        result = invoke("visualize", "square.flo", "-o", output, "--style", name, *options)
        assert (result.exit_code, result.stderr) == (0, "")
        scale = f", {style.scale_tells} 2.828 px" if style.has_scale else ""
        assert result.stdout == f"{output}: 1 image{scale}\n"


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
        "first", "second", "flow", "viz", "style", "scale", "max_flow_px", "width", "height",
        "largest_motion_px",
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
        "style": "wheel",
        "scale": "fixed",
        "max_flow_px": 7.5,
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


def test_a_folder_that_is_called_like_a_video_gets_the_flow_files(inputs):
    Path("out/clip.mp4").mkdir()
    assert invoke("video", "frames", "-o", "out/clip.mp4").exit_code == 0
    assert files_below(inputs / "out/clip.mp4") == ["000000.flo", "000001.flo", RECORD]


# training


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


def test_a_preview_is_a_picture_of_pairs_in_two_columns(inputs):
    result = invoke("train", "--preview", "out/a.png", "--size", "64x64", "--device", "cpu")
    assert (result.exit_code, result.stdout) == (0, "out/a.png: pairs and their flow\n")
    assert read_image(Path("out/a.png")).shape == (6 * 320, 2 * 960, 3)


# bad input: exit code 1, one line on stderr, nothing written

BAD_INPUT = [
    # images
    ("estimate missing.png 2.png -o out/a.flo", "there is no file missing.png"),
    ("estimate 1.png missing/2.png -o out/a.flo", "there is no file missing/2.png"),
    ("estimate empty.png 2.png -o out/a.flo", "empty.png is empty (0 bytes)"),
    ("estimate half.png 2.png -o out/a.flo", "half.png is cut short"),
    ("estimate 1.png text.png -o out/a.flo", "text.png is not an image"),
    ("estimate 1.png folder -o out/a.flo", "folder is a folder, not an image"),
    ("estimate 1.png three.mp4 -o out/a.flo", "three.mp4 is not an image"),
    ("estimate 1.png wide.png -o out/a.flo", "64 x 64 pixels but wide.png is 80 x 48"),
    # outputs
    ("estimate 1.png 2.png -o none/a.flo", "the folder none does not exist; create it first"),
    ("estimate 1.png 2.png --viz none/a.png", "the folder none does not exist; create it first"),
    ("estimate 1.png 2.png -o empty/a.flo", "empty is a file; choose a folder"),
    ("estimate 1.png 2.png -o out/a.xyz", "its suffix .xyz is unknown; use .flo"),
    ("estimate 1.png 2.png -o out", "it has no suffix; use .flo"),
    ("estimate 1.png 2.png -o out/a.jpg", "cannot write flow to out/a.jpg: .jpg holds pictures"),
    ("estimate 1.png 2.png --viz out/a.gif", ".gif images cannot be written; use .png"),
    ("estimate 1.png 2.png -o out/a.png --viz out/a.png", "it is an input, or another output"),
    ("estimate 1.png 2.png -o 1.png", "cannot write 1.png: it is an input"),
    # weights and device
    ("estimate 1.png 2.png -o out/a.flo --weights nope", "the names are default, "),
    ("estimate 1.png 2.png -o out/a.flo --weights other.pt", "of another network"),
    ("estimate 1.png 2.png -o out/a.flo --weights text.png", "text.png is not a checkpoint"),
    ("estimate 1.png 2.png -o out/a.flo --device tpu", "device 'tpu' is unknown; use auto, cpu"),
    ("video frames -o out --device cuda:-1", "device 'cuda:-1' is unknown; use auto, cpu"),
    # videos
    ("video missing.mp4 -o out", "there is no file missing.mp4"),
    ("video empty.mp4 -o out", "empty.mp4 is empty (0 bytes)"),
    ("video text.mp4 -o out", "text.mp4 holds no pictures that OpenCV can decode"),
    ("video half.mp4 -o out", "half.mp4 is cut off"),
    ("video one.mp4 -o out", "one.mp4 has one frame only; flow needs two"),
    ("video folder -o out", "folder holds no images"),
    ("video 1.png -o out", "1.png is a still image"),
    ("video three.mp4 -o empty", "flow files go into a folder, but empty is a file"),
    ("video three.mp4 --flo empty/flows", "flow files go into a folder, but empty is a file"),
    ("video three.mp4 --flo 1.png", "flow files go into a folder, but 1.png is a file"),
    ("video three.mp4 --flo out/v.png", "but out/v.png is the name of a file; choose one without"),
    ("video three.mp4 --flo flows", "flows holds flows already, of an earlier run"),
    ("video three.mp4 --viz none/v.mp4", "the folder none does not exist; create it first"),
    ("video three.mp4 --viz three.mp4", "cannot write three.mp4: it is an input"),
    ("video three.mp4 --viz folder", "'' is not a video format that can be written"),
    ("video three.mp4 --viz out/v.gif", "'.gif' is not a video format that can be written"),
    ("video three.mp4 -o out/v.gif", "out/v.gif is neither a video that can be written"),
    ("video three.mp4 -o out/v1.5", "for a new folder with a dot in its name use --flo"),
    ("video three.mp4 -o out/v.mp4 --fps 99999", "choose a rate from 0.1 to 1000"),
    # flow files
    ("visualize missing.flo -o out/a.png", "there is no file missing.flo"),
    ("visualize empty.flo -o out/a.png", "empty.flo is not a .flo file"),
    ("visualize text.flo -o out/a.png", "text.flo is not a .flo file"),
    ("visualize half.flo -o out/a.png", "half.flo is cut short"),
    ("visualize 1.png -o out/a.png", "cannot be turned back"),
    ("visualize three.mp4 -o out/a.png", "three.mp4 is not a flow file"),
    ("visualize flow.flo -o out/a.gif", ".gif images cannot be written"),
    ("visualize flow.flo -o out", "cannot write out: it has no suffix"),
    ("visualize flow.flo -o none/a.png", "the folder none does not exist"),
    ("visualize flows -o out/v.png", "flows is a folder, so its images go into a folder, but"),
    ("visualize flows -o out/x.mp4", "out/x.mp4 is the name of a file; choose one without .mp4"),
    ("visualize flows -o 1.png", "flows is a folder, so its images go into a folder, but 1.png"),
    ("visualize folder -o out", "folder has no flow files in it"),
    ("visualize . -o out", "empty.flo and empty.png would both become out/empty.png"),
    ("visualize out -o out", "where they would be taken for flow"),
    # training
    ("train -o out/run --steps 1 --device cpu --photos none", "none is not a folder"),
    ("train -o empty/run --steps 1 --device cpu", "cannot make the folder empty/run"),
    ("train --preview out/a.gif", ".gif images cannot be written"),
]


@pytest.mark.parametrize(("line", "message"), BAD_INPUT, ids=[line for line, _ in BAD_INPUT])
def test_bad_input_is_told_in_one_line_and_writes_nothing(inputs, capfd, line, message):
    before = files_below(inputs)
    result = invoke(*line.split())
    assert result.exit_code == 1
    assert result.stdout == ""
    assert_one_error_line(result.stderr, message)
    assert capfd.readouterr() == ("", "")  # nor do the libraries say anything of their own
    assert files_below(inputs) == before


@pytest.mark.parametrize(
    "line",
    [
        "estimate 1.png wide.png -o out/a.flo",
        "video half.mp4 -o out",
        "visualize half.flo -o out/a.png",
    ],
)
def test_the_process_of_a_bad_input_ends_with_one_and_one_line(inputs, line):
    code, stdout, stderr = process(*line.split())
    assert (code, stdout) == (1, "")
    assert_one_error_line(stderr)


def test_a_video_that_breaks_in_the_middle_keeps_what_comes_before(inputs):
    half(Path("half.avi"), make_video(Path("whole.avi"), 30))
    code, stdout, stderr = process("video", "half.avi", "-o", "out/flows", "--viz", "out/v.mp4")
    assert (code, stdout) == (1, "")
    flows = len(list(Path("out/flows").glob("*.flo")))
    assert 4 <= flows <= 20
    assert_one_error_line(
        stderr,
        f"breaks at frame {flows + 1} of 30",
        f"before: {flows} flows in out/flows and out/v.mp4\n",
    )
    assert count_frames(Path("out/v.mp4")) == flows
    assert files_below(inputs / "out") == [
        *(f"flows/{number:06d}.flo" for number in range(flows)),
        f"flows/{RECORD}",
        "v.mp4",
    ]


def test_a_folder_that_must_not_be_written_to_is_named(inputs):
    if os.name == "nt" or os.geteuid() == 0:
        pytest.skip("here every folder may be written to")
    Path("out").chmod(0o500)
    result = invoke("visualize", "flow.flo", "-o", "out/a.png")
    Path("out").chmod(0o700)
    assert result.exit_code == 1
    assert_one_error_line(result.stderr, "out/a.png", "permission denied")


@pytest.mark.parametrize(
    "line",
    [
        "estimate 1.png 2.png -o out/a.flo",
        "video three.mp4 -o out/v.mp4",
        "visualize flow.flo -o out/a.png",
    ],
)
def test_an_input_that_must_not_be_read_is_an_error_in_one_line(inputs, monkeypatch, line):
    monkeypatch.setattr(os, "access", lambda *args, **kwargs: False)  # Typer asks, as a usage
    assert invoke(*line.split()).exit_code == 0
    if os.name == "nt" or os.geteuid() == 0:
        return  # here every file may be read
    Path(line.split()[1]).chmod(0)
    result = invoke(*line.split())
    assert result.exit_code == 1
    assert_one_error_line(result.stderr, "permission denied")


@pytest.mark.parametrize(
    "line",
    [
        "estimate 1.png 2.png -o out/a.flo",
        "video frames -o out",
        "train -o out --steps 1",
    ],
)
def test_a_pytorch_that_cannot_be_imported_is_told_in_one_line(inputs, line):
    Path("folder/torch.py").write_text("raise ImportError('libtorch.so:\\nno such file')\n")
    env = {**os.environ, "PYTHONPATH": str(inputs / "folder")}
    code, stdout, stderr = process(*line.split(), env=env)
    assert (code, stdout) == (1, "")
    assert stderr == (
        "error: PyTorch cannot be imported (libtorch.so:\\nno such file); run: pip install torch\n"
    )
    assert files_below(inputs / "out") == []


def test_a_folder_that_must_not_be_listed_is_named(inputs):
    if os.name == "nt" or os.geteuid() == 0:
        pytest.skip("here every folder may be listed")
    Path("folder").chmod(0o300)
    result = invoke("visualize", "folder", "-o", "out")
    Path("folder").chmod(0o700)
    assert result.exit_code == 1
    assert_one_error_line(result.stderr, "cannot list folder: permission denied")


@pytest.mark.parametrize(
    "line",
    [
        "visualize {}.flo -o out/a.png",
        "video {}.mp4 -o out",
        "estimate {}.png 1.png -o out/a.flo",
        "estimate 1.png 2.png -o out/{}.flo",
    ],
)
def test_a_name_too_long_for_the_system_is_told_in_one_line(inputs, line):
    result = invoke(*line.format("a" * 300).split())
    assert result.exit_code == 1
    assert_one_error_line(result.stderr, "file name too long")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("two\nlines.flo", "two\\nlines.flo"),
        ("line\rback.flo", "line\\rback.flo"),
        ("\x1b[31mred.flo", "\\x1b[31mred.flo"),
        ("separator\u2028.flo", "separator\\u2028.flo"),
        ("next\x85line.flo", "next\\x85line.flo"),
    ],
)
def test_an_error_is_one_line_whatever_the_name_of_a_file(inputs, name, shown):
    code, stdout, stderr = process("visualize", name, "-o", "out/a.png")
    assert (code, stdout) == (1, "")
    assert stderr == f"error: there is no file {shown}; check the name and the folder\n"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_no_text_is_read_written_and_shown(inputs):
    name = os.fsdecode(b"\xff.flo")
    Path("flow.flo").rename(name)
    code, stdout, stderr = process("visualize", name, "-o", f"out/{name}.png")
    assert (code, stderr) == (0, "")
    assert stdout.startswith("out/\\udcff.flo.png: 1 image")
    assert files_below(inputs / "out") == [f"{name}.png"]


def test_a_terminal_without_japanese_letters_gets_their_codes(inputs):
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    code, stdout, stderr = process("visualize", "flow.flo", "-o", "out/日本.png", env=env)
    assert (code, stderr) == (0, "")
    assert stdout.startswith("out/\\u65e5\\u672c.png: 1 image")
    assert files_below(inputs / "out") == ["日本.png"]


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        "{braces}",
        "{0}",
        "100%",
        "%s %d",
        "日本 フレーム",
        "Å",
        "it's",
        "-dash",
        "[1]",
    ],
)
def test_any_name_will_do_for_files_and_folders(inputs, name):
    folder = Path("out") / name
    folder.mkdir()
    write_image(folder / f"{name} 1.png", picture(0))
    write_image(folder / f"{name} 2.png", picture(1))
    make_video(Path("clip.mp4"), 2).rename(folder / f"{name}.mp4")
    prefix = f"out/{name}/{name}"
    pair = [f"{prefix} 1.png", f"{prefix} 2.png", "-o", f"{prefix}.flo", "--viz", f"{prefix}.png"]
    for args in (
        ["estimate", *pair],
        ["video", f"{prefix}.mp4", "--flo", f"{prefix} flows", "--viz", f"{prefix} viz.mp4"],
        ["visualize", f"{prefix} flows", "-o", f"{prefix} colours"],
    ):
        result = invoke(*args)
        assert (result.exit_code, result.stderr) == (0, "")
        assert prefix in result.stdout
    assert files_below(folder) == sorted(
        f"{name}{end}"
        for end in (
            " 1.png", " 2.png", ".mp4", ".flo", ".png", " viz.mp4", " flows/000000.flo",
            f" flows/{RECORD}", " colours/000000.png",
        )
    )  # fmt: skip


# usage: exit code 2

BAD_USAGE = [
    ("estimate 1.png 2.png", "give -o FLOW, --viz IMAGE, or both"),
    ("video frames", "give -o OUT, --flo DIR or --viz FILE"),
    ("visualize flow.flo", "--output"),
    ("estimate 1.png -o out/a.flo", "SECOND"),
    ("estimate 1.png 2.png -o out/a.flo --precision fp8", "must be fp32, fp16, bf16 or auto: fp8"),
    ("estimate 1.png 2.png -o out/a.flo --max-flow 9", "--max-flow is for a colour image"),
    ("video frames -o out --max-flow 9", "--max-flow and --fps are for a colour video"),
    ("video frames --flo out --fps 9", "--max-flow and --fps are for a colour video"),
    ("video frames -o out/v.mp4 --overwrite", "--overwrite is for a folder of flows"),
    ("video frames -o out --flo out/f", "-o out and --flo out/f are both a folder of flows"),
    ("video frames -o out/v.mp4 --viz out/w.mp4", "are both a colour video"),
    ("video frames -o out --fps 0", "must be a number above 0"),
    ("nonsense", "nonsense"),
    *(
        (f"{command} --max-flow={number}", "must be a number above 0")
        for command in (
            "estimate 1.png 2.png --viz out/a.png",
            "video frames --viz out/v.mp4",
            "visualize flow.flo -o out/a.png",
        )
        for number in ("0", "-1", "nan", "inf")
    ),
    ("visualize flow.flo -o out/a.png --max-flow=much", "or one of frame, sequence, percentile"),
    *(
        (f"visualize flow.flo -o out/a.png {options}", message)
        for options, message in (
            ("--style rainbow", "there is no style rainbow; use wheel, arrows, streamlines"),
            ("--style heat --palette colorblind", "--palette is not for the style heat, but for"),
            ("--style overlay", "the style overlay needs --frame"),
            ("--style warp --frame 1.png", "the style warp needs --second"),
            ("--truth flow.flo", "--truth is not for the style wheel, but for error"),
            (
                "--style error --truth flow.flo --max-flow 9",
                "--max-flow is not for the style error",
            ),
            ("--style arrows --frame 1.png --background black", "not for arrows over a frame"),
            ("--opacity 0.5", "--opacity is not for the style wheel, but for overlay, occlusion"),
            ("--style overlay --frame 1.png --opacity 2", "--opacity"),
            ("--style arrows --spacing 1", "--spacing"),
            ("--gamma 0", "must be a number above 0"),
            ("--noise-floor -1", "must be a number from 0 up"),
            ("--noise-floor 5 --max-flow 5", "--noise-floor 5 must be below --max-flow 5"),
            ("--unknown red-ish", "must be black, white, gray, or as #ff8000: red-ish"),
            ("--background blue", "must be one of white, black: blue"),
            ("--legend below", "must be one of none, inside, beside: below"),
            ("--palette viridis", "must be one of middlebury, colorblind: viridis"),
        )
    ),
    ("visualize folder -o out/a --style warp --frame frames --second 2.png", "--second is for one"),
    ("estimate 1.png 2.png -o out/a.flo --style heat", "--style is for a colour image; give --viz"),
    ("estimate 1.png 2.png -o out/a.flo --truth flow.flo", "--truth is for a colour image"),
    ("estimate 1.png 2.png --viz out/a.png --style error", "the style error needs --truth"),
    ("video frames -o out --gamma 2", "--gamma is for a colour video; give --viz FILE too"),
    (
        "video frames -o out/v.mp4 --style occlusion",
        "write its flows, and give them to pwcflow vis",
    ),
    ("train --steps 1", "give -o DIR, or --preview PNG"),
    ("train -o out", "give the length of the run: --minutes or --steps"),
    ("train -o out --steps 1 --minutes 1", "give the length of the run: --minutes or --steps"),
    ("train -o out --steps 0", "--steps"),
    ("train -o out --minutes nan", "must be a number above 0"),
    ("train -o out --steps 1 --size 64", "must be such as 384x512: 64"),
    ("train -o out --steps 1 --size 0x64", "must be such as 384x512: 0x64"),
    ("train -o out --steps 1 --size 100x100", "must be multiples of 64: 100 x 100"),
    ("train -o out --steps 1 --seed -1", "--seed"),
]


@pytest.mark.parametrize(("line", "message"), BAD_USAGE, ids=[line for line, _ in BAD_USAGE])
def test_wrong_usage_ends_with_two_and_writes_nothing(inputs, line, message):
    result = invoke(*line.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert files_below(inputs / "out") == []


def test_the_process_of_a_wrong_usage_ends_with_two(inputs):
    assert process("estimate", "1.png", "2.png")[0] == 2


# interruption and what the system does to a process

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


def wait_for(path, running):
    deadline = time.monotonic() + 100
    while not path.exists():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_video_keeps_what_is_finished(inputs, name):
    make_video(Path("long.mp4"), 2000)
    with start("video", "long.mp4", "--flo", "out/flows", "--viz", "out/v.mp4") as running:
        wait_for(inputs / "out" / "flows" / "000003.flo", running)
        running.send_signal(getattr(signal, name))
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert stdout == ""
    told = re.fullmatch(
        r"interrupted; kept what comes before: (\d+) flows in out/flows and out/v.mp4"
        r"; the same command goes on from there\n",
        stderr,
    )
    assert told
    files = files_below(inputs / "out")
    flows = len(files) - 2
    assert 4 <= flows < 1999
    assert int(told[1]) in (flows - 1, flows)
    names = [f"flows/{number:06d}.flo" for number in range(flows)]
    assert files == [*names, f"flows/{RECORD}", "v.mp4"]
    for path in Path("out/flows").glob("*.flo"):
        assert read_flow(path).shape == (SIDE, SIDE, 2)
    # a flow file comes before its frame, and the signal may come between the two
    assert count_frames(Path("out/v.mp4")) in (flows - 1, flows)


@posix
def test_an_interruption_while_torch_is_imported_is_told_in_one_line(inputs):
    # stands for the import of torch: says that it has begun, then takes its time
    Path("folder/torch.py").write_text(
        "import pathlib, time\npathlib.Path('out/begun').touch()\ntime.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(inputs / "folder")}
    with start("estimate", "1.png", "2.png", "-o", "out/a.flo", env=env) as running:
        wait_for(inputs / "out" / "begun", running)
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert (stdout, stderr) == ("", "interrupted\n")
    assert files_below(inputs / "out") == ["begun"]


@posix
def test_a_reader_that_has_left_is_no_reason_for_a_traceback(inputs):
    with start("visualize", "flow.flo", "-o", "out/a.png") as running:
        running.stdout.close()
        stderr = running.stderr.read()
    assert (running.returncode, stderr) == (1, "")
    assert files_below(inputs / "out") == ["a.png"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_summary_that_cannot_be_printed_is_an_error_in_one_line(inputs, unbuffered):
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        code, _, stderr = process("visualize", "flow.flo", "-o", "out/a.png", stdout=full, env=env)
    assert code == 1
    assert_one_error_line(stderr, "no space left on device")


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_reason_to_fail(inputs, closed):
    Path("flow.flo").rename("folder/flow.flo")
    line = f'"{sys.executable}" -m pwcflow visualize folder -o out {closed}'
    assert subprocess.run(line, shell=True, check=False, capture_output=True).returncode == 0
    assert files_below(inputs / "out") == ["flow.png"]


LITTLE_MEMORY = """
import resource
import sys
from pathlib import Path

import pwcflow.estimator
import pwcflow.pipeline
from pwcflow.cli import main

now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (600 << 20),) * 2)
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited in this way on Linux")
def test_too_little_memory_is_told_in_one_line(inputs):
    write_image(Path("huge.png"), np.zeros((2000, 3000, 3), np.uint8))  # takes 3 GB
    arguments = ["estimate", "huge.png", "huge.png", "-o", "out/a.flo", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # the stacks of threads count too
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert_one_error_line(done.stderr, "not enough memory", "use smaller images")
    assert files_below(inputs / "out") == []


def test_an_interruption_while_the_commands_load_is_one_line():
    script = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'pwcflow.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from pwcflow.__main__ import main\n"
        "main()"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "interrupted\n")
