"""Frames that are images: folders, patterns, pages and animations."""

import re

import cv2
import numpy as np
import pytest

from pwcflow.errors import ImageError, PwcFlowError, VideoError
from pwcflow.frame_selection import FrameSelection
from pwcflow.video import open_frames
from tests.video_samples import HEIGHT, WIDTH, index_of, picture


def indices(path, **selection):
    with open_frames(path, FrameSelection(**selection)) as frames:
        return [index_of(frame) for frame in frames]


def write_images(folder, names):
    """Images that show the last number in their names."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), picture(int("".join(filter(str.isdigit, path.stem))[-3:])))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("f%d.png", [1, 2, 9, 10, 100]),  # natural order, with gaps
        ("f%03d.png", [7, 100]),
        ("f*.png", [1, 2, 7, 9, 10, 100]),
        ("f?.png", [1, 2, 9]),
        ("f[12].png", [1, 2]),
        ("*", [1, 2, 7, 9, 10, 100]),
    ],
)
def test_a_pattern_stands_for_its_images_in_natural_order(tmp_path, pattern, expected):
    names = ["f1.png", "f10.png", "f2.png", "f9.png", "f100.png", "f007.png"]
    write_images(tmp_path, names)
    (tmp_path / "f3.txt").write_text("no frame")
    assert indices(tmp_path / pattern) == expected


def test_a_pattern_may_reach_into_folders(tmp_path):
    write_images(tmp_path, ["b10/f1.png", "b9/f2.png", "b9/f11.png", "other/f5.png"])
    assert indices(tmp_path / "b*" / "f*.png") == [2, 11, 1]
    assert indices(tmp_path / "**" / "*.png") == [2, 11, 1, 5]


def test_a_file_of_just_that_name_is_no_pattern(tmp_path):
    write_images(tmp_path, ["f[1]/f8.png", "f[1]/f9.png", "f1/f3.png", "f1/f4.png"])
    assert indices(tmp_path / "f[1]") == [8, 9]


@pytest.mark.parametrize("pattern", ["g%04d.png", "*.jpg", "none/f%d.png", "f%d.txt"])
def test_a_pattern_without_frames_is_told_in_one_line(tmp_path, pattern):
    (tmp_path / "f1.txt").write_text("no frame")
    with pytest.raises(VideoError, match=r"stands for no frames: .*; check the pattern") as caught:
        open_frames(tmp_path / pattern)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_the_pages_of_a_tiff_are_frames(tmp_path, dtype):
    path = tmp_path / "stack.tif"
    full = int(np.iinfo(dtype).max)
    pages = [picture(index)[..., 0].astype(dtype) * (full // 255) for index in range(12)]
    cv2.imwritemulti(str(path), pages)
    with open_frames(path, FrameSelection(start=2, step=3)) as source:
        frames = list(source)
    assert [frame.dtype for frame in frames] == [dtype] * 4
    assert [index_of(frame // (full // 255)) for frame in frames] == [2, 5, 8, 11]
    assert (source.expected_frames, source.timestamps) == (4, None)


def test_a_tiff_of_one_page_is_a_still_image(tmp_path):
    cv2.imwrite(str(tmp_path / "a.tif"), picture(1))
    with pytest.raises(VideoError, match="is a still image"):
        open_frames(tmp_path / "a.tif")


def animation(indices, durations):
    animated = cv2.Animation()
    animated.frames = [picture(index) for index in indices]
    animated.durations = durations
    return animated


needs_animations = pytest.mark.skipif(
    not hasattr(cv2, "imencodeanimation"), reason="OpenCV 4.11 began to write animations"
)


@needs_animations
@pytest.mark.parametrize("suffix", [".gif", ".png", ".webp"])
def test_an_animation_has_frames_and_times(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    assert cv2.imwriteanimation(str(path), animation([3, 7, 12, 1], [40, 100, 50, 60]))
    with open_frames(path) as source:
        frames = list(source)
    assert [index_of(frame) for frame in frames] == [3, 7, 12, 1]
    assert {frame.shape for frame in frames} == {(HEIGHT, WIDTH, 3)}
    if suffix == ".webp" or tuple(map(int, cv2.__version__.split(".")[:2])) >= (4, 13):
        assert source.timestamps == pytest.approx([0, 0.04, 0.14, 0.19], abs=1e-3)


@needs_animations
@pytest.mark.parametrize("share", [0.2, 0.6, 0.95, 0.999])
@pytest.mark.parametrize("suffix", [".gif", ".png", ".webp"])
def test_a_cut_animation_gives_its_good_frames_and_then_an_error(tmp_path, suffix, share):
    path = tmp_path / f"a{suffix}"
    cv2.imwriteanimation(str(path), animation(range(20), [40] * 20))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    seen = []
    with pytest.raises(PwcFlowError) as caught, open_frames(path) as source:
        seen.extend(map(index_of, source))
    assert seen == list(range(len(seen)))
    assert len(seen) >= (0 if suffix == ".webp" else int(19 * share) - 1)
    assert re.search("breaks at frame|is cut short|is damaged|cannot be decoded", str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_a_still_image_is_no_animation(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    cv2.imwrite(str(path), picture(1))
    with pytest.raises(VideoError, match="is a still image"):
        open_frames(path)


@pytest.mark.parametrize("length", range(16, 21))
def test_a_webp_that_ends_before_its_flags_is_told(tmp_path, length):
    path = tmp_path / "a.webp"
    path.write_bytes(b"RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0"[:length])
    with pytest.raises(PwcFlowError, match=r"a still image|cut short|damaged"):
        open_frames(path)


def test_folder_is_read_in_natural_order_without_its_other_files(tmp_path):
    for index in (10, 2, 1, 33):
        cv2.imwrite(str(tmp_path / f"frame{index}.png"), picture(index))
    cv2.imwrite(str(tmp_path / "frame4.BMP"), picture(4))
    (tmp_path / "notes.txt").write_text("not a frame")
    (tmp_path / "._frame1.png").write_bytes(b"left by a Mac")
    (tmp_path / "frame3.png").mkdir()
    with open_frames(tmp_path) as frames:
        assert frames.fps is None
        assert frames.expected_frames == 5
        assert [index_of(frame) for frame in frames] == [1, 2, 4, 10, 33]


def test_folder_of_16_bit_images_keeps_its_bits(tmp_path):
    for index in range(2):
        cv2.imwrite(str(tmp_path / f"{index}.png"), np.full((8, 9, 3), 1000 + index, np.uint16))
    with open_frames(tmp_path) as frames:
        assert [(frame.dtype, int(frame.max())) for frame in frames] == [
            (np.uint16, 1000),
            (np.uint16, 1001),
        ]


def test_folder_without_images_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(VideoError, match=r"holds no images; .*\.png"):
        open_frames(tmp_path)


def test_frame_of_another_size_in_a_folder_is_named_with_both_sizes(tmp_path):
    cv2.imwrite(str(tmp_path / "1.png"), picture(1))
    cv2.imwrite(str(tmp_path / "2.png"), picture(2, width=50, height=40))
    with open_frames(tmp_path) as source, pytest.raises(VideoError) as caught:
        frames = iter(source)
        assert index_of(next(frames)) == 1
        next(frames)
    assert all(text in str(caught.value) for text in ("2.png", "50 x 40", f"{WIDTH} x {HEIGHT}"))


@pytest.mark.parametrize(
    ("last", "dtype", "held"),
    [
        ("3.png", np.uint16, "16-bit integers but the frames before it hold 8-bit integers"),
        ("3.tif", np.float32, "32-bit floats but the frames before it hold 8-bit integers"),
    ],
)
def test_a_frame_of_another_depth_in_a_folder_is_named_with_both_depths(
    tmp_path, last, dtype, held
):
    cv2.imwrite(str(tmp_path / "1.png"), picture(1))
    cv2.imwrite(str(tmp_path / "2.png"), picture(2))
    cv2.imwrite(str(tmp_path / last), np.zeros((HEIGHT, WIDTH, 3), dtype))
    seen = []
    with open_frames(tmp_path) as source, pytest.raises(VideoError) as caught:
        seen.extend(map(index_of, source))
    assert seen == [1, 2]
    assert str(caught.value) == (
        f"{tmp_path / last} holds {held}; all frames must have one bit depth, so save them alike"
    )


def test_a_page_of_another_depth_is_told(tmp_path):
    path = tmp_path / "stack.tif"
    cv2.imwritemulti(str(path), [picture(1), picture(2).astype(np.uint16)])
    with (
        open_frames(path) as source,
        pytest.raises(
            VideoError, match=r"page 1 of .*stack\.tif holds 16-bit .* before it hold 8-bit"
        ),
    ):
        list(source)


def test_gray_colour_and_alpha_may_be_mixed_in_a_folder(tmp_path):
    cv2.imwrite(str(tmp_path / "1.png"), picture(1)[..., 0])
    cv2.imwrite(str(tmp_path / "2.png"), picture(2))
    cv2.imwrite(str(tmp_path / "3.png"), cv2.cvtColor(picture(3), cv2.COLOR_BGR2BGRA))
    assert indices(tmp_path) == [1, 2, 3]


def test_damaged_image_in_a_folder_is_named(tmp_path):
    cv2.imwrite(str(tmp_path / "1.png"), picture(1))
    (tmp_path / "2.png").touch()
    with open_frames(tmp_path) as frames, pytest.raises(ImageError, match=r"2\.png"):
        list(frames)
