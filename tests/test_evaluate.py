"""The errors of an estimator, of pairs in a list and in data sets as they are unpacked."""

import json

import numpy as np
import pytest

from pwcflow import write_flow, write_image
from pwcflow.errors import PwcFlowError
from pwcflow.evaluation import end_point_error
from pwcflow.pipeline.evaluate import evaluate_pairs
from tests.command_line import invoke
from tests.moving_textures import estimator as network
from tests.moving_textures import moved_pair

SIZE = (32, 40)


def gray(path, level):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_image(path, np.full((*SIZE, 3), level, np.uint8))


def constant(path, u, v):
    path.parent.mkdir(parents=True, exist_ok=True)
    flow = np.empty((*SIZE, 2), np.float32)
    flow[:] = u, v
    write_flow(path, flow)


def manifest(folder, truths):
    """Write pairs of the gray levels 3 and 4, by data set and true flow, and a list of them."""
    lines = ["dataset,sequence,frame1,frame2,gt"]
    for number, (name, truth) in enumerate(truths):
        gray(folder / f"{number}/1.png", 3)
        gray(folder / f"{number}/2.png", 4)
        constant(folder / f"{number}/flow.flo", *truth)
        lines.append(f"{name},{number},{number}/1.png,{number}/2.png,{number}/flow.flo")
    (folder / "pairs.csv").write_text("\n".join(lines))
    return folder / "pairs.csv"


def test_a_list_gives_the_errors_of_each_of_its_data_sets(tmp_path, estimator):
    # The estimator says (3, 4): 5 px from (0, 0), 1 px from (3, 5), 10 px from (-3, -4).
    listed = manifest(tmp_path, [("a", (0, 0)), ("b", (-3, -4)), ("a", (3, 5))])
    summary = evaluate_pairs(estimator.load, [("manifest", listed)], progress=False)
    assert summary["scores"] == {
        "a": {"pairs": 2, "end_point_error_px": pytest.approx(3), "outliers": 0.5},
        "b": {"pairs": 1, "end_point_error_px": pytest.approx(10), "outliers": 1.0},
    }
    assert (summary["weights"], summary["network_scale"]) == ("fake", 1.0)


def test_mirrored_pairs_count_too_and_their_flow_is_turned(tmp_path, estimator):
    # The estimator says (3, 4) of all; the truths are (3, 4), (-3, 4), (3, -4) and (-3, -4).
    listed = manifest(tmp_path, [("a", (3, 4))])
    summary = evaluate_pairs(estimator.load, [("manifest", listed)], mirror=True, progress=False)
    score = {
        "pairs": 1,
        "end_point_error_px": pytest.approx((0 + 6 + 8 + 10) / 4),
        "outliers": 0.75,
    }
    assert (summary["scores"], summary["mirrored"]) == ({"a": score}, True)


def test_renderings_of_a_data_set_are_apart_and_several_sources_are_one_run(tmp_path, estimator):
    root = tmp_path / "MPI-Sintel/training"
    constant(root / "flow/alley_1/frame_0001.flo", 0, 0)
    for rendering, first, second in (("clean", 3, 4), ("final", 6, 8)):
        gray(root / rendering / "alley_1/frame_0001.png", first)
        gray(root / rendering / "alley_1/frame_0002.png", second)
    listed = manifest(tmp_path, [("a", (3, 4))])
    sources = [("sintel", tmp_path / "MPI-Sintel"), ("manifest", listed)]
    found = evaluate_pairs(estimator.load, sources, progress=False)["scores"]
    errors = {name: score["end_point_error_px"] for name, score in found.items()}
    assert errors == pytest.approx({"sintel clean": 5, "sintel final": 10, "a": 0})
    assert estimator.loads == 1


def test_two_folders_of_a_kind_are_told_apart(tmp_path, estimator):
    for year, truth in ((2012, (3, 4)), (2015, (3, 14))):
        root = tmp_path / f"{year}/training"
        gray(root / "image_2/000000_10.png", 3)
        gray(root / "image_2/000000_11.png", 4)
        constant(root / "flow_occ/000000_10.png", *truth)
    sources = [("kitti", tmp_path / "2012"), ("kitti", tmp_path / "2015")]
    found = evaluate_pairs(estimator.load, sources, progress=False)["scores"]
    assert {name: score["end_point_error_px"] for name, score in found.items()} == pytest.approx(
        {f"kitti {tmp_path / '2012'}": 0, f"kitti {tmp_path / '2015'}": 10}
    )


def test_a_pair_that_is_known_nowhere_is_told_in_one_line(here):
    root = here / "data/training"
    gray(root / "image_2/000000_10.png", 3)
    gray(root / "image_2/000000_11.png", 4)
    constant(root / "flow_occ/000000_10.png", np.nan, np.nan)
    result = invoke("evaluate", "kitti:data", "--device", "cpu", "--quiet")
    assert result.exit_code == 1
    assert "000000_10.png is known at no pixel" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "told"),
    [("manifest", r"there is no file .*2\.png"), ("sintel", "there are no sintel pairs in")],
)
def test_what_is_missing_is_told_before_anything_is_loaded(tmp_path, estimator, kind, told):
    listed = manifest(tmp_path, [("a", (0, 0))])
    (tmp_path / "0/2.png").unlink()
    source = (kind, listed if kind == "manifest" else tmp_path)
    with pytest.raises(PwcFlowError, match=told):
        evaluate_pairs(estimator.load, [source], progress=False)
    assert estimator.loads == 0


def test_the_command_measures_what_the_estimator_finds(here):
    frames = moved_pair(64, 64, 2, 1)
    for name, image in zip(("1.png", "2.png"), frames, strict=True):
        write_image(here / name, image)
    truth = np.full((64, 64, 2), (2, 1), np.float32)
    write_flow(here / "flow.flo", truth)
    (here / "pairs.csv").write_text("dataset,sequence,frame1,frame2,gt\nx,y,1.png,2.png,flow.flo")
    wanted = {
        scale: end_point_error(network(network_scale=scale)(*frames), truth) for scale in (1.0, 2.0)
    }
    cpu = ("pairs.csv", "--device", "cpu")
    assert invoke("evaluate", *cpu).stdout == (
        f"x: 1 pair, end-point error {wanted[1.0]:.4g} px, 0.0 % outliers\n"
    )
    summary = json.loads(invoke("evaluate", *cpu, "--network-scale", "2", "--json").stdout)
    assert summary["scores"]["x"]["end_point_error_px"] == pytest.approx(wanted[2.0], abs=1e-4)
    assert invoke("evaluate", *cpu, "--quiet").output == ""
    assert invoke("evaluate", *cpu, "--mirrored").stdout.startswith("x: 1 pair in all mirrorings, ")


@pytest.mark.parametrize("source", ["pairs.txt", "mine:folder", "sintel:", "manifest:"])
def test_an_unknown_source_is_told_what_there_is(here, source):
    result = invoke("evaluate", source)
    assert result.exit_code == 2
    assert "must be a CSV file or KIND:FOLDER" in " ".join(result.stderr.split())


def test_a_folder_without_pairs_is_an_error_in_one_line(here):
    result = invoke("evaluate", "kitti:.")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: there are no kitti pairs in .: looked for ")
    assert result.stderr.count("\n") == 1


def test_a_kind_comes_before_the_end_of_a_name(here):
    result = invoke("evaluate", "kitti:all.csv")
    assert result.stderr.startswith("error: there is no folder all.csv")
