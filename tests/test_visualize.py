"""Flow files and folders of them become images: scales, names, and what is left alone."""

import numpy as np
import pytest

from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file import read_flow, write_flow
from pwcflow.image_file import read_image, write_image
from pwcflow.pipeline.visualize import visualize_file, visualize_folder
from tests.command_line import files_below
from tests.flow_folders import flow_with, tree_of_flows
from tests.gray_frames import names_in


def test_a_flow_file_is_scaled_by_its_longest_vector(tmp_path):
    write_flow(tmp_path / "a.flo", flow_with((3, 4), (0.05, 0)))
    summary = visualize_file(tmp_path / "a.flo", tmp_path / "a.png")
    assert summary == {
        "input": str(tmp_path / "a.flo"),
        "output": str(tmp_path / "a.png"),
        "images": 1,
        "fps": None,
        "style": "wheel",
        "scale": "sequence",
        "max_flow_px": 5.0,
        "end_point_error_px": None,
        "outliers": None,
        "flows_measured": 0,
    }
    image = read_image(tmp_path / "a.png")
    assert tuple(image[0, 1]) == (255, 252, 252)  # 1 % of the scale, to the right
    assert tuple(image[3, 5]) == (255, 255, 255)


def test_the_noise_of_a_static_flow_file_stays_white(tmp_path):
    write_flow(tmp_path / "a.flo", flow_with((0.01, 0), (0, -0.01)))
    assert visualize_file(tmp_path / "a.flo", tmp_path / "a.png")["max_flow_px"] == 1.0
    assert read_image(tmp_path / "a.png").min() == 252


def test_one_vector_has_one_colour_in_all_images_of_a_folder(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    for name, longest in (("a.flo", 1), ("b.npy", 10), ("c.flo", 100)):
        write_flow(flows / name, flow_with((1, 0), (longest, 0)))
    summary = visualize_folder(flows, tmp_path / "colours")
    assert (summary["images"], summary["max_flow_px"]) == (3, 100.0)
    assert names_in(tmp_path / "colours") == ["a.png", "b.png", "c.png"]
    images = [read_image(tmp_path / "colours" / f"{name}.png") for name in "abc"]
    assert [tuple(image[0, 0]) for image in images] == [(255, 252, 252)] * 3
    assert [tuple(image[0, 1]) for image in images] == [
        (255, 252, 252),
        (255, 229, 229),
        (255, 0, 0),
    ]


def test_the_scale_asked_for_holds_for_a_folder(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    write_flow(flows / "a.flo", flow_with((1, 0)))
    assert visualize_folder(flows, tmp_path / "out", max_flow=100)["max_flow_px"] == 100
    assert tuple(read_image(tmp_path / "out" / "a.png")[0, 0]) == (255, 252, 252)


def test_unknown_pixels_do_not_count_for_the_scale_of_a_folder(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    write_flow(flows / "a.flo", flow_with((2, 0), (np.nan, 0), (1e10, 0)))
    assert visualize_folder(flows, tmp_path / "out")["max_flow_px"] == 2.0
    image = read_image(tmp_path / "out" / "a.png")
    assert [tuple(pixel) for pixel in image[0, :3]] == [(255, 0, 0), (0, 0, 0), (0, 0, 0)]


def test_hidden_and_foreign_files_and_folders_among_the_flows_are_passed_over(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    write_flow(flows / "a.flo", flow_with((2, 0)))
    (flows / "._a.flo").write_bytes(b"left by a Mac")
    (flows / ".0123456789abcdef.flo").write_bytes(b"PIEH")  # one that is being written
    (flows / "notes.txt").touch()
    (flows / "sub.flo").mkdir()
    assert visualize_folder(flows, tmp_path / "out")["images"] == 1
    assert names_in(tmp_path / "out") == ["a.png"]


def test_images_are_not_written_among_the_flows_they_are_made_of(tmp_path):
    write_flow(tmp_path / "a.flo", flow_with((1, 0)))
    for same in (tmp_path, tmp_path / ".." / tmp_path.name):
        with pytest.raises(OutputError, match="where they would be taken for flow"):
            visualize_folder(tmp_path, same)
    assert names_in(tmp_path) == ["a.flo"]


def test_two_flow_files_that_would_become_one_image_are_both_named(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    for name in ("a.flo", "a.npy"):
        write_flow(flows / name, flow_with((1, 0)))
    with pytest.raises(OutputError, match=r"a\.flo and .*a\.npy would both become .*a\.png"):
        visualize_folder(flows, tmp_path / "out")
    assert names_in(tmp_path) == ["flows"]


def test_a_folder_without_flow_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FlowFileError, match=r"no flow files in it, whose names end in \.flo"):
        visualize_folder(tmp_path, tmp_path / "out")
    assert names_in(tmp_path) == ["notes.txt"]


def test_one_damaged_flow_file_stops_a_folder_before_anything_is_written(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    for name in ("a.flo", "b.flo"):
        write_flow(flows / name, flow_with((1, 0)))
    (flows / "b.flo").write_bytes((flows / "b.flo").read_bytes()[:-1])
    with pytest.raises(FlowFileError, match=r"b\.flo is cut short"):
        visualize_folder(flows, tmp_path / "out")
    assert names_in(tmp_path) == ["flows"]


def test_the_image_of_a_flow_does_not_replace_it(tmp_path):
    path = tmp_path / "flow.png"
    write_flow(path, flow_with((1, 0)))
    with pytest.raises(OutputError, match="it is an input"):
        visualize_file(path, path)
    assert np.all(read_flow(path) == flow_with((1, 0)))


@pytest.mark.parametrize("name", ["a.gif", "a", "a.flo"])
def test_an_unknown_image_suffix_is_told_before_the_flow_is_read(tmp_path, name):
    with pytest.raises(OutputError, match=r"cannot write .*; use "):
        visualize_file(tmp_path / "missing.flo", tmp_path / name)


@pytest.mark.parametrize("name", ["v.png", "v.MP4", "v.gif", "v.flo"])
def test_the_images_of_a_folder_do_not_go_into_one_that_is_called_like_a_file(tmp_path, name):
    flows = tmp_path / "flows"
    flows.mkdir()
    write_flow(flows / "a.flo", flow_with((1, 0)))
    with pytest.raises(OutputError, match=r"flows is a folder, so .* is the name of a file"):
        visualize_folder(flows, tmp_path / name)
    assert names_in(tmp_path) == ["flows"]
    (tmp_path / name).touch()
    with pytest.raises(OutputError, match=r"flows is a folder, so .* is a file; choose another"):
        visualize_folder(flows, tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert visualize_folder(flows, tmp_path / name)["images"] == 1


def test_an_output_folder_is_made_with_its_parents_and_images_in_it_are_replaced(tmp_path):
    flows = tmp_path / "flows"
    flows.mkdir()
    write_flow(flows / "a.flo", flow_with((1, 0)))
    for _ in range(2):
        visualize_folder(flows, tmp_path / "new" / "colours")
        assert names_in(tmp_path / "new" / "colours") == ["a.png"]


def test_a_picture_that_cannot_be_written_is_told_and_those_before_it_are_there(tmp_path):
    flows, out = tmp_path / "flows", tmp_path / "out"
    flows.mkdir()
    for name in ("a.flo", "b.flo", "c.flo", "d.flo"):
        write_flow(flows / name, flow_with((1, 0)))
    (out / "c.png").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"cannot write .*c\.png"):
        visualize_folder(flows, out)
    assert names_in(out)[:3] == ["a.png", "b.png", "c.png"]
    assert read_image(out / "b.png").shape == (4, 6, 3)


def test_a_picture_among_the_flows_is_to_be_moved_out(tmp_path):
    write_flow(tmp_path / "a.flo", flow_with((1, 0)))
    write_image(tmp_path / "photo.png", np.zeros((4, 6, 3), np.uint8))
    with pytest.raises(
        FlowFileError, match=rf"photo\.png is a colour.*, or move it out of {tmp_path}"
    ):
        visualize_folder(tmp_path, tmp_path / "out")
    assert names_in(tmp_path) == ["a.flo", "photo.png"]


def test_a_missing_folder_is_told_before_the_flow_is_read(tmp_path):
    with pytest.raises(OutputError, match=r"the folder .*none does not exist"):
        visualize_file(tmp_path / "missing.flo", tmp_path / "none" / "a.png")


# folders in folders, scales


def test_folders_in_a_folder_are_mirrored_and_have_one_scale(tmp_path):
    flows = tree_of_flows(tmp_path / "flows")
    summary = visualize_folder(flows, tmp_path / "out")
    assert (summary["images"], summary["scale"], summary["max_flow_px"]) == (3, "sequence", 8.0)
    assert files_below(tmp_path / "out") == ["a/000000.png", "a/000001.png", "b/c/000000.png"]
    for place in files_below(tmp_path / "out"):
        # 1 px of 8: 255 * 7 / 8 = 223.1
        assert tuple(read_image(tmp_path / "out" / place)[0, 1]) == (255, 223, 223)


def test_pictures_below_the_flows_are_not_taken_for_flow_the_next_time(tmp_path):
    flows = tree_of_flows(tmp_path / "flows")
    for _ in range(2):
        assert visualize_folder(flows, flows / "pictures")["images"] == 3


def test_each_picture_has_its_own_scale_when_asked(tmp_path):
    flows = tree_of_flows(tmp_path / "flows")
    summary = visualize_folder(flows, tmp_path / "out", max_flow="frame")
    assert (summary["scale"], summary["max_flow_px"]) == ("frame", None)
    # 1 px of 2 and of 8
    assert tuple(read_image(tmp_path / "out" / "a" / "000000.png")[0, 1]) == (255, 127, 127)
    assert tuple(read_image(tmp_path / "out" / "a" / "000001.png")[0, 1]) == (255, 223, 223)


def test_a_folder_may_be_shown_to_the_percentile_of_all_its_pixels(tmp_path):
    flow = np.full((10, 100, 2), (2, 0), np.float32)
    (tmp_path / "flows").mkdir()
    write_flow(tmp_path / "flows" / "a.flo", flow)
    flow[0, :15] = 300, 0  # 15 of 2000
    write_flow(tmp_path / "flows" / "b.flo", flow)
    summary = visualize_folder(tmp_path / "flows", tmp_path / "out", max_flow="percentile")
    assert summary["max_flow_px"] == pytest.approx(2, abs=0.002)


def test_the_picture_of_a_pair_of_pictures_does_not_replace_its_other_half(tmp_path):
    write_flow(tmp_path / "a_x.png", flow_with((1, 2)), bound=20)
    before = (tmp_path / "a_y.png").read_bytes()
    with pytest.raises(OutputError, match="it is an input"):
        visualize_file(tmp_path / "a_x.png", tmp_path / "a_y.png")
    assert (tmp_path / "a_y.png").read_bytes() == before
