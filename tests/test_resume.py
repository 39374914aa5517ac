"""A run of one video that was interrupted, changed or finished, and the run that goes on."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import OutputError, PwcFlowError
from pwcflow.flow_file import write_flow
from pwcflow.image_file import write_image
from tests.command_line import invoke, make_video, start, wait_for
from tests.repeated_runs import HEIGHT, WIDTH, contents, damage, frames_folder, run

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


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


def test_frames_of_flows_that_stay_are_not_decoded_again(tmp_path, estimator):
    source = frames_folder(tmp_path / "frames", [10, 20, 30, 40, 50, 60])
    run(estimator, source, tmp_path / "whole")
    estimator.fails_at = 3
    with pytest.raises(PwcFlowError, match="no flow here"):
        run(estimator, source, tmp_path / "flows")
    estimator.fails_at = None
    third = sorted(source.iterdir())[2]
    times = third.stat().st_atime_ns, third.stat().st_mtime_ns
    third.write_bytes(bytes(third.stat().st_size))  # nobody could tell, but who decodes it
    os.utime(third, ns=times)
    assert run(estimator, source, tmp_path / "flows")["flows_kept"] == 3
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


def other_scale(source, estimator):
    estimator.network_scale = 1.5
    return "holds flows at the network scale 1, now 1.5"


def scale_not_recorded(source, estimator):
    record = source.parent / "flows/pwcflow.json"
    told = json.loads(record.read_bytes())
    assert told.pop("network_scale") == 1.0  # as before there was a choice
    record.write_text(json.dumps(told))
    estimator.network_scale = 1.5
    return "holds flows at the network scale 1, now 1.5"


def changed_input(source, estimator):
    write_image(source / "0001.png", np.full((HEIGHT, WIDTH, 3), 77, np.uint8))
    os.utime(source / "0001.png", (1, 1))
    return "holds flows of .*frames before it changed"


@pytest.mark.parametrize(
    "change",
    [
        other_weights,
        renamed_weights,
        other_precision,
        other_scale,
        scale_not_recorded,
        changed_input,
    ],
)
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
    difference = change(source, estimator)
    before = contents(tmp_path / "flows")
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
