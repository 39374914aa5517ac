"""Runs that are killed, interrupted or stopped by a full disk, and the run that goes on."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import OutputError, PwcFlowError
from pwcflow.flow_file import read_flow, write_flow
from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.pipeline.many_videos import estimate_videos
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video.find import find_videos
from tests import many_run
from tests.command_line import invoke, make_video, start, wait_for
from tests.flow_samples import HERE

REPOSITORY = Path(__file__).parents[1]
KILLS = int(os.environ.get("PWCFLOW_KILLS", "12"))
FLOWS_PER_KILL = 30
VIDEOS = 8
WIDTH, HEIGHT = 64, 48

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


def frames_folder(folder, levels):
    folder.mkdir(parents=True)
    for number, level in enumerate(levels):
        write_image(folder / f"{number:04d}.png", np.full((HEIGHT, WIDTH, 3), level, np.uint8))
    return folder


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run(estimator, source, folder, **options):
    return estimate_video(estimator.load, source, VideoOutputs(folder=folder, **options))


# one video


def test_a_second_run_finds_that_all_is_done(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [1, 2, 3])
    outputs = {"viz": tmp_path / "viz.avi"}
    first = run(estimator, source, tmp_path / "flows", **outputs)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    second = run(estimator, source, tmp_path / "flows", **outputs)
    assert len(estimator.encoded) == 3
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")} == before
    assert (second.pop("outcome"), second.pop("reason")) == ("skipped", "it is complete")
    assert first.pop("outcome") == "done"
    assert (first.pop("flows_kept"), second.pop("flows_kept")) == (0, 2)
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


@pytest.mark.parametrize("kept", [1, 2, 4])
def test_a_run_goes_on_behind_the_last_flow(tmp_path, estimator, kept):
    levels = [10, 20, 30, 40, 50, 60]
    source = frames_folder(tmp_path / "frames", levels)
    run(estimator, source, tmp_path / "whole")
    estimator.fails_at = kept
    with pytest.raises(PwcFlowError, match="no flow here"):
        run(estimator, source, tmp_path / "flows")
    assert json.loads((tmp_path / "flows/pwcflow.json").read_bytes())["flows"] == kept
    estimator.encoded.clear()
    estimator.fails_at = None
    (tmp_path / "flows/.0123456789abcdef.flo").touch()  # as a kill leaves it
    (tmp_path / "flows/.pwcflow.lock").touch()
    summary = run(estimator, source, tmp_path / "flows")
    assert (summary["flows"], summary["flows_kept"]) == (5, kept)
    assert estimator.encoded == levels[kept:]
    assert contents(tmp_path / "flows") == contents(tmp_path / "whole")


def test_files_that_no_run_numbers_so_are_left_alone(tmp_path, estimator):
    source, folder = frames_folder(tmp_path / "frames", [1, 2, 3, 4]), tmp_path / "flows"
    run(estimator, source, folder)
    others = [folder / name for name in ("5.flo", "20240101.flo", "0000002.flo")]
    for other in others:
        other.write_text("precious")
    (folder / "000002.flo").unlink()
    assert run(estimator, source, folder)["flows_kept"] == 2
    assert [other.read_text() for other in others] == ["precious"] * 3


def test_a_colour_video_that_was_cut_off_is_made_again(tmp_path, estimator):
    source, folder = frames_folder(tmp_path / "frames", [1, 2, 3, 4]), tmp_path / "flows"
    viz = tmp_path / "viz.mp4"
    run(estimator, source, folder, viz=viz)
    whole = viz.read_bytes()
    assert run(estimator, source, folder, viz=viz)["outcome"] == "skipped"
    for damaged in (b"", whole[: len(whole) // 2]):
        viz.write_bytes(damaged)
        assert run(estimator, source, folder, viz=viz)["outcome"] == "done"
        assert viz.read_bytes() == whole


def damage(path):
    path.write_bytes(path.read_bytes()[:-1])


def smaller(path):
    write_flow(path, np.zeros((10, 10, 2), np.float32))


def transposed(path):
    write_flow(path, np.zeros((WIDTH, HEIGHT, 2), np.float32))


@pytest.mark.parametrize(
    ("change", "number"),
    [
        *((change, number) for change in (Path.unlink, damage, smaller) for number in (0, 2, 4)),
        (transposed, 0),
    ],
)
def test_flows_that_cannot_be_used_are_computed_again(tmp_path, estimator, change, number):
    levels = [10, 20, 30, 40, 50, 60]
    source = frames_folder(tmp_path / "frames", levels)
    run(estimator, source, tmp_path / "flows")
    before = contents(tmp_path / "flows")
    change(tmp_path / f"flows/{number:06d}.flo")
    estimator.encoded.clear()
    summary = run(estimator, source, tmp_path / "flows")
    assert contents(tmp_path / "flows") == before
    assert (summary["outcome"], summary["flows_kept"]) == ("done", number)
    assert estimator.encoded == levels[number:]


def test_files_that_were_only_touched_stay_as_they_are(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [10, 20, 30])
    run(estimator, source, tmp_path / "flows")
    (tmp_path / "flows/000001.flo").touch()
    assert run(estimator, source, tmp_path / "flows")["outcome"] == "skipped"


def test_a_colour_video_is_made_of_the_flows_that_are_there(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [10, 20, 30, 40, 50])
    run(estimator, source, tmp_path / "whole", viz=tmp_path / "whole.avi")
    estimator.fails_at = 2
    with pytest.raises(PwcFlowError):
        run(estimator, source, tmp_path / "flows", viz=tmp_path / "a.avi")
    estimator.fails_at = None
    estimator.encoded.clear()
    run(estimator, source, tmp_path / "flows", viz=tmp_path / "a.avi")
    assert estimator.encoded == [30, 40, 50]
    assert (tmp_path / "a.avi").read_bytes() == (tmp_path / "whole.avi").read_bytes()
    estimator.encoded.clear()
    summary = run(estimator, source, tmp_path / "flows", viz=tmp_path / "b.avi")
    assert summary["outcome"] == "done"
    assert len(estimator.encoded) <= 1
    assert (tmp_path / "b.avi").read_bytes() == (tmp_path / "whole.avi").read_bytes()


def test_flows_of_a_broken_video_are_computed_once(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [10, 20, 30])
    (source / "0003.png").write_bytes((source / "0002.png").read_bytes()[:-20])
    for encoded in ([10, 20, 30], [30]):
        with pytest.raises(PwcFlowError, match=r"cut short.*before: 2 flows in"):
            run(estimator, source, tmp_path / "flows")
        assert estimator.encoded == encoded
        estimator.encoded.clear()


def other_weights(source, estimator):
    estimator.weights.sha256 = "1" * 64
    return "holds flows with the weights fake, now fake of SHA-256 000000000000, now 111111111111"


def renamed_weights(source, estimator):
    estimator.weights.sha256, estimator.weights.name = "1" * 64, "other"
    return "holds flows with the weights fake, now other"


def other_precision(source, estimator):
    estimator.precision = "fp16"
    return "holds flows in fp32, now fp16"


def changed_input(source, estimator):
    write_image(source / "0001.png", np.full((HEIGHT, WIDTH, 3), 77, np.uint8))
    os.utime(source / "0001.png", (1, 1))
    return "holds flows of .*frames before it changed"


@pytest.mark.parametrize("change", [other_weights, renamed_weights, other_precision, changed_input])
@pytest.mark.parametrize("complete", [True, False])
def test_what_another_run_made_is_not_gone_on_with(tmp_path, estimator, change, complete):
    source = frames_folder(tmp_path / "frames", [10, 20, 30])
    if complete:
        run(estimator, source, tmp_path / "flows")
    else:
        estimator.fails_at = 1
        with pytest.raises(PwcFlowError):
            run(estimator, source, tmp_path / "flows")
        estimator.fails_at = None
    before = contents(tmp_path / "flows")
    difference = change(source, estimator)
    with pytest.raises(OutputError, match=difference + r".*; give --overwrite to remove them, or"):
        run(estimator, source, tmp_path / "flows")
    assert contents(tmp_path / "flows") == before
    summary = run(estimator, source, tmp_path / "flows", overwrite=True)
    assert (summary["flows"], summary["flows_kept"]) == (2, 0)
    assert run(estimator, source, tmp_path / "flows")["outcome"] == "skipped"


def test_a_run_may_go_on_with_another_device(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [10, 20, 30])
    estimator.fails_at = 1
    with pytest.raises(PwcFlowError):
        run(estimator, source, tmp_path / "flows")
    estimator.fails_at, estimator.device = None, "cuda:0"
    run(estimator, source, tmp_path / "flows")
    assert json.loads((tmp_path / "flows/pwcflow.json").read_bytes())["device"] == "cpu, cuda:0"


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_the_same_command_goes_on_after_an_interruption(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    make_video(Path("clip.mp4"), 16)
    command = ["video", "clip.mp4", "--viz", "out/v.mp4", "--device", "cpu", "--flo"]
    with start(*command, "out") as running:
        wait_for(tmp_path / "out" / "000002.flo", running)
        running.send_signal(getattr(signal, name))
        _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert stderr.endswith("; the same command goes on from there\n")
    partial = contents(Path("out"))
    assert json.loads(partial["pwcflow.json"])["complete"] is False
    assert invoke(*command, "out").exit_code == 0
    command[3] = "whole/v.mp4"
    assert invoke(*command, "whole").exit_code == 0
    assert contents(Path("out")) == contents(Path("whole"))
    again = invoke(*command, "whole")
    assert (again.exit_code, again.stdout.endswith(", complete before\n")) == (0, True)


def test_a_full_disk_ends_all_and_the_same_run_goes_on(tmp_path, estimator):
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", "size=580k", "tmpfs", str(disk)]
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no disk can be mounted here")
    try:
        # 28 KB a flow: room for a's 11, and for 9 of b's, of which four are written at a time
        for name in ("a", "b", "c"):
            frames_folder(tmp_path / "clips" / name, range(12))
        videos = find_videos([str(tmp_path / "clips")], [], [])
        outputs = VideoOutputs(folder=disk)
        with pytest.raises(OutputError, match=r"no space left.*; 1 of 3 videos are done; the same"):
            estimate_videos(estimator.load, videos, outputs)
        subprocess.run(["mount", "-o", "remount,size=9M", str(disk)], check=True)
        summary = estimate_videos(estimator.load, videos, outputs)
        assert (summary["done"], summary["skipped"]) == (2, 1)
        assert summary["results"][1]["flows_kept"] > 0
        estimate_videos(estimator.load, videos, VideoOutputs(folder=tmp_path / "whole"))
        assert contents(disk) == contents(tmp_path / "whole")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# other formats


FORMATS = [suffix for suffix in (".png", ".npz", ".npy", ".exr", ".flo5") if suffix in HERE]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_run_in_another_format_goes_on_and_is_found_done(tmp_path, estimator, suffix):
    source = frames_folder(tmp_path / "frames", [10, 20, 30, 40, 50])
    run(estimator, source, tmp_path / "whole", suffix=suffix)
    estimator.fails_at = 2
    with pytest.raises(PwcFlowError, match="no flow here"):
        run(estimator, source, tmp_path / "flows", suffix=suffix)
    estimator.fails_at = None
    summary = run(estimator, source, tmp_path / "flows", suffix=suffix)
    assert (summary["flows"], summary["flows_kept"]) == (4, 2)
    names = [path.name for path in sorted((tmp_path / "flows").iterdir())]
    assert names == [*(f"{number:06d}{suffix}" for number in range(4)), "pwcflow.json"]
    assert np.all(read_flow(tmp_path / f"flows/000003{suffix}") == (40, 50))
    assert run(estimator, source, tmp_path / "flows", suffix=suffix)["outcome"] == "skipped"
    (tmp_path / f"flows/000001{suffix}").write_bytes(b"")
    again = run(estimator, source, tmp_path / "flows", suffix=suffix)
    assert (again["outcome"], again["flows_kept"]) == ("done", 1)


def test_flows_of_another_format_give_way_only_when_asked(tmp_path, estimator):
    source, folder = frames_folder(tmp_path / "frames", [1, 2, 3]), tmp_path / "flows"
    run(estimator, source, folder, suffix=".png")
    with pytest.raises(OutputError, match=r"holds flows as \.png, now as \.flo; give --overwrite"):
        run(estimator, source, folder)
    run(estimator, source, folder, overwrite=True)
    assert sorted(path.suffix for path in folder.iterdir()) == [".flo", ".flo", ".json"]
    with pytest.raises(OutputError, match=r"as \.flo, now as \.npz"):
        run(estimator, source, folder, suffix=".npz")


@pytest.mark.parametrize("overwrite", [False, True])
def test_images_that_are_named_as_flows_would_be_are_not_overwritten(
    tmp_path, estimator, overwrite
):
    frames = frames_folder(tmp_path / "frames", [1, 2, 3])
    other = frames_folder(tmp_path / "other", [1, 2])
    for path in sorted(other.iterdir()):
        path.rename(other / f"{int(path.stem):06d}.png")
    before = contents(tmp_path)
    with pytest.raises(OutputError, match=r"000000\.png is named as a flow would be"):
        run(estimator, frames, other, suffix=".png", overwrite=overwrite)
    with pytest.raises(OutputError, match="it would be taken for a frame of"):
        run(estimator, frames, frames, suffix=".png", overwrite=overwrite)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("source", ["frames", "frames/%04d.png", "frames/*.png"])
def test_nothing_is_written_that_would_be_a_frame_the_next_time(
    tmp_path, monkeypatch, estimator, source
):
    monkeypatch.chdir(tmp_path)
    frames_folder(Path("frames"), [1, 2, 3])
    Path("link").symlink_to("frames")
    before = contents(tmp_path)
    for outputs in (
        VideoOutputs(folder=Path("link"), suffix=".png"),
        VideoOutputs(viz=Path("link/0001.webp")),
    ):
        if source.endswith("*.png") and outputs.viz:
            continue  # which is no .png
        with pytest.raises(
            OutputError, match=f"it would be taken for a frame of {re.escape(source)}"
        ):
            estimate_video(estimator.load, Path(source), outputs)
        assert contents(tmp_path) == before
    flows = VideoOutputs(folder=Path("frames"), viz=Path("frames/flow.gif"))
    for outcome in ("done", "skipped"):
        assert estimate_video(estimator.load, Path(source), flows)["outcome"] == outcome


# many videos, killed


def begin(*args, stdin=subprocess.DEVNULL):
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.many_run", *map(str, args)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert running.stdout.readline() == "begun\n", running.communicate()
    return running


def test_kills_at_any_moment_lose_nothing(tmp_path):
    chance = random.Random(5)
    flows = KILLS * FLOWS_PER_KILL
    for number in range(VIDEOS):
        levels = [chance.randrange(256) for _ in range(flows // VIDEOS + 1)]
        frames_folder(tmp_path / "clips" / f"{number}", levels)
    out = tmp_path / "out"
    kills = 0
    for left in range(KILLS, 0, -1):
        missing = flows - sum(1 for _ in out.rglob("*.flo"))
        with begin(out, tmp_path / "clips") as running:
            share = 3 * max(missing, FLOWS_PER_KILL) / left
            time.sleep(chance.uniform(0, share * many_run.SECONDS_PER_FLOW))
            running.kill()
            running.communicate()
        kills += running.returncode != 0
    assert kills > 0.8 * KILLS
    reached = sum(1 for _ in out.rglob("*.flo"))
    print(f"{kills} kills, {reached} of {flows} flows")
    with begin(out, tmp_path / "clips") as running:
        stdout, stderr = running.communicate()
    assert (running.returncode, stderr) == (0, "")
    assert json.loads(stdout)["failed"] == 0
    with begin(tmp_path / "whole", tmp_path / "clips") as running:
        running.communicate()
    whole = contents(tmp_path / "whole")
    assert len(whole) == VIDEOS * (flows // VIDEOS + 2)
    assert contents(out) == whole


def test_two_processes_share_the_videos_of_a_folder(tmp_path):
    for number in range(6):
        frames_folder(tmp_path / "clips" / f"{number}", range(30))
    out = tmp_path / "out"
    given, piped = (out, tmp_path / "clips"), {"stdin": subprocess.PIPE}
    with begin(*given, **piped) as one, begin(*given, **piped) as other:
        for running in (one, other):  # which are both ready
            running.stdin.write("\n")
            running.stdin.flush()
        summaries = [json.loads(running.communicate()[0]) for running in (one, other)]
    done = [
        result["video"]
        for summary in summaries
        for result in summary["results"]
        if result["outcome"] == "done"
    ]
    assert sorted(done) == sorted(str(tmp_path / "clips" / f"{number}") for number in range(6))
    assert all(summary["failed"] == 0 for summary in summaries)
    assert any(
        "another process" in result.get("reason", "")
        for summary in summaries
        for result in summary["results"]
    )
    with begin(tmp_path / "whole", tmp_path / "clips") as running:
        running.communicate()
    assert contents(out) == contents(tmp_path / "whole")
    first = read_flow(out / "0" / "000000.flo")
    assert first[0, 0].tolist() == list(next(pairwise(range(30))))
