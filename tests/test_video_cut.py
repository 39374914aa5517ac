"""Cut and damaged video files give their good frames and then an error, and whole ones none."""

import struct

import numpy as np
import pytest

from pwcflow.errors import VideoError
from pwcflow.frame_selection import FrameSelection
from pwcflow.video import open_frames
from tests.video_samples import CODECS, FRAMES, cut, index_in_front, index_of, write_video


def indices(path):
    """The indices seen before the end, and the error that ended it, if any."""
    seen = []
    with open_frames(path) as frames:
        try:
            seen.extend(index_of(frame) for frame in frames)
        except VideoError as error:
            return seen, str(error)
    return seen, None


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("suffix", CODECS)
def test_truncated_video_gives_its_good_frames_and_then_an_error(tmp_path, suffix, share):
    path = write_video(tmp_path / f"a{suffix}")
    if suffix in (".mp4", ".mov"):
        index_in_front(path)
        assert indices(path) == (list(range(FRAMES)), None)
    cut(path, share)
    seen, error = indices(path)
    assert 0 < len(seen) < FRAMES
    assert seen == list(range(len(seen)))
    assert f"breaks at frame {len(seen)}" in error
    assert "\n" not in error


@pytest.mark.parametrize("suffix", CODECS)
def test_video_with_a_tail_of_zeros_ends_in_an_error(tmp_path, suffix):
    path = write_video(tmp_path / f"a{suffix}")
    if suffix in (".mp4", ".mov"):
        index_in_front(path)
    data = path.read_bytes()  # a download that reserved its space and then broke off
    path.write_bytes(data[: int(len(data) * 0.6)].ljust(len(data), b"\0"))
    seen, error = indices(path)
    assert 0 < len(seen) < FRAMES
    assert f"breaks at frame {len(seen)}" in error


@pytest.mark.parametrize("reader", ["opencv", "av"])
@pytest.mark.parametrize("suffix", [".mkv", ".webm"])
def test_a_matroska_file_damaged_within_a_cluster_is_not_taken_for_a_shorter_one(
    tmp_path, suffix, reader
):
    if reader == "av":
        pytest.importorskip("av")
    path = write_video(tmp_path / f"a{suffix}")
    data = bytearray(path.read_bytes())
    third = len(data) // 3
    noise = np.random.default_rng(0).integers(0, 256, 3 * len(data) // FRAMES, np.uint8)
    data[third : third + len(noise)] = noise.tobytes()  # three frames with their heads
    path.write_bytes(data)
    with (
        open_frames(path, FrameSelection(reader=reader)) as frames,
        pytest.raises(VideoError, match=r"breaks at frame \d+ .*the file is damaged"),
    ):
        list(frames)


def test_truncated_mp4_with_its_index_at_the_end_is_said_to_be_cut_off(tmp_path):
    path = write_video(tmp_path / "a.mp4")
    cut(path, 0.9)
    with pytest.raises(VideoError, match=r"a\.mp4 is cut off: the index"):
        open_frames(path)


def test_avi_that_lost_only_its_index_is_complete(tmp_path):
    path = write_video(tmp_path / "a.avi")
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"idx1") + 20])
    assert indices(path) == (list(range(FRAMES)), None)


@pytest.mark.parametrize("fill", [None, b"\0"], ids=["cut", "zeros"])
@pytest.mark.parametrize("extra", [-2, 0, 3, 8, 9, 40, 700])
def test_avi_keeps_the_whole_frames_around_a_cut(tmp_path, extra, fill):
    path = write_video(tmp_path / "a.avi")
    data = path.read_bytes()
    header = data.index(b"movi")
    for _ in range(21):
        header = data.index(b"00dc", header + 1)
    start = data[: header + extra]
    path.write_bytes(start.ljust(len(data), fill) if fill else start)
    seen, error = indices(path)
    assert seen == list(range(20 if extra >= 0 else 19))
    assert f"breaks at frame {len(seen)} of {FRAMES}" in error


def test_one_undecodable_packet_is_not_skipped(tmp_path):
    path = write_video(tmp_path / "a.mp4")
    data = bytearray(path.read_bytes())
    table = data.index(b"stsz") + 16
    sizes = struct.unpack_from(f">{FRAMES}I", data, table)
    start = data.index(b"mdat") + 4 + sum(sizes[:20])
    data[start : start + sizes[20]] = bytes(sizes[20])
    path.write_bytes(data)
    seen, error = indices(path)
    assert seen == list(range(20))
    assert f"breaks at frame 20 of {FRAMES}" in error


def test_sample_table_that_promises_more_than_there_is_ends_in_an_error(tmp_path):
    path = index_in_front(write_video(tmp_path / "a.mp4"))
    data = path.read_bytes()
    start = data.index(b"mdat") - 4  # a length of 0 means "to the end of the file"
    path.write_bytes((data[:start] + bytes(4) + data[start + 4 :])[: int(len(data) * 0.7)])
    seen, error = indices(path)
    assert 0 < len(seen) < FRAMES
    assert f"breaks at frame {len(seen)} of {FRAMES}" in error


def test_mp4_shortened_by_its_edit_list_is_sound(tmp_path):
    path = write_video(tmp_path / "a.mp4")
    data = path.read_bytes()
    start = data.index(b"elst") + 12
    units = struct.unpack_from(">I", data, start)[0]
    edited = struct.pack(">I", units * 25 // FRAMES)
    path.write_bytes(data[:start] + edited + data[start + 4 :])
    seen, error = indices(path)
    assert error is None
    assert seen == list(range(len(seen)))
    assert 25 <= len(seen) <= 27 < FRAMES


@pytest.mark.parametrize("suffix", CODECS)
def test_decoders_do_not_write_to_stderr_over_a_damaged_video(tmp_path, capfd, suffix):
    path = write_video(tmp_path / f"a{suffix}")
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 2, len(data) * 4 // 5, 97):
        data[place] = 0
    path.write_bytes(data)
    indices(path)
    assert capfd.readouterr() == ("", "")
