"""The error that the style `error` shows is told as a number, too, worked out by hand here."""

import json

import numpy as np
import pytest

from pwcflow.evaluation import end_point_error
from pwcflow.flow_file import read_flow, write_flow
from pwcflow.image_file import write_image
from pwcflow.pipeline.visualize import visualize_as_video, visualize_file, visualize_folder
from pwcflow.visualization import Look
from pwcflow.visualization.scene_files import SceneFiles
from tests.command_line import invoke
from tests.flow_folders import flow_with, tree_of_flows
from tests.gray_frames import names_in
from tests.moving_textures import moved_pair

LOOK = Look(style="error", legend="none")
UNKNOWN = (np.nan, np.nan)


def told(summary):
    return summary["end_point_error_px"], summary["outliers"]


def test_the_error_of_a_flow_is_that_of_all_pixels_known_in_both(tmp_path):
    write_flow(tmp_path / "a.flo", flow_with((3, 4), (0, 1), UNKNOWN, (9, 9)))
    write_flow(tmp_path / "t.flo", flow_with((0, 0), (0, 0), (0, 0), UNKNOWN))
    summary = visualize_file(
        tmp_path / "a.flo",
        tmp_path / "a.png",
        look=LOOK,
        beside=SceneFiles(truth=tmp_path / "t.flo"),
    )
    # Of 24 pixels 22: 5 px, which is an outlier, 1 px, and 20 without an error.
    assert told(summary) == (pytest.approx((5 + 1) / 22), pytest.approx(1 / 22))


@pytest.fixture
def truth(tmp_path):
    """For `tree_of_flows`, whose first pixels are 2, 8 and 4 px to the right."""
    for place in ("a/000000.npy", "a/000001.npy", "b/c/000000.flo"):
        path = tmp_path / "truth" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        write_flow(path, flow_with((2, 0), (1, 0)))
    return tmp_path / "truth"


def test_the_error_of_many_flows_is_the_mean_of_theirs(tmp_path, truth):
    flows = tree_of_flows(tmp_path / "flows")
    beside = SceneFiles(truth=truth)
    summary = visualize_folder(flows, tmp_path / "out", look=LOOK, beside=beside)
    # One pixel of 24 each is off by 0, 6 and 2 px, of which 6 is an outlier.
    assert told(summary) == (
        pytest.approx((0 / 24 + 6 / 24 + 2 / 24) / 3),
        pytest.approx((0 + 1 / 24 + 0) / 3),
    )


def test_flows_count_alike_whatever_their_sizes_and_those_of_unknown_truth_do_not(tmp_path):
    for name, size, error in (("a", (4, 6), 6), ("b", (8, 6), 1), ("c", (4, 6), np.nan)):
        flow = np.zeros((*size, 2), np.float32)
        for folder in ("flows", "truth"):
            (tmp_path / folder).mkdir(exist_ok=True)
            write_flow(tmp_path / folder / f"{name}.flo", flow)
            flow[..., 1] = error
    summary = visualize_folder(
        tmp_path / "flows", tmp_path / "out", look=LOOK, beside=SceneFiles(truth=tmp_path / "truth")
    )
    assert told(summary) == (pytest.approx((6 + 1) / 2), pytest.approx((1 + 0) / 2))
    assert names_in(tmp_path / "out") == ["a.png", "b.png", "c.png"]


def test_a_video_has_the_error_of_its_flows(tmp_path, truth):
    flows = tree_of_flows(tmp_path / "flows") / "a"
    beside = SceneFiles(truth=truth / "a")
    summary = visualize_as_video(flows, tmp_path / "v.avi", look=LOOK, beside=beside)
    assert told(summary) == (pytest.approx((0 + 6 / 24) / 2), pytest.approx((0 + 1 / 24) / 2))


# the commands


def test_visualize_tells_the_error(here):
    write_flow(here / "a.flo", flow_with(*[(6, 8)] * 6))  # 10 px in a quarter of the pixels
    write_flow(here / "t.flo", flow_with((0, 0)))
    command = ("visualize", "a.flo", "-o", "a.png", "--style", "error", "--truth", "t.flo")
    result = invoke(*command)
    line = "a.png: 1 image, mean end-point error 2.5 px, 25.0 % outliers\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, line, "")
    summary = json.loads(invoke(*command, "--json").stdout)
    assert (summary["end_point_error_px"], summary["outliers"]) == (2.5, 0.25)


def test_a_truth_that_is_known_nowhere_has_no_error(here):
    write_flow(here / "a.flo", flow_with((6, 8)))
    write_flow(here / "t.flo", np.full((4, 6, 2), np.nan, np.float32))
    command = ("visualize", "a.flo", "-o", "a.png", "--style", "error", "--truth", "t.flo")
    result = invoke(*command)
    line = "a.png: 1 image, no pixel whose error is known\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, line, "")
    summary = json.loads(invoke(*command, "--json").stdout)
    assert told(summary) == (None, None)
    assert summary["flows_measured"] == 0


def test_it_is_told_how_many_flows_have_an_error(here):
    for name, error in (("a", 10), ("b", 4), ("c", np.nan)):
        flow = np.zeros((4, 6, 2), np.float32)
        for folder in ("flows", "truth"):
            (here / folder).mkdir(exist_ok=True)
            write_flow(here / folder / f"{name}.flo", flow)
            flow[..., 1] = error
    result = invoke("visualize", "flows", "-o", "out", "--style", "error", "--truth", "truth")
    line = "out: 3 images, mean of 2 of these: end-point error 7 px, 100.0 % outliers\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, line, "")


def test_estimate_tells_the_error_of_what_it_found(here):
    for name, image in zip(("1.png", "2.png"), moved_pair(64, 64, 2, 1), strict=True):
        write_image(here / name, image)
    truth = np.full((64, 64, 2), (2, 1), np.float32)
    write_flow(here / "t.flo", truth)
    command = (
        "estimate", "1.png", "2.png", "-o", "a.flo", "--viz", "a.png", "--style", "error",
        "--truth", "t.flo", "--device", "cpu",
    )  # fmt: skip
    summary = json.loads(invoke(*command, "--json").stdout)
    error = end_point_error(read_flow(here / "a.flo"), truth)
    assert summary["end_point_error_px"] == pytest.approx(error)
    assert summary["outliers"] == 0
    line = invoke(*command).stdout
    assert line.endswith(f" px, mean end-point error {error:.4g} px, 0.0 % outliers\n")
