"""Many videos, each into its own place, and none is the others' problem."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import DeviceError, OutputError
from pwcflow.flow_file import read_flow
from pwcflow.image_file import write_image
from pwcflow.locks import LOCK_NAME, InUseError, locked_folder
from pwcflow.pipeline.many_videos import estimate_videos
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video.find import find_videos
from tests.command_line import files_below, invoke, make_video, start, touch, wait_for
from tests.fake_estimator import FakeEstimator

REPOSITORY = Path(__file__).parents[1]


def frames_folder(folder, levels=(1, 2, 3)):
    folder = Path(folder)
    folder.mkdir(parents=True)
    for number, level in enumerate(levels):
        write_image(folder / f"{number}.png", np.full((20, 24, 3), level, np.uint8))
    return folder


def test_each_video_has_its_own_folder_and_the_weights_are_loaded_once(here, estimator):
    frames_folder("clips/one", [1, 2, 3])
    frames_folder("clips/日本 2/two", [7, 9])
    outputs = VideoOutputs(folder=Path("out"), viz=Path("viz"))
    summary = estimate_videos(estimator.load, find_videos(["clips"], [], []), outputs)
    assert files_below(Path("out")) == [
        *("one/000000.flo", "one/000001.flo", "one/pwcflow.json"),
        *("日本 2/two/000000.flo", "日本 2/two/pwcflow.json"),
    ]
    assert files_below(Path("viz")) == ["one/flow.mp4", "日本 2/two/flow.mp4"]
    assert read_flow(Path("out/日本 2/two/000000.flo"))[0, 0].tolist() == [7, 9]
    assert estimator.loads == 1
    assert [summary[name] for name in ("videos", "done", "skipped", "failed")] == [2, 2, 0, 0]
    again = estimate_videos(estimator.load, find_videos(["clips"], [], []), outputs)
    assert [again[name] for name in ("videos", "done", "skipped", "failed")] == [2, 0, 2, 0]


def test_colour_videos_alone_are_gone_on_with_too(here, estimator):
    for name in ("a", "b"):
        frames_folder(f"clips/{name}")
    videos = find_videos(["clips"], [], [])
    outputs = VideoOutputs(viz=Path("out"))
    estimate_videos(estimator.load, videos[:1], outputs)
    estimator.encoded.clear()
    summary = estimate_videos(estimator.load, videos, outputs)
    assert (summary["done"], summary["skipped"], len(estimator.encoded)) == (1, 1, 3)
    assert files_below(Path("out")) == [
        f"{name}/{file}" for name in "ab" for file in ("flow.mp4", "pwcflow.json")
    ]


def test_colour_videos_alone_beside_flows_of_another_format_leave_their_record(here, estimator):
    frames_folder("clips/a", [1, 2, 3])
    frames_folder("clips/b", [1, 2, 3])
    videos = find_videos(["clips"], [], [])
    flows, colours = VideoOutputs(folder=Path("out"), suffix=".png"), VideoOutputs(viz=Path("out"))
    for outputs, done in ((flows, 2), (colours, 2), (flows, 0), (colours, 0)):
        assert estimate_videos(estimator.load, videos, outputs)["done"] == done
    record = json.loads(Path("out/a/pwcflow.json").read_bytes())
    assert (record["suffix"], record["flows"]) == (".png", 2)


def test_colour_videos_that_are_asked_for_later_cost_no_flow(here, estimator):
    frames_folder("clips/a", [1, 2, 3])
    videos = find_videos(["clips"], [], [])
    estimate_videos(estimator.load, videos, VideoOutputs(folder=Path("out")))
    before = {path: path.read_bytes() for path in Path("out").rglob("*.flo")}
    estimate_videos(estimator.load, videos, VideoOutputs(viz=Path("out")))
    assert {path: path.read_bytes() for path in Path("out").rglob("*.flo")} == before
    assert Path("out/a/flow.mp4").exists()
    summary = estimate_videos(estimator.load, videos, VideoOutputs(folder=Path("out")))
    assert summary["skipped"] == 1
    estimator.precision = "fp16"
    summary = estimate_videos(estimator.load, videos, VideoOutputs(viz=Path("out")))
    assert "out/a holds flows in fp32, now fp16; give" in summary["results"][0]["reason"]
    estimate_videos(estimator.load, videos, VideoOutputs(viz=Path("out"), overwrite=True))
    assert files_below(Path("out")) == ["a/flow.mp4", "a/pwcflow.json"]


def test_a_broken_video_does_not_stop_the_rest(here, estimator):
    for name in ("a", "b", "d"):
        frames_folder(f"clips/{name}")
    Path("clips/b/1.png").write_bytes(Path("clips/b/1.png").read_bytes()[:-20])
    Path("clips/c.mp4").write_text("no video")
    videos = find_videos(["clips", "clips/missing.mp4"], [], [])
    summary = estimate_videos(estimator.load, videos, VideoOutputs(folder=Path("out")))
    assert [result["outcome"] for result in summary["results"]] == [
        "done", "failed", "failed", "done", "failed",
    ]  # fmt: skip
    assert (summary["done"], summary["failed"]) == (2, 3)
    reasons = [result["reason"] for result in summary["results"] if "reason" in result]
    assert "clips/b/1.png is cut short" in reasons[0]
    assert reasons[1].startswith("clips/c.mp4 holds no pictures")
    assert reasons[2].startswith("there is no file clips/missing.mp4")
    assert sorted(path.name for path in Path("out").iterdir()) == ["a", "d"]


def test_a_video_of_mixed_depths_does_not_stop_the_rest(here, estimator):
    for name in ("a", "b"):
        frames_folder(f"clips/{name}")
    write_image(Path("clips/a/3.png"), np.full((20, 24, 3), 4, np.uint16))
    outputs = VideoOutputs(folder=Path("out"))
    summary = estimate_videos(estimator.load, find_videos(["clips"], [], []), outputs)
    assert [result["outcome"] for result in summary["results"]] == ["failed", "done"]
    assert "clips/a/3.png holds 16-bit integers" in summary["results"][0]["reason"]
    flows = [f"{name}/00000{number}.flo" for name in "ab" for number in (0, 1)]
    assert [file for file in files_below(Path("out")) if file.endswith(".flo")] == flows


def test_a_video_that_takes_too_much_memory_does_not_stop_the_rest(here, estimator):
    class Small(FakeEstimator):
        def encode(self, image):
            if image.mean() == 77:
                raise RuntimeError("CUDA out of memory. Tried to allocate 90 GiB")
            return super().encode(image)

    frames_folder("clips/a", [77, 77])
    frames_folder("clips/b", [1, 2])
    outputs = VideoOutputs(folder=Path("out"))
    summary = estimate_videos(Small, find_videos(["clips"], [], []), outputs)
    assert (summary["done"], summary["failed"]) == (1, 1)
    assert summary["results"][0]["reason"].startswith("clips/a: the GPU has not enough memory")


def test_an_estimator_that_cannot_be_had_stops_all(here):
    frames_folder("clips/a")
    frames_folder("clips/b")
    loads = []

    def load():
        loads.append(1)
        raise DeviceError("no such device")

    with pytest.raises(DeviceError):
        estimate_videos(load, find_videos(["clips"], [], []), VideoOutputs(folder=Path("out")))
    assert len(loads) == 1
    assert not Path("out").exists()


def test_a_full_disk_stops_all(here):
    class Full(FakeEstimator):
        def decode(self, first, second):
            raise OutputError("no space left") from OSError(errno.ENOSPC, "no space left")

    for name in ("a", "b"):
        frames_folder(f"clips/{name}")
    with pytest.raises(OutputError, match="no space left; 0 of 2 videos are done; the same"):
        estimate_videos(Full, find_videos(["clips"], [], []), VideoOutputs(folder=Path("out")))


def test_a_video_that_another_process_is_at_is_passed_over(here, estimator):
    for name in ("a", "b"):
        frames_folder(f"clips/{name}")
    hold = (
        "import sys\nfrom pathlib import Path\nfrom pwcflow.locks import locked_folder\n"
        "with locked_folder(Path('out/a')):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", hold]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, env=env, **pipes) as other:
        assert other.stdout.readline() == "held\n"
        videos = find_videos(["clips"], [], [])
        summary = estimate_videos(estimator.load, videos, VideoOutputs(folder=Path("out")))
        assert (summary["done"], summary["skipped"]) == (1, 1)
        assert "out/a is being written by another process" in summary["results"][0]["reason"]
        other.kill()
    summary = estimate_videos(estimator.load, videos, VideoOutputs(folder=Path("out")))
    assert [result["outcome"] for result in summary["results"]] == ["done", "skipped"]
    assert not Path("out/a", LOCK_NAME).exists()


def test_a_lock_leaves_nothing_behind(here):
    twice = pytest.raises(InUseError, match="a/b/c is being written by another process")
    with locked_folder(Path("a/b/c")):
        with twice, locked_folder(Path("a/b/c")):
            pass
        assert Path("a/b/c", LOCK_NAME).exists()
    assert list(here.iterdir()) == []
    with locked_folder(Path("a/b/c")):
        touch("a/b/kept")
    assert files_below(here) == ["a/b/kept"]


MEMORY = """
import resource, sys
from pathlib import Path
from pwcflow.pipeline.many_videos import estimate_videos
from pwcflow.video.find import find_videos
from pwcflow.runs.video_outputs import VideoOutputs
from tests.fake_estimator import FakeEstimator

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

videos = find_videos(["clips"], [], [])
outputs = VideoOutputs(folder=Path("out"), viz=Path("out"))
estimate_videos(FakeEstimator, videos[:10], outputs)
before = peak()
estimate_videos(FakeEstimator, videos, outputs)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told in this unit on Linux")
def test_memory_does_not_grow_with_the_number_of_videos(here):
    for number in range(70):
        folder = frames_folder(f"clips/{number}", [1, 2])
        for path in folder.iterdir():
            write_image(path, np.zeros((240, 320, 3), np.uint8))
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], env=env, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert int(done.stdout) < 8 << 10  # KiB: less than a seventh of the flows


# the command


def test_the_command_does_many_videos(here):
    make_video(Path(make_folder("clips"), "a.mp4"), 3)
    make_video(Path(make_folder("clips/in"), "b.avi"), 2)
    Path("clips/broken.mp4").write_text("no video")
    command = ["video", "clips", "-o", "out", "--viz", "out", "--device", "cpu"]
    result = invoke(*command, "--json")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: clips/broken.mp4 holds no pictures")
    assert result.stderr.count("\n") == 1
    summary = json.loads(result.stdout)
    assert [summary[name] for name in ("videos", "done", "skipped", "failed")] == [3, 2, 0, 1]
    assert {result["video"]: result["outcome"] for result in summary["results"]} == {
        "clips/a.mp4": "done",
        "clips/broken.mp4": "failed",
        "clips/in/b.avi": "done",
    }
    assert files_below(Path("out")) == [
        *("a.mp4/000000.flo", "a.mp4/000001.flo", "a.mp4/flow.mp4", "a.mp4/pwcflow.json"),
        *("in/b.avi/000000.flo", "in/b.avi/flow.mp4", "in/b.avi/pwcflow.json"),
    ]
    Path("clips/broken.mp4").unlink()
    again = invoke(*command)
    assert (again.exit_code, again.stdout) == (
        0,
        "out and out: 2 videos, 0 done, 2 skipped, 0 failed\n",
    )


def make_folder(name):
    Path(name).mkdir()
    return name


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("video -o out", "give INPUT, or --list FILE"),
        ("video a.mp4 b.mp4 -o out.mp4", "-o out.mp4 is one video, but there are many"),
        ("video *.mp4 -o out --viz v.mp4", "--viz v.mp4 is one video, but there are many"),
    ],
)
def test_wrong_usage_of_many_videos(here, line, message):
    touch("a.mp4", "b.mp4")
    result = invoke(*line.split())
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_a_terminated_command_goes_on_where_it_was(here):
    for name in ("a", "b", "c"):
        make_video(Path(make_folder(name), "clip.mp4"), 8)
    command = ["video", "a", "b", "c", "-o", "out", "--device", "cpu"]
    with start(*command) as running:
        wait_for(here / "out/b/clip.mp4/000001.flo", running)
        running.terminate()
        stdout, stderr = running.communicate(timeout=60)
    assert (running.returncode, stdout) == (130, "")
    assert stderr == (
        "interrupted; 1 of 3 videos are done; the same command goes on with the rest\n"
    )
    result = invoke(*command, "--json")
    summary = json.loads(result.stdout)
    assert [one["outcome"] for one in summary["results"]] == ["skipped", "done", "done"]
    assert summary["results"][1]["flows_kept"] >= 2
    assert len(files_below(Path("out"))) == 3 * 8
