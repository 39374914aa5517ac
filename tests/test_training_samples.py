"""Real pairs come to training in 8 bits, with zeros where their flow is unknown."""

import numpy as np
import pytest

from pwcflow.datasets import PairFiles
from pwcflow.errors import FlowFileError, ImageError
from pwcflow.flow_file import write_flow
from pwcflow.image_file import write_image
from pwcflow.training.samples import read_sample

H, W = 4, 6


def image(value=0):
    return np.full((H, W, 3), value, np.uint8)


def write_pfm(path, flow, *, order="<", extra=b""):
    three = np.concatenate((flow, np.zeros_like(flow[..., :1])), axis=2)[::-1]
    header = f"PF\n{flow.shape[1]} {flow.shape[0]}\n{'-' if order == '<' else ''}1.0\n"
    path.write_bytes(header.encode() + three.astype(f"{order}f4").tobytes() + extra)


@pytest.fixture
def files(tmp_path):
    """A pair of two gray images; its flow is not yet there."""
    write_image(tmp_path / "1.png", image(10))
    write_image(tmp_path / "2.png", image(20))
    return PairFiles(tmp_path / "1.png", tmp_path / "2.png", tmp_path / "flow.flo")


def test_unknown_flow_is_zero_and_not_valid(files, tmp_path):
    flow = np.full((H, W, 2), 3, np.float32)
    flow[0, 0], flow[0, 1], flow[1, 0] = np.nan, 2e9, np.inf
    write_flow(files.flow, flow)
    invalid = image()
    invalid[3, 5] = 255
    write_image(tmp_path / "invalid.png", invalid)
    pair = PairFiles(files.first, files.second, files.flow, invalid=tmp_path / "invalid.png")
    sample = read_sample(pair)
    unknown = {(0, 0), (0, 1), (1, 0), (3, 5)}
    assert {(int(y), int(x)) for y, x in np.argwhere(~sample.valid)} == unknown
    assert not sample.flow[~sample.valid].any()
    assert (sample.flow[sample.valid] == 3).all()
    assert (sample.first == 10).all()
    assert (sample.second == 20).all()


def test_sparse_flow_of_kitti_is_read(files, tmp_path):
    flow = np.full((H, W, 2), np.nan, np.float32)
    flow[2, 3] = (-1.5, 0.25)
    write_flow(tmp_path / "flow.png", flow)
    sample = read_sample(PairFiles(files.first, files.second, tmp_path / "flow.png", sparse=True))
    assert np.argwhere(sample.valid).tolist() == [[2, 3]]
    assert sample.flow[2, 3].tolist() == [-1.5, 0.25]


def test_images_of_16_bits_become_8(files):
    write_image(files.first, np.full((H, W, 3), (256, 512, 65535), np.uint16))
    write_flow(files.flow, np.zeros((H, W, 2), np.float32))
    assert read_sample(files).first[0, 0].tolist() == [1, 2, 255]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pfm_has_its_bottom_row_first_and_three_channels(files, tmp_path, order):
    flow = np.arange(H * W * 2, dtype=np.float32).reshape(H, W, 2)
    write_pfm(tmp_path / "flow.pfm", flow, order=order)
    sample = read_sample(PairFiles(files.first, files.second, tmp_path / "flow.pfm"))
    np.testing.assert_array_equal(sample.flow, flow)


def test_damaged_files_are_told(files, tmp_path):
    pfm = tmp_path / "flow.pfm"
    pair = PairFiles(files.first, files.second, pfm)
    with pytest.raises(FlowFileError, match=r"there is no file .*flow\.pfm"):
        read_sample(pair)
    for content in (b"", b"Pf\n6 4\n-1.0\n" + bytes(96), b"PF\n6 x\n-1.0\n"):
        pfm.write_bytes(content)
        with pytest.raises(FlowFileError, match=r"flow\.pfm"):
            read_sample(pair)
    write_pfm(pfm, np.zeros((H, W, 2), np.float32), extra=b"0")
    with pytest.raises(FlowFileError, match=r"flow\.pfm.*301"):
        read_sample(pair)
    write_pfm(pfm, np.zeros((H, W + 1, 2), np.float32))
    with pytest.raises(ImageError, match=r"1\.png is 6 x 4 pixels but its true flow, .* is 7 x 4"):
        read_sample(pair)
    files.first.write_bytes(files.first.read_bytes()[:50])
    with pytest.raises(ImageError, match="cut short"):
        read_sample(pair)
    files.first.write_bytes(b"text")
    with pytest.raises(ImageError, match="not an image"):
        read_sample(pair)
    files.first.unlink()
    with pytest.raises(ImageError, match="there is no file"):
        read_sample(pair)
