"""Runs over many videos that are killed, stopped by a full disk or share a folder: all goes on."""

import json
import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from pwcflow.errors import OutputError
from pwcflow.flow_file import read_flow
from pwcflow.pipeline.many_videos import estimate_videos
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video.find import find_videos
from tests import many_run
from tests.repeated_runs import contents, frames_folder

REPOSITORY = Path(__file__).parents[1]
KILLS = int(os.environ.get("PWCFLOW_KILLS", "12"))
FLOWS_PER_KILL = 30
VIDEOS = 8


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
