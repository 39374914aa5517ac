"""The pairs of each data set are found where its archives put them, and read as they are stored."""

from dataclasses import replace

import numpy as np
import pytest

from pwcflow.datasets import KINDS, PairFiles, find_pairs, read_true_pair
from pwcflow.errors import FlowFileError, ImageError, PwcFlowError
from pwcflow.flow_file import write_flow
from pwcflow.image_file import write_image

H, W = 4, 6


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def names_of(root, pairs):
    """Return the paths of each pair below a folder."""
    return [
        tuple(path.relative_to(root).as_posix() for path in (pair.first, pair.second, pair.flow))
        for pair in pairs
    ]


def image(value=0):
    return np.full((H, W, 3), value, np.uint8)


@pytest.mark.parametrize("folder", ["", "data/"])
def test_flying_chairs(tmp_path, folder):
    for i in (1, 2, 3):
        touch(tmp_path, f"{folder}0000{i}_img1.ppm", f"{folder}0000{i}_flow.flo")
        if i != 2:  # whose second image is missing
            touch(tmp_path, f"{folder}0000{i}_img2.ppm")
    expected = [
        tuple(f"{folder}0000{i}_{end}" for end in ("img1.ppm", "img2.ppm", "flow.flo"))
        for i in (1, 3)
    ]
    pairs = find_pairs("chairs", tmp_path)
    assert names_of(tmp_path, pairs) == expected
    assert not any(pair.sparse for pair in pairs)


def test_flying_things_in_both_directions_and_renderings(tmp_path):
    scene, flows = "TRAIN/A/0000", "optical_flow/TRAIN/A/0000"
    touch(tmp_path, *(f"frames_cleanpass/{scene}/left/{i:04d}.png" for i in (6, 7, 8)))
    touch(tmp_path, *(f"frames_finalpass/{scene}/left/{i:04d}.png" for i in (6, 7)))
    for i in (6, 7, 8):
        touch(tmp_path, f"{flows}/into_future/left/OpticalFlowIntoFuture_{i:04d}_L.pfm")
        touch(tmp_path, f"{flows}/into_past/left/OpticalFlowIntoPast_{i:04d}_L.pfm")
        touch(tmp_path, f"{flows}/into_past/right/OpticalFlowIntoPast_{i:04d}_R.pfm")
    touch(tmp_path, "optical_flow/TEST/A/0000/into_past/left/OpticalFlowIntoPast_0007_L.pfm")
    found = {
        (first[7:12], first[-8:-4], second[-8:-4], flow.split("/")[4], flow[-10:-6])
        for first, second, flow in names_of(tmp_path, find_pairs("things", tmp_path))
    }
    assert {
        pair.dataset for pair in find_pairs("things", tmp_path) if "clean" in str(pair.first)
    } == {"things clean"}
    assert found == {
        ("clean", "0006", "0007", "into_future", "0006"),
        ("clean", "0007", "0008", "into_future", "0007"),
        ("final", "0006", "0007", "into_future", "0006"),
        ("clean", "0007", "0006", "into_past", "0007"),
        ("clean", "0008", "0007", "into_past", "0008"),
        ("final", "0007", "0006", "into_past", "0007"),
    }


def test_sintel_in_both_renderings_with_its_invalid_pixels(tmp_path):
    for rendering in ("clean", "final"):
        touch(tmp_path, *(f"training/{rendering}/alley_1/frame_000{i}.png" for i in (1, 2, 3)))
    touch(tmp_path, *(f"training/flow/alley_1/frame_000{i}.flo" for i in (1, 2)))
    touch(tmp_path, "training/invalid/alley_1/frame_0002.png")
    touch(tmp_path, "test/clean/alley_1/frame_0001.png")
    pairs = find_pairs("sintel", tmp_path)
    assert names_of(tmp_path / "training", pairs) == [
        (
            f"{rendering}/alley_1/frame_000{i}.png",
            f"{rendering}/alley_1/frame_000{i + 1}.png",
            f"flow/alley_1/frame_000{i}.flo",
        )
        for i in (1, 2)
        for rendering in ("clean", "final")
    ]
    invalid = tmp_path / "training/invalid/alley_1/frame_0002.png"
    assert [pair.invalid for pair in pairs] == [None, None, invalid, invalid]
    assert [pair.dataset for pair in pairs] == ["sintel clean", "sintel final"] * 2
    assert find_pairs("sintel", tmp_path / "training") == pairs


@pytest.mark.parametrize("camera", ["image_2", "colored_0"])
def test_kitti_of_both_years(tmp_path, camera):
    for i in (0, 1):
        touch(tmp_path, *(f"training/{camera}/00000{i}_{t}.png" for t in ("09", "10", "11")))
        touch(tmp_path, f"training/flow_occ/00000{i}_10.png")
    pairs = find_pairs("kitti", tmp_path)
    assert names_of(tmp_path / "training", pairs) == [
        (f"{camera}/00000{i}_10.png", f"{camera}/00000{i}_11.png", f"flow_occ/00000{i}_10.png")
        for i in (0, 1)
    ]
    assert all(pair.sparse for pair in pairs)


def test_hd1k_leaves_out_the_last_frame_of_a_sequence(tmp_path):
    for name in ("000000_0009", "000000_0010", "000001_0000"):
        touch(tmp_path, f"hd1k_input/image_2/{name}.png", f"hd1k_flow_gt/flow_occ/{name}.png")
    pairs = find_pairs("hd1k", tmp_path)
    frames = "hd1k_input/image_2/000000_0009.png", "hd1k_input/image_2/000000_0010.png"
    assert names_of(tmp_path, pairs) == [(*frames, "hd1k_flow_gt/flow_occ/000000_0009.png")]
    assert pairs[0].sparse


def test_spring_has_two_by_two_flows_a_pixel(tmp_path):
    h5py = pytest.importorskip("h5py")
    for i in (1, 2):
        path = tmp_path / f"train/0001/frame_left/frame_left_000{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(path, image())
    path = tmp_path / "train/0001/flow_FW_left/flow_FW_left_0001.flo5"
    path.parent.mkdir()
    flow = np.arange(2 * H * 2 * W * 2, dtype=np.float32).reshape(2 * H, 2 * W, 2)
    with h5py.File(path, "w") as file:
        file.create_dataset("flow", data=flow, compression="gzip")
    (pair,) = find_pairs("spring", tmp_path)
    np.testing.assert_array_equal(read_true_pair(pair).truth, flow[::2, ::2])


def test_spring_without_h5py_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(PwcFlowError, match="spring needs the package h5py"):
        find_pairs("spring", tmp_path)


def test_a_manifest_lists_pairs_from_its_folder(tmp_path):
    touch(tmp_path, "1.png", "2.png", "a/flow.flo", "a/invalid.png", "b/flow.png")
    manifest = tmp_path / "pairs.csv"
    header = "dataset,sequence,frame1,frame2,gt\n"
    manifest.write_text(f"{header}x,a,1.png,2.png,a/flow.flo\nx,b,1.png,2.png,b/flow.png\n")
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    assert find_pairs("manifest", manifest) == [
        PairFiles(
            first,
            second,
            tmp_path / "a/flow.flo",
            invalid=tmp_path / "a/invalid.png",
            dataset="x",
            sequence="a",
        ),
        PairFiles(first, second, tmp_path / "b/flow.png", sparse=True, dataset="x", sequence="b"),
    ]
    manifest.write_text(f"{header}x,a,1.png,3.png,a/flow.flo\n")
    with pytest.raises(FlowFileError, match=r"there is no file .*3\.png, which .*pairs\.csv lists"):
        find_pairs("manifest", manifest)
    manifest.write_text(f"{header}x,a,1.png\n")
    with pytest.raises(FlowFileError, match="line 1 below its header has no frame2"):
        find_pairs("manifest", manifest)


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"manifest", "spring"}))
def test_a_folder_without_pairs_is_told_with_what_was_looked_for(tmp_path, kind):
    touch(tmp_path, "readme.txt", "frame_0001.png", "frame_0001.flo")
    with pytest.raises(PwcFlowError, match=rf"no {kind} pairs in .*: looked for .*flow"):
        find_pairs(kind, tmp_path)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_list_may_be_as_spreadsheets_write_it(tmp_path, separator):
    touch(tmp_path, "1.png", "2,3.png", "a.flo")
    manifest = tmp_path / "list.csv"
    lines = ["dataset,sequence,frame1,frame2,gt", 'x,,1.png,"2|3.png",a.flo']
    text = "\r\n".join(lines).replace(",", separator).replace("|", ",")
    manifest.write_text(text, encoding="utf-8-sig", newline="")
    (pair,) = find_pairs("manifest", manifest)
    assert (pair.dataset, pair.first.name, pair.second.name) == ("x", "1.png", "2,3.png")


def test_flow_in_the_format_of_spring_may_be_of_the_size_of_the_images(files, tmp_path):
    pytest.importorskip("h5py")
    for factor in (1, 2):
        flow = np.arange(H * W * 2 * factor**2, dtype=np.float32)
        flow = flow.reshape(factor * H, factor * W, 2)
        write_flow(tmp_path / "flow.flo5", flow)
        pair = read_true_pair(replace(files, flow=tmp_path / "flow.flo5"))
        np.testing.assert_array_equal(pair.truth, flow[::factor, ::factor])


def test_a_line_without_a_data_set_is_told(tmp_path):
    manifest = tmp_path / "list.csv"
    manifest.write_text("dataset,sequence,frame1,frame2,gt\n,a,1.png,2.png,a.flo\n")
    with pytest.raises(FlowFileError, match="line 1 below its header has no dataset; add it"):
        find_pairs("manifest", manifest)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(PwcFlowError, match=r"there is no folder .*nowhere; check the name"):
        find_pairs("kitti", tmp_path / "nowhere")


def test_a_list_without_its_columns_says_so(tmp_path):
    manifest = tmp_path / "list.csv"
    manifest.write_text("a,b\n1,2\n")
    with pytest.raises(FlowFileError, match="dataset, frame1, frame2, gt, sequence"):
        find_pairs("manifest", manifest)
    with pytest.raises(FlowFileError, match=r"cannot read .*: no such file or directory; check"):
        find_pairs("manifest", tmp_path / "missing.csv")


@pytest.fixture
def files(tmp_path):
    """A pair of two images of 16 bits; its flow is not yet there."""
    for number in (1, 2):
        write_image(tmp_path / f"{number}.png", np.full((H, W, 3), 300 * number, np.uint16))
    return PairFiles(tmp_path / "1.png", tmp_path / "2.png", tmp_path / "flow.flo", dataset="toy")


def test_a_true_pair_keeps_the_depth_of_its_images(files):
    write_flow(files.flow, np.full((H, W, 2), 3, np.float32))
    pair = read_true_pair(files)
    assert (pair.dataset, pair.name) == ("toy", str(files.first))
    assert (pair.first == 300).all()
    assert (pair.second == 600).all()
    assert (pair.truth == 3).all()
    assert pair.valid.all()


def test_what_does_not_fit_or_tells_nothing_is_refused(files, tmp_path):
    write_flow(files.flow, np.zeros((H, W, 2), np.float32))
    write_image(files.second, image()[:, :-1])
    with pytest.raises(ImageError, match=r"2\.png is 5 x 4 pixels but its true flow, .* is 6 x 4"):
        read_true_pair(files)
    write_image(files.second, image())
    invalid = tmp_path / "invalid.png"
    write_image(invalid, image(255))
    with pytest.raises(FlowFileError, match=r"flow\.flo is known at no pixel"):
        read_true_pair(replace(files, invalid=invalid))
    write_image(invalid, image(255)[1:])
    with pytest.raises(ImageError, match=r"invalid\.png is 6 x 3 pixels"):
        read_true_pair(replace(files, invalid=invalid))
