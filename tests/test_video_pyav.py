"""PyAV, where it is installed: what OpenCV cannot do, and that the two agree otherwise."""

from fractions import Fraction

import numpy as np
import pytest

from pwcflow import video
from pwcflow.errors import VideoError
from pwcflow.frame_selection import FrameSelection
from pwcflow.video import open_frames
from tests.video_samples import (
    CODECS,
    FRAMES,
    HEIGHT,
    WIDTH,
    corner_colours,
    cut,
    index_in_front,
    index_of,
    interlaced_video,
    picture,
    rotated_video,
    write_video,
)

BY_PYAV = FrameSelection(reader="av")


def test_without_pyav_its_reader_tells_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("pwcflow.video.pyav.pyav_is_here", lambda: False)
    with pytest.raises(VideoError, match="needs PyAV, which is not installed; run: pip install av"):
        open_frames(write_video(tmp_path / "a.mkv", frames=2), BY_PYAV)


@pytest.fixture
def av():
    return pytest.importorskip("av")


def encoded(av, path, codec, draw, *, pixels="yuv420p", source="rgb24", size=None, **options):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height = size or (WIDTH, HEIGHT)
        stream.pix_fmt = pixels
        for index in range(6):
            pixel_rows = draw(index, *size) if size else draw(index)
            frame = av.VideoFrame.from_ndarray(pixel_rows, format=source)
            frame.pts, frame.time_base = index, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def indices(path, selection=BY_PYAV):
    seen = []
    with open_frames(path, selection) as source:
        try:
            seen.extend(map(index_of, source))
        except VideoError as error:
            return seen, str(error), source
    return seen, None, source


@pytest.mark.parametrize("suffix", CODECS)
@pytest.mark.usefixtures("av")
def test_both_readers_see_the_same(tmp_path, suffix):
    path = write_video(tmp_path / f"a{suffix}")
    sources = [open_frames(path, FrameSelection(reader=reader)) for reader in ("opencv", "av")]
    frames = [list(source) for source in sources]
    assert np.array_equal(*frames)
    assert len(frames[0]) == FRAMES
    assert sources[0].timestamps == pytest.approx(sources[1].timestamps, abs=1e-3)
    assert sources[0].fps == sources[1].fps == 25
    assert [source.provenance()["reader"] for source in sources] == ["opencv", "av"]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi"])
@pytest.mark.usefixtures("av")
def test_a_cut_video_gives_its_good_frames_and_then_an_error(tmp_path, suffix):
    path = write_video(tmp_path / f"a{suffix}")
    if suffix == ".mp4":
        index_in_front(path)
    cut(path, 0.6)
    seen, error, _ = indices(path)
    assert 0 < len(seen) < FRAMES
    assert seen == list(range(len(seen)))
    assert f"breaks at frame {len(seen)}" in error


@pytest.mark.usefixtures("av")
def test_rotation_is_applied(tmp_path):
    with open_frames(rotated_video(tmp_path / "a.mp4", (0, 1, -1, 0), 2), BY_PYAV) as source:
        assert {corner_colours(frame) for frame in source} == {"br.g"}


@pytest.mark.usefixtures("av")
def test_interlaced_video_falls_to_pyav(tmp_path):
    path = interlaced_video(tmp_path / "a.avi")
    seen, error, source = indices(path, FrameSelection())
    assert (seen, error) == (list(range(6)), None)
    assert source.reader in ("av", "opencv")  # by the version of OpenCV
    assert indices(path)[0] == list(range(6))


def test_av1_falls_to_pyav(av, tmp_path):
    if "libsvtav1" not in av.codecs_available:
        pytest.skip("this PyAV does not encode AV1")
    path = encoded(av, tmp_path / "a.mp4", "libsvtav1", picture, **{"svtav1-params": "lp=1"})
    assert indices(path, FrameSelection())[0] == list(range(6))


def test_more_than_8_bits_are_kept(av, tmp_path):
    def gray(index):
        return np.full((HEIGHT, WIDTH), index * 1000 + 7, np.uint16)

    path = encoded(
        av, tmp_path / "a.mkv", "ffv1", gray, pixels="gray16le", source="gray16le", level="3"
    )
    with open_frames(path, BY_PYAV) as source:
        frames = list(source)
    assert [(frame.dtype, set(frame.ravel())) for frame in frames] == [
        (np.uint16, {index * 1000 + 7}) for index in range(6)
    ]


def test_a_size_that_changes_on_the_way_is_told(av, tmp_path):
    if "libx264" not in av.codecs_available:
        pytest.skip("this PyAV does not encode H.264")
    parts = [
        encoded(av, tmp_path / "a.ts", "libx264", picture, bf="0"),
        encoded(av, tmp_path / "b.ts", "libx264", picture, size=(64, 48), bf="0"),
    ]
    both = tmp_path / "both.ts"
    both.write_bytes(b"".join(part.read_bytes() for part in parts))
    seen, error, _ = indices(both)
    assert seen == list(range(6))
    assert "frame 6 of" in error
    assert "64 x 48 pixels but the frames before it are 128 x 96" in error


@pytest.mark.usefixtures("av")
def test_a_file_without_pictures_is_told(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(bytes(range(256)) * 9)
    with pytest.raises(VideoError, match="holds no pictures"):
        video.open_frames(path, BY_PYAV)
