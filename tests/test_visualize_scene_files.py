"""What is shown with a flow: frames, the true flow, the flow back, found beside each file."""

import re

import numpy as np
import pytest

from pwcflow.color import flow_to_color
from pwcflow.errors import FlowFileError, ImageError, OutputError
from pwcflow.flow_file import FLOW_SUFFIXES, write_flow
from pwcflow.image_file import read_image, write_image
from pwcflow.pipeline import estimate_video
from pwcflow.pipeline.visualize import visualize_as_video, visualize_file, visualize_folder
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.visualization import Look
from pwcflow.visualization.scene_files import SceneFiles
from tests.command_line import files_below
from tests.fake_estimator import FakeEstimator
from tests.flow_folders import flow_with, tree_of_flows
from tests.gray_frames import names_in


def frames_in(folder, levels):
    folder.mkdir(parents=True)
    for number, level in enumerate(levels):
        # in natural order, not in that of letters
        write_image(folder / f"frame{number + 9}.png", np.full((4, 6, 3), level, np.uint8))


def test_the_flows_of_a_folder_go_from_frame_to_frame_of_another(tmp_path):
    flows = tree_of_flows(tmp_path / "flows")
    frames_in(tmp_path / "frames" / "a", [10, 20, 30])
    frames_in(tmp_path / "frames" / "b" / "c", [40, 70])
    summary = visualize_folder(
        flows,
        tmp_path / "out",
        look=Look(style="warp"),
        beside=SceneFiles(frame=tmp_path / "frames"),
    )
    assert (summary["style"], summary["scale"], summary["max_flow_px"]) == ("warp", None, None)
    for place, second, difference in (
        ("a/000000.png", 20, 30),
        ("a/000001.png", 30, 30),
        ("b/c/000000.png", 70, 90),
    ):
        image = read_image(tmp_path / "out" / place)
        assert image.shape == (8, 12, 3)
        assert (image[:4, :6] == second).all()
        assert (image[4:, :6] == difference).all()  # three times


def test_too_few_frames_are_told_before_anything_is_written(tmp_path):
    flows = tree_of_flows(tmp_path / "flows")
    frames_in(tmp_path / "frames" / "a", [10, 20])
    beside = SceneFiles(frame=tmp_path / "frames")
    with pytest.raises(ImageError, match=r"a has 2 images, but the 2 flows .* need 3; name just"):
        visualize_folder(flows, tmp_path / "out", look=Look(style="side"), beside=beside)
    assert names_in(tmp_path) == ["flows", "frames"]


def test_the_truth_of_a_folder_is_found_by_the_names(tmp_path):
    flows, truth = tree_of_flows(tmp_path / "flows"), tmp_path / "truth"
    for place in ("a/000000.npy", "a/000001.npy", "b/c/000000.flo"):
        (truth / place).parent.mkdir(parents=True, exist_ok=True)
        write_flow(truth / place, flow_with((2, 0), (1, 0)))
    look = Look(style="error", legend="none")
    visualize_folder(flows, tmp_path / "out", look=look, beside=SceneFiles(truth=truth))
    colors = [
        tuple(read_image(tmp_path / "out" / place)[0, 0]) for place in files_below(tmp_path / "out")
    ]
    # off by 0, by 6 px = 2 * 3 px, and by 2 px = 0.67 * 3 px
    assert colors == [(49, 54, 149), (253, 174, 97), (224, 243, 248)]
    (truth / "b" / "c" / "000000.flo").rename(truth / "b" / "c" / "0.flo")
    with pytest.raises(FlowFileError, match=r"has no flow called as .*000000\.npy"):
        visualize_folder(flows, tmp_path / "out", look=look, beside=SceneFiles(truth=truth))


def test_the_picture_does_not_replace_the_frame_below_it(tmp_path):
    write_flow(tmp_path / "a.flo", flow_with((1, 0)))
    write_image(tmp_path / "one.png", np.zeros((4, 6, 3), np.uint8))
    beside = SceneFiles(frame=tmp_path / "one.png")
    with pytest.raises(OutputError, match="it is an input"):
        visualize_file(
            tmp_path / "a.flo", tmp_path / "one.png", look=Look(style="side"), beside=beside
        )


def test_a_frame_of_another_size_is_told_and_nothing_is_written(tmp_path):
    write_flow(tmp_path / "a.flo", flow_with((1, 0)))
    write_image(tmp_path / "one.png", np.zeros((5, 6, 3), np.uint8))
    beside = SceneFiles(frame=tmp_path / "one.png")
    with pytest.raises(ImageError, match=r"the first frame is 6 x 5 pixels, but the flow is 6 x 4"):
        visualize_file(
            tmp_path / "a.flo", tmp_path / "o.png", look=Look(style="side"), beside=beside
        )
    assert names_in(tmp_path) == ["a.flo", "one.png"]


@pytest.mark.parametrize("suffix", FLOW_SUFFIXES)
def test_a_folder_that_video_wrote_in_any_format_is_shown(tmp_path, suffix):
    pytest.importorskip({".exr": "OpenEXR", ".flo5": "h5py"}.get(suffix, "numpy"))
    source = tmp_path / "frames"
    frames_in(source, [8, 2, 6])
    outputs = VideoOutputs(folder=tmp_path / "flows", suffix=suffix)
    estimate_video(FakeEstimator().load, source, outputs)
    look, beside = Look(style="side"), SceneFiles(frame=source)
    summary = visualize_folder(
        tmp_path / "flows", tmp_path / "out", max_flow=20.0, look=look, beside=beside
    )
    assert (summary["images"], names_in(tmp_path / "out")) == (2, ["000000.png", "000001.png"])
    for number, (level, u, v) in enumerate(((8, 8, 2), (2, 2, 6))):
        image = read_image(tmp_path / "out" / f"{number:06d}.png")
        assert (image[:, :6] == level).all()
        assert (image[:, 6:] == flow_to_color(np.float32([[[u, v]]]), 20.0)).all()


# the flow back


def flows_of_both_directions():
    """By 2 px to the right, and back but for the pixel (4, 0), to which (2, 0) leads."""
    there, back = (np.full((4, 6, 2), (u, 0), np.float32) for u in (2, -2))
    back[0, 4] = 1, 0
    return there, back


def occluded_in(path):
    rows, columns = np.nonzero((read_image(path) != 100).any(-1))
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


OCCLUDED = [(0, 2), *((row, column) for row in range(4) for column in (4, 5))]


@pytest.fixture
def both(tmp_path):
    """Both flows in one .exr, each in a file, and the frame."""
    pytest.importorskip("OpenEXR")
    there, back = flows_of_both_directions()
    (tmp_path / "flows").mkdir()
    write_flow(tmp_path / "flows" / "both.exr", there, backward=back)
    write_flow(tmp_path / "there.exr", there)
    write_flow(tmp_path / "back.exr", back)
    write_image(tmp_path / "one.png", np.full((4, 6, 3), 100, np.uint8))
    return tmp_path


@pytest.mark.parametrize(
    ("flow", "backward"),
    [
        ("flows/both.exr", None),
        ("flows/both.exr", "flows/both.exr"),
        ("flows/both.exr", "back.exr"),
        ("there.exr", "back.exr"),
        ("there.exr", "flows/both.exr"),
    ],
)
def test_the_flow_back_comes_from_the_file_named_or_from_the_same_exr(both, flow, backward):
    beside = SceneFiles(frame=both / "one.png", backward=both / backward if backward else None)
    visualize_file(both / flow, both / "o.png", look=Look(style="occlusion"), beside=beside)
    assert sorted(occluded_in(both / "o.png")) == sorted(OCCLUDED)


def test_a_folder_may_be_that_of_its_flows_back(both):
    frames_in(both / "frames", [100, 100])
    beside = SceneFiles(frame=both / "frames", backward=both / "flows")
    look = Look(style="occlusion")
    visualize_folder(both / "flows", both / "out", look=look, beside=beside)
    assert sorted(occluded_in(both / "out" / "both.png")) == sorted(OCCLUDED)


def test_a_flow_is_not_taken_for_its_own_way_back(both):
    look = Look(style="occlusion")
    beside = SceneFiles(frame=both / "one.png")
    with pytest.raises(ValueError, match="the style occlusion needs --backward"):
        visualize_file(both / "there.exr", both / "o.png", look=look, beside=beside)
    beside = SceneFiles(frame=both / "one.png", backward=both / "there.exr")
    with pytest.raises(FlowFileError, match=r"forward\.v, but not backward\.u"):
        visualize_file(both / "there.exr", both / "o.png", look=look, beside=beside)
    assert "o.png" not in names_in(both)


def test_the_pictures_of_a_folder_replace_nothing_that_they_are_made_of(tmp_path):
    flows, frames, truth, out = (tmp_path / name for name in ("flows", "frames", "truth", "out"))
    for folder in (flows, frames, truth, out):
        folder.mkdir()
    for number in range(2):
        write_flow(flows / f"{number}.flo", flow_with((number, 0)))
        write_flow(truth / f"{number}.png", flow_with((number, 0)))
    for number in range(3):
        write_image(frames / f"{number}.png", np.full((4, 6, 3), number, np.uint8))
    (out / "1.png").symlink_to(flows / "1.flo")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    cases = [
        (frames, Look(style="overlay"), SceneFiles(frame=frames)),
        (truth, Look(style="error"), SceneFiles(truth=truth)),
        (truth, Look(style="occlusion"), SceneFiles(frame=frames, backward=truth)),
        (out, Look(), SceneFiles()),
    ]
    for output, look, beside in cases:
        with pytest.raises(OutputError, match="it is an input"):
            visualize_folder(flows, output, look=look, beside=beside)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_pictures_are_not_written_where_they_would_be_taken_for_inputs(tmp_path):
    flows = tree_of_flows(tmp_path / "flows")
    frames_in(tmp_path / "frames" / "a", [10, 20, 30])
    frames_in(tmp_path / "frames" / "b" / "c", [40, 70])
    tree_of_flows(tmp_path / "others")
    (tmp_path / "link").symlink_to("frames")
    side, error, occlusion = (Look(style=name) for name in ("side", "error", "occlusion"))
    frames, others = tmp_path / "frames", tmp_path / "others"
    before = files_below(tmp_path)
    cases = [
        ("frames", side, SceneFiles(frame=frames), r"a frame of .*frames/"),
        ("link", side, SceneFiles(frame=frames), r"a frame of .*frames/"),
        ("frames", side, SceneFiles(frame=tmp_path / "link"), r"a frame of .*link/"),
        ("others", error, SceneFiles(truth=others), r"a flow of .*others/"),
        ("others", occlusion, SceneFiles(frame=frames, backward=others), r"a flow of .*others/"),
        ("frames", occlusion, SceneFiles(frame=frames, backward=others), r"a frame of .*frames/"),
    ]
    for output, look, beside, taken_for in cases:
        told = rf"cannot write .*\.png: it would be taken for {taken_for}.*; choose another folder"
        with pytest.raises(OutputError, match=told):
            visualize_folder(flows, tmp_path / output, look=look, beside=beside)
    told = r"v\.webp: it would be taken for a frame of .*frames/a; choose another folder"
    with pytest.raises(OutputError, match=told):
        visualize_as_video(
            flows / "a", frames / "a" / "v.webp", look=side, beside=SceneFiles(frame=frames / "a")
        )
    assert files_below(tmp_path) == before
    # which nobody takes for frames or flows, as they are one folder further up
    beside = SceneFiles(frame=frames / "a")
    assert visualize_folder(flows / "a", frames, look=side, beside=beside)["images"] == 2


def test_pictures_do_not_go_among_flows_of_a_folder_within(tmp_path):
    for place in ("outer/0.flo", "outer/outer/1.flo"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        write_flow(tmp_path / place, flow_with((1, 0)))
    told = r"outer/1\.png: it would be taken for a flow of .*outer; choose another folder"
    with pytest.raises(OutputError, match=told):
        visualize_folder(tmp_path / "outer", tmp_path)
    assert files_below(tmp_path) == ["outer/0.flo", "outer/outer/1.flo"]


def test_a_picture_may_lie_beside_the_frame_of_its_only_flow(tmp_path):
    write_flow(tmp_path / "a.flo", flow_with((1, 0)))
    frames_in(tmp_path / "frames", [10])
    beside = SceneFiles(frame=tmp_path / "frames" / "frame9.png")
    output = tmp_path / "frames" / "a.png"
    visualize_file(tmp_path / "a.flo", output, look=Look(style="side"), beside=beside)
    assert (read_image(output)[:, :6] == 10).all()


def test_links_that_form_a_loop_are_told(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    flows = tmp_path / "flows"
    flows.mkdir()
    write_flow(flows / "0.flo", flow_with((1, 0)))
    with pytest.raises(OutputError, match="loop is a file; choose another name"):
        visualize_folder(flows, loop)
    write_image(tmp_path / "one.png", np.zeros((4, 6, 3), np.uint8))
    back = tmp_path / "back.flo"
    back.symlink_to(back)
    beside = SceneFiles(frame=tmp_path / "one.png", backward=back)
    with pytest.raises(FlowFileError, match=r"back\.flo: too many levels of symbolic links"):
        visualize_file(
            flows / "0.flo", tmp_path / "a.png", look=Look(style="occlusion"), beside=beside
        )


def test_what_does_not_fit_in_a_folder_is_told_with_the_name_of_the_flow(tmp_path):
    flows, frames = tmp_path / "flows", tmp_path / "frames"
    flows.mkdir()
    frames.mkdir()
    write_flow(flows / "0.flo", flow_with((1, 0)))
    for name, width in (("0.png", 7), ("1.png", 6)):
        write_image(frames / name, np.zeros((4, width, 3), np.uint8))
    told = re.escape(f"{flows / '0.flo'}: the first frame is 7 x 4 pixels, but the flow is 6 x 4")
    with pytest.raises(ImageError, match=told):
        visualize_folder(
            flows, tmp_path / "out", look=Look(style="side"), beside=SceneFiles(frame=frames)
        )
    told = re.escape(f"{flows / '0.flo'}: a picture of 6 x 4 pixels has no room for a legend")
    with pytest.raises(OutputError, match=told):
        visualize_folder(flows, tmp_path / "out", look=Look(legend="inside"))
    assert not (tmp_path / "out").exists()
