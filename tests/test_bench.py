import json
import math
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pwcflow import FlowEstimator
from pwcflow.bench import video
from pwcflow.bench.images import SHIFT, textured_pairs
from pwcflow.bench.network import measure_pairs
from pwcflow.bench.timing import out_of_gpu_memory
from pwcflow.bench.volumes import localcorr_volume
from pwcflow.cli import app
from pwcflow.device import find_precision
from pwcflow.errors import PwcFlowError
from pwcflow.image_file import write_image
from pwcflow.ops import cost_volume
from tests.features import features, relative_error

CPU = torch.device("cpu")
SMALL = ("--size", "64x64", "--repeats", "2", "--device", "cpu")


def invoke(*args):
    return CliRunner().invoke(app, ["bench", *map(str, args)])


def assert_one_error_line(result, *texts):
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for text in texts:
        assert text in result.stderr


@pytest.fixture
def frames(tmp_path):
    """A folder of three frames, and an empty folder to write to."""
    folder = tmp_path / "frames"
    folder.mkdir()
    for index, image in enumerate(textured_pairs(3, 64, 64)[0]):
        write_image(folder / f"{index}.png", image)
    (tmp_path / "out").mkdir()
    return folder


# what is measured


def test_everything_in_a_pair_of_images_moves_by_the_shift():
    first, second = textured_pairs(2, 40, 50)
    right, down = SHIFT
    assert (right, down) == (7, -3)
    assert np.array_equal(second[:, : 40 - 3, 7:], first[:, 3:, : 50 - 7])
    assert (first[0] != first[1]).mean() > 0.9  # every pair is of its own
    assert first.std() > 30
    assert ((first == 0) | (first == 255)).mean() < 0.05


def test_the_network_sees_the_shift():
    flow = FlowEstimator(device="cpu")(*textured_pairs(1, 128, 192))
    np.testing.assert_allclose(np.median(flow, axis=(0, 1, 2)), SHIFT, atol=0.5)


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED on CUDA"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_only_too_little_memory_is_a_row_without_figures(error, is_memory):
    def load():
        raise error

    assert out_of_gpu_memory(error) == is_memory
    if is_memory:
        assert measure_pairs(load, 64, 64, 1, 1) is None
    else:
        with pytest.raises(RuntimeError, match="illegal"):
            measure_pairs(load, 64, 64, 1, 1)


def test_localcorr_has_no_column_on_a_cpu():
    assert localcorr_volume(CPU) is None


@pytest.mark.gpu
def test_localcorr_computes_what_ours_does_but_for_the_mean():
    pytest.importorskip("localcorr")
    first, second = features((2, 33, 18, 20), "cuda", torch.float32)
    theirs = localcorr_volume(first.device)
    assert theirs is not None
    volume = theirs(first, second).flatten(1, 2) / first.shape[1]
    assert relative_error(volume, cost_volume(first, second)) < 1e-5


# the command


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers_in(part)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def test_json_holds_every_size_and_batch_and_level():
    result = invoke(*SMALL, "--size", "48x80", "--batch", 1, "--batch", 2, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    summary = json.loads(result.stdout)
    sizes = [(row["height"], row["width"], row["batch"]) for row in summary["pairs"]]
    assert sizes == [(64, 64, 1), (64, 64, 2), (48, 80, 1), (48, 80, 2)]
    assert [(part["height"], part["width"]) for part in summary["cost_volume"]] == [
        (64, 64), (48, 80),
    ]  # fmt: skip
    for part in summary["cost_volume"]:
        assert [row["level"] for row in part["levels"]] == [6, 5, 4, 3, 2]
        assert [row["plain_torch_us"] for row in part["levels"]] == [None] * 5  # ours is just that
    assert (summary["device"], summary["gpu"], summary["video"]) == ("cpu", None, None)
    assert (summary["precision"], summary["weights"], summary["repeats"]) == ("fp32", "default", 2)
    numbers = numbers_in(summary)
    # Three of machine, scale and repeats; of each of 4 pairs height, width, batch, 2 times 2, 2
    # rates, and the process' memory; of each of 2 sizes height, width, and of 5 levels 4 and 2
    # times 2.
    assert len(numbers) == 3 + 4 * (3 + 4 + 2 + 1) + 2 * (2 + 5 * (4 + 4))
    assert all(math.isfinite(number) and number > 0 for number in numbers)


def test_a_person_gets_tables_and_quiet_is_quiet():
    result = invoke(*SMALL)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("CPU")
    assert lines[0].endswith("fp32, network scale 1, weights default, 2 calls each")
    assert any(line.split()[:2] == ["64x64", "1"] for line in lines)
    assert "196 x 1 x 1" in result.stdout
    assert "localcorr" not in result.stdout
    assert "plain" not in result.stdout
    assert "GPU" not in result.stdout
    quiet = invoke(*SMALL, "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")


def test_levels_are_of_what_the_network_sees():
    result = invoke(*SMALL, "--network-scale", 2, "--json")
    (part,) = json.loads(result.stdout)["cost_volume"]
    assert (part["height"], part["width"]) == (64, 64)  # of the images
    assert [(row["height"], row["width"]) for row in part["levels"]] == [
        (size, size) for size in (2, 4, 8, 16, 32)
    ]


def test_the_stages_of_a_video_leave_nothing_behind(frames, tmp_path):
    out = tmp_path / "new" / "out"
    out.parent.mkdir()
    result = invoke(frames, *SMALL, "--output", out, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    stages = json.loads(result.stdout)["video"]
    assert (stages["path"], stages["frames"]) == (str(frames), 3)
    assert (stages["height"], stages["width"]) == (64, 64)
    assert stages["slowest"] in ("decode", "network", "write")
    numbers = numbers_in(stages)
    assert len(numbers) == 3 + 3 * 3 + 2
    assert all(math.isfinite(number) and number > 0 for number in numbers)
    assert list(out.parent.iterdir()) == []
    assert len(list(frames.iterdir())) == 3


def test_of_a_video_only_its_stages_are_measured_unless_more_is_asked_for(frames):
    for options, sizes in [([], []), (["--batch", 2], [(436, 1024, 2)])]:
        small = ["--device", "cpu", "--repeats", 1, "--quiet", "--json"]
        summary = json.loads(invoke(frames, *small, *options).stdout)
        assert [(row["height"], row["width"], row["batch"]) for row in summary["pairs"]] == sizes
        assert len(summary["cost_volume"]) == len(sizes)
        assert summary["video"]["frames"] == 3
    result = invoke(frames, "--device", "cpu", "--repeats", 1)
    assert [line.split()[0] for line in result.stdout.splitlines()[3:7]] == [
        "stage", "decode", "network", "write",
    ]  # fmt: skip


def test_a_folder_that_was_there_stays_with_what_is_in_it(frames, tmp_path):
    out = tmp_path / "out"
    assert invoke(frames, *SMALL, "--output", out, "--quiet").exit_code == 0
    assert list(out.iterdir()) == []
    (out / "notes.txt").touch()
    assert invoke(frames, *SMALL, "--output", out, "--quiet").exit_code == 0
    assert list(out.iterdir()) == [out / "notes.txt"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_frame_that_breaks_between_the_stages_is_told_without_flows_that_are_removed(
    tmp_path, is_there
):
    folder, out = tmp_path / "frames", tmp_path / "out"
    folder.mkdir()
    if is_there:
        out.mkdir()
    for index, image in enumerate(textured_pairs(6, 64, 64)[0]):
        write_image(folder / f"{index}.png", image)
    decoded = video.decode(folder)
    (folder / "4.png").write_bytes(b"")
    with pytest.raises(PwcFlowError) as caught:
        video.measure_stages(decoded, FlowEstimator(device="cpu"), out, 1)
    assert str(caught.value).startswith(f"{folder / '4.png'} ")
    assert "kept" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == [folder, *([out] if is_there else [])]
    assert not is_there or list(out.iterdir()) == []


@pytest.mark.parametrize("size", ["436", "0x64", "64x", "64x64x3", "-64x64", "1e2x64", "999999x1"])
def test_a_size_is_height_x_width(size):
    result = invoke(f"--size={size}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "such as 436x1024" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("--batch", 0),
        ("--batch", 65537),
        ("--batch", 10**22),
        ("--repeats", 0),
        ("--precision", "fp8"),
        ("--output", "out"),
        ("a", "b"),
    ],
    ids=str,
)
def test_other_mistakes_of_usage_exit_with_2(args):
    assert invoke(*args).exit_code == 2


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        (("missing.mp4",), ("there is no file missing.mp4",)),
        (("text.mp4",), ("text.mp4",)),
        (("one",), ("one has one frame only", "needs two")),
        (("frames", "--output", "text.mp4"), ("text.mp4 is a file",)),
        (("--weights", "missing.pt"), ("missing.pt",)),
        (("--device", "tpu"), ("'tpu' is unknown",)),
    ],
    ids=str,
)
def test_an_input_that_cannot_be_used_is_told_in_one_line(
    frames, tmp_path, monkeypatch, args, texts
):
    monkeypatch.chdir(tmp_path)
    Path("text.mp4").write_text("not what its name says\n")
    Path("one").mkdir()
    write_image(Path("one/0.png"), np.zeros((64, 64, 3), np.uint8))
    assert_one_error_line(invoke("--size=64x64", *args), *texts)


@pytest.mark.parametrize("name", ["-", "camera:0", "fifo"])
def test_what_cannot_be_read_twice_is_refused_before_it_is_read(
    frames, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    if name == "fifo":
        if not hasattr(os, "mkfifo"):
            pytest.skip("there are no FIFOs here")
        os.mkfifo(name)
    images = b"".join(path.read_bytes() for path in sorted(frames.iterdir()))
    result = CliRunner().invoke(app, ["bench", name, *SMALL], input=images)
    what = "standard input" if name == "-" else name
    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        f"error: {what} cannot be measured: a video is read twice, and to its end; give a video "
        "file or a folder of frames\n",
    )


def test_frames_of_mixed_depths_are_told_in_one_line(frames):
    write_image(frames / "3.png", np.zeros((64, 64, 3), np.uint16))
    result = invoke(frames, *SMALL)
    assert_one_error_line(result, "3.png holds 16-bit integers", "hold 8-bit integers")


def test_flows_that_do_not_fit_on_the_disk_are_not_begun(frames, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")(1000, 0, 1000)
    monkeypatch.setattr(video.shutil, "disk_usage", lambda path: usage)
    result = invoke(frames, *SMALL, "--output", tmp_path / "new" / "out")
    assert_one_error_line(result, "need 0.0 GB", "--output DIR")
    assert sorted(tmp_path.iterdir()) == [frames, tmp_path / "out"]


def test_help_needs_no_torch(tmp_path):
    for name in ("torch", "cupy", "cv2"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is blocked')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "pwcflow", "bench"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pwcflow bench " in done.stdout.split("Examples:")[1]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: PyTorch cannot be imported")
    assert done.stderr.count("\n") == 1


def test_the_automatic_precision_is_told_as_what_it_was_here():
    result = invoke(*SMALL, "--precision", "auto", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    expected = find_precision("auto", torch.device("cpu"))
    assert json.loads(result.stdout)["precision"] == expected
