"""A pair of images becomes flow files and a picture, or a message before anything is loaded."""

import numpy as np
import pytest

from pwcflow.errors import FlowFileError, ImageError, OutputError
from pwcflow.flow_file import read_flow, read_metadata
from pwcflow.image_file import read_image, write_image
from pwcflow.pipeline import estimate_pair
from tests.gray_frames import HEIGHT, WIDTH, gray, names_in


def test_a_pair_of_images_becomes_a_flow_file_and_a_colour_image(tmp_path, estimator):
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    write_image(first, gray(30))
    write_image(second, gray(40))
    output, viz = tmp_path / "out.flo", tmp_path / "out.png"
    summary = estimate_pair(estimator.load, first, second, output=output, viz=viz)
    flow = read_flow(output)
    assert flow.shape == (HEIGHT, WIDTH, 2)
    assert np.all(flow == (30, 40))
    assert read_image(viz).shape == (HEIGHT, WIDTH, 3)
    assert summary.pop("seconds") >= 0
    assert summary == {
        "first": str(first),
        "second": str(second),
        "flow": str(output),
        "backward": None,
        "viz": str(viz),
        "style": "wheel",
        "scale": "sequence",
        "max_flow_px": 50.0,
        "width": WIDTH,
        "height": HEIGHT,
        "largest_motion_px": 50.0,
        "end_point_error_px": None,
        "outliers": None,
        "flows_measured": 0,
        "weights": "fake",
        "weights_sha256": "0" * 64,
        "device": "cpu",
        "precision": "fp32",
        "network_scale": 1.0,
    }


@pytest.mark.parametrize(
    "names", [("f.flo", "b.npz"), ("both.exr", "both.exr"), ("both.exr", "link/both.exr")]
)
def test_the_flow_back_goes_into_a_file_of_its_own_or_into_the_same_exr(tmp_path, estimator, names):
    (tmp_path / "link").symlink_to(tmp_path)
    if ".exr" in names[0]:
        pytest.importorskip("OpenEXR")
    images = [tmp_path / "1.png", tmp_path / "2.png"]
    for path, level in zip(images, (30, 40), strict=True):
        write_image(path, gray(level))
    output, backward = (tmp_path / name for name in names)
    estimate_pair(estimator.load, *images, output=output, viz=None, backward=backward)
    assert np.all(read_flow(output) == (30, 40))
    same = output.samefile(backward)
    assert np.all(read_flow(backward, direction="backward" if same else "forward") == (40, 30))
    metadata = read_metadata(backward)
    assert metadata["direction"] == ("forward and backward" if same else "backward")
    assert metadata["first"] == str(images[0] if same else images[1])
    assert (metadata["weights"], metadata["precision"]) == ("fake", "fp32")


def test_two_directions_do_not_fit_into_one_file_of_another_kind(tmp_path, estimator):
    write_image(tmp_path / "1.png", gray(1))
    one = tmp_path / "f.flo"
    with pytest.raises(OutputError, match="or another output"):
        estimate_pair(estimator.load, tmp_path / "1.png", tmp_path / "1.png", output=one,
                      viz=None, backward=one)  # fmt: skip
    assert estimator.loads == 0


def test_the_scale_asked_for_is_that_of_the_colour_image(tmp_path, estimator):
    for name, level in (("1.png", 1), ("2.png", 0)):
        write_image(tmp_path / name, gray(level))
    viz = tmp_path / "viz.png"
    images = tmp_path / "1.png", tmp_path / "2.png"
    summary = estimate_pair(estimator.load, *images, output=None, viz=viz, max_flow=100)
    assert summary["max_flow_px"] == 100
    # (1, 0) px of 100: red, whose green and blue lose 1 % of 255
    assert np.all(read_image(viz) == (255, 252, 252))


def test_two_images_of_two_sizes_are_refused_with_both_before_anything_is_loaded(
    tmp_path, estimator
):
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    write_image(first, gray(1, 48, 64))
    write_image(second, gray(1, 64, 48))
    with pytest.raises(ImageError, match=r"1\.png is 64 x 48 pixels but .*2\.png is 48 x 64"):
        estimate_pair(estimator.load, first, second, output=tmp_path / "a.flo", viz=None)
    assert estimator.loads == 0


@pytest.mark.parametrize(
    ("output", "viz"),
    [("a.jpg", None), ("a", None), (None, "a.flo"), (None, "a"), ("a.flo", "b.gif")],
)
def test_an_unknown_suffix_is_told_before_the_images_are_read(tmp_path, estimator, output, viz):
    with pytest.raises((FlowFileError, OutputError), match="use "):
        estimate_pair(
            estimator.load,
            tmp_path / "missing.png",
            tmp_path / "missing.png",
            output=output and tmp_path / output,
            viz=viz and tmp_path / viz,
        )
    assert estimator.loads == 0
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("output", "viz"),
    [("1.png", None), (None, "2.png"), ("out.png", "out.png"), ("sub/../1.png", None)],
)
def test_no_output_takes_the_place_of_an_input_or_of_another_output(
    tmp_path, estimator, output, viz
):
    (tmp_path / "sub").mkdir()
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    write_image(first, gray(1))
    write_image(second, gray(2))
    with pytest.raises(OutputError, match="it is an input, or another output; choose another"):
        estimate_pair(
            estimator.load,
            first,
            second,
            output=output and tmp_path / output,
            viz=viz and tmp_path / viz,
        )
    assert estimator.loads == 0
    assert np.all(read_image(first) == 1)


@pytest.mark.parametrize("option", ["output", "viz"])
def test_a_missing_folder_is_told_before_the_images_are_read(tmp_path, estimator, option):
    outputs = {"output": None, "viz": None, option: tmp_path / "none" / "a.png"}
    missing = tmp_path / "missing.png"
    with pytest.raises(OutputError, match=r"the folder .*none does not exist; create it first"):
        estimate_pair(estimator.load, missing, missing, **outputs)


def test_an_output_linked_to_an_input_is_refused(tmp_path, estimator):
    first, link = tmp_path / "1.png", tmp_path / "link.png"
    write_image(first, gray(1))
    link.symlink_to(first)
    with pytest.raises(OutputError, match="it is an input"):
        estimate_pair(estimator.load, first, first, output=None, viz=link)
