"""Bad input: exit code 1, one line on stderr, nothing written."""

import os
import sys
from pathlib import Path

import pytest

from pwcflow.image_file import write_image
from pwcflow.video import count_frames
from tests.command_line import (
    RECORD,
    assert_one_error_line,
    files_below,
    half,
    invoke,
    make_video,
    picture,
    process,
)

BAD_INPUT = [
    # images
    ("estimate missing.png 2.png -o out/a.flo", "there is no file missing.png"),
    ("estimate 1.png missing/2.png -o out/a.flo", "there is no file missing/2.png"),
    ("estimate empty.png 2.png -o out/a.flo", "empty.png is empty (0 bytes)"),
    ("estimate half.png 2.png -o out/a.flo", "half.png is cut short"),
    ("estimate 1.png text.png -o out/a.flo", "text.png is not an image"),
    ("estimate 1.png folder -o out/a.flo", "folder is a folder, not an image"),
    ("estimate 1.png three.mp4 -o out/a.flo", "take `pwcflow video` if it is a video"),
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
    ("video three.mp4 --viz out/v.mpg", "'.mpg' is not a video format that can be written"),
    ("video three.mp4 -o out/v.gif --fps 60", "v.gif at 60 frames per second; choose a rate"),
    ("video three.mp4 -o out/v.mpg", "out/v.mpg is neither a video that can be written"),
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
    ("visualize flows -o out/x.flo", "out/x.flo is the name of a file; choose one without .flo"),
    ("visualize folder -o out/x.mp4", "folder has no flow files in it"),
    (
        "visualize . -o out/x.mp4",
        "flows has flows in it, too, but a video is of those of one folder",
    ),
    ("visualize flows -o none/x.mp4", "the folder none does not exist; create it first"),
    ("visualize flows -o out/x.gif --fps 60", "choose a rate from 0.1 to 50 by --fps; viewers do"),
    ("visualize flows -o out/x.mp4 --fps 99999", "choose a rate from 0.1 to 1000 by --fps"),
    ("visualize flows -o 1.png", "flows is a folder, so its images go into a folder, but 1.png"),
    ("visualize folder -o out", "folder has no flow files in it"),
    ("visualize . -o out", "empty.flo and empty.png would both become out/empty.png"),
    ("visualize out -o out", "where they would be taken for flow"),
    # training
    ("train -o out/run --steps 1 --device cpu --photos none", "none is not a folder"),
    (
        "train -o out/run --steps 1 --device cpu --photos frames --holdout none",
        "none is not a folder",
    ),
    ("train -o out/run --minutes 1 --recipe default --device cpu --photos none", "none is not a"),
    (
        "train -o out/run --steps 1 --device cpu --photos frames --sprites frames",
        "there is no cut-out in frames: no PNG or WebP with an alpha channel of 8 bits that is not",
    ),
    ("train --preview sheet.png --photos frames --sprites frames", "there is no cut-out in frames"),
    ("train -o empty/run --steps 1 --device cpu", "cannot write empty/run: "),
    (
        "train -o out/run --steps 1 --device cpu --eval none.csv",
        "cannot read none.csv as a CSV file: no such file or directory; check the name",
    ),
    (
        "train --preview frames/../frames/0.png --photos frames",
        "it would be taken for one of the images in frames; choose another folder",
    ),
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
