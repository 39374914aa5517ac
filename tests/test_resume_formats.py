"""Runs whose flows are in other formats than .flo, images among them, and the run after them."""

import re
from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import OutputError, PwcFlowError
from pwcflow.flow_file import read_flow
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from tests.flow_samples import HERE
from tests.repeated_runs import contents, frames_folder, run

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
