"""Which videos files, folders, patterns and lists mean, and where each of them goes."""

import os
import sys
from pathlib import Path

import pytest

from pwcflow.errors import VideoError
from pwcflow.image_file import write_image
from pwcflow.video.find import find_videos, single_video
from tests.command_line import make_video, picture, touch


def found(*inputs, lists=(), outputs=()):
    videos = find_videos(inputs, [Path(name) for name in lists], [Path(name) for name in outputs])
    return {video.place.as_posix(): video.path.as_posix() for video in videos}


# which videos are meant


def test_a_folder_is_searched_at_any_depth_in_natural_order(here):
    touch(
        *("clips/b.mp4", "clips/a 10.MOV", "clips/a 2.mov", "clips/日本/フレーム.avi"),
        *("clips/notes.txt", "clips/poster.jpg", "clips/._b.mp4", "clips/.hidden/c.mp4"),
        *("clips/shot/1.png", "clips/shot/2.png", "clips/shot/more/x.mkv", "clips/empty/y.txt"),
    )
    assert list(found("clips").items()) == [
        ("a 2.mov", "clips/a 2.mov"),
        ("a 10.MOV", "clips/a 10.MOV"),
        ("b.mp4", "clips/b.mp4"),
        ("shot", "clips/shot"),
        ("shot/more/x.mkv", "clips/shot/more/x.mkv"),
        ("日本/フレーム.avi", "clips/日本/フレーム.avi"),
    ]


@pytest.mark.parametrize(
    ("files", "is_one"),
    [
        (["1.png", "2.png"], True),
        (["1.png", "2.png", "made.mp4"], True),  # a colour video among its frames
        (["1.png", "notes.txt", "in/x.mp4"], True),
        (["1.png", "a.mp4"], False),  # a poster among videos
        (["1.png", "a.mp4", "b.mp4"], False),
        (["a.mp4"], False),
        (["in/a.mp4"], False),
    ],
)
def test_a_folder_is_one_video_or_many_by_what_it_holds(here, files, is_one):
    touch(*(f"clips/{file}" for file in files))
    assert single_video(["clips"], []) == (Path("clips") if is_one else None)
    videos = [f"clips/{file}" for file in files if file.endswith(".mp4")]
    assert sorted(found("clips").values()) == (["clips"] if is_one else videos)


@pytest.mark.parametrize(
    "given",
    [
        *("a.mp4", "a.xyz", "missing.mp4", "frames", "*.png", "f%04d.png", "-", "[1].mp4"),
        *("@x.mp4", "camera:0"),
    ],
)
def test_one_input_is_one_video(here, given):
    touch("a.mp4", "a.xyz", "frames/1.png", "frames/2.png", "[1].mp4", "@x.mp4")
    assert single_video([given], []) == Path(given)


@pytest.mark.parametrize(
    "given", [["a.mp4", "b.mp4"], ["*.mp4"], ["b*"], ["@list.txt"], ["empty"], ["missing*.mp4"]]
)
def test_the_number_of_videos_just_now_is_no_matter(here, given):
    touch("a.mp4")
    Path("empty").mkdir()
    assert single_video(given, []) is None
    assert single_video(["a.mp4"], [Path("list.txt")]) is None


def test_patterns_find_videos_and_folders_of_frames(here):
    touch("x/a.mp4", "x/b.avi", "x/n.txt", "x/c.odd", "x/in/d.mp4", "x/shot/1.png", "x/shot/2.png")
    assert list(found("x/*.mp4")) == ["a.mp4"]
    assert list(found("x/*.odd")) == ["c.odd"]
    assert list(found("x/*")) == ["a.mp4", "b.avi", "in/d.mp4", "shot"]
    assert list(found("x/**")) == ["a.mp4", "b.avi", "in/d.mp4", "shot"]
    assert list(found("x/**/*.mp4")) == ["a.mp4", "in/d.mp4"]
    assert list(found("*/?.mp4")) == ["x/a.mp4"]
    assert found("x/shot/*.png", "x/a.mp4") == {"shot": "x/shot/*.png", "a.mp4": "x/a.mp4"}
    assert list(found(str(here / "x" / "*.mp4"))) == ["a.mp4"]
    with pytest.raises(VideoError, match=r"no video matches x/\*\.mkv; check the pattern"):
        found("x/*.mkv")


def test_the_images_that_a_shell_finds_are_no_videos(here):
    for name in ("0.png", "1.png"):
        write_image(Path(name), picture())
    with pytest.raises(VideoError, match=r"0\.png is a still image.*folder of frames"):
        found("0.png", "1.png")


def test_a_video_is_done_once_however_often_it_is_named(here):
    touch("x/a.mp4")
    assert found("x/a.mp4", "x", "x/*.mp4", "./x/../x/a.mp4") == {"a.mp4": "x/a.mp4"}


def test_a_video_that_is_linked_to_is_done_at_each_of_its_places(here):
    touch("x/red/a.mp4")
    Path("x/big").mkdir()
    Path("x/big/a.mp4").symlink_to(here / "x/red/a.mp4")
    assert list(found("x")) == ["big/a.mp4", "red/a.mp4"]


def test_a_link_that_leads_back_is_followed_once(here):
    touch("x/a.mp4", "y/b.mp4")
    Path("x/back").symlink_to(here / "x", target_is_directory=True)
    Path("x/more").symlink_to(here / "y", target_is_directory=True)
    assert list(found("x")) == ["a.mp4", "more/b.mp4"]


def test_a_pattern_follows_no_link_that_leads_back_or_nowhere(here):
    touch("clips/a/1.mp4", "clips/2.mp4")
    Path("clips/a/loop").symlink_to("..")
    Path("clips/gone.mp4").symlink_to("nowhere.mp4")
    assert sorted(found("clips/**/*.mp4").values()) == [
        "clips/2.mp4",
        "clips/a/1.mp4",
    ]


def test_results_are_not_taken_for_videos(here):
    touch("x/a.mp4", "x/out/a.mp4/flow.mp4")
    for given in ("x", "x/*", "x/**", "x/**/*.mp4"):
        assert list(found(given, outputs=["x/out"])) == ["a.mp4"]
    with pytest.raises(VideoError, match="x is to take the results; choose another folder"):
        found("x", outputs=["x"])


def test_a_folder_without_videos_is_told(here):
    touch("x/notes.txt")
    with pytest.raises(VideoError, match="x holds no images and no videos"):
        found("x")


# where they go


def test_names_that_differ_in_their_suffix_go_to_two_places(here):
    touch("x/a.mp4", "x/a.avi", "x/a")
    assert list(found("x/a.mp4", "x/a.avi", "x/a")) == ["a.mp4", "a.avi", "a"]


def test_videos_of_one_name_go_by_the_paths_in_which_they_differ(here):
    touch("x/1/a.mp4", "x/2/a.mp4", "x/b.mp4")
    assert found("x/1/a.mp4", "x/2", "x/b.mp4") == {
        "1/a.mp4": "x/1/a.mp4",
        "2/a.mp4": "x/2/a.mp4",
        "b.mp4": "x/b.mp4",
    }


def test_videos_that_cannot_be_told_apart_are_refused(here):
    touch("x/1/a.mp4", "x/2/a.mp4", "y/1/a.mp4")
    with pytest.raises(VideoError, match=r"a\.mp4 would both go into 1/a\.mp4; give the folder"):
        found("x/1/a.mp4", "x/2/a.mp4", "y")


def test_the_place_never_leads_out_of_the_outputs(here):
    touch("x/a.mp4", "x/in/b.mp4", "shot/1.png", "shot/2.png")
    os.chdir("x/in")
    assert found("../a.mp4", "..") == {"a.mp4": "../a.mp4", "in/b.mp4": "../in/b.mp4"}
    os.chdir(here / "shot")
    assert found(".", "../x/a.mp4") == {"shot": ".", "a.mp4": "../x/a.mp4"}
    assert list(found("/../" + str(here / "x" / "a.mp4"), ".")) == ["a.mp4", "shot"]


# lists


LIST = 'a.mp4\nsub/b c.mp4\n\n   \n# a comment\n  d.mp4  \n"e f.mp4"\n*.avi\nmissing.mp4\n#a.mp4\n'


@pytest.mark.parametrize(
    "data",
    [
        LIST.encode(),
        LIST.encode().rstrip(),
        LIST.replace("\n", "\r\n").encode(),
        LIST.encode("utf-8-sig"),
        LIST.replace("\n", "\r\n").encode("utf-16"),
        b"\xfe\xff" + LIST.encode("utf-16-be"),
    ],
    ids=["plain", "no end", "CRLF", "BOM", "UTF-16", "UTF-16 BE"],
)
@pytest.mark.parametrize("folder", [".", "lists"])
def test_a_list_may_be_written_in_many_ways(here, data, folder):
    Path("lists").mkdir()
    for name in ("a.mp4", "sub/b c.mp4", "d.mp4", "e f.mp4", "g.avi", "#a.mp4"):
        touch(f"{folder}/{name}")
    Path(folder, "list.txt").write_bytes(data)
    names = ["a.mp4", "b c.mp4", "d.mp4", "e f.mp4", "g.avi", "missing.mp4"]
    assert list(found(f"@{folder}/list.txt")) == names
    assert list(found(lists=[f"{folder}/list.txt"])) == names
    assert found(f"@{folder}/list.txt")["missing.mp4"] == "missing.mp4"


def test_an_entry_is_looked_for_here_before_it_is_beside_the_list(here):
    touch("a.mp4", "lists/a.mp4", "lists/b.mp4")
    Path("lists/list.txt").write_text(f"a.mp4\nb.mp4\n{here / 'lists' / 'a.mp4'}\n")
    assert list(found("@lists/list.txt").values()) == [
        "a.mp4",
        "lists/b.mp4",
        (here / "lists" / "a.mp4").as_posix(),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_list_may_hold_names_that_are_no_text(here):
    name = os.fsdecode(b"\xff.mp4")
    touch(name)
    Path("list.txt").write_bytes(b"\xff.mp4\n")
    assert found("@list.txt") == {name: name}


def test_a_list_that_is_none_is_told(here):
    make_video(Path("a.mp4"), 2)
    Path("empty.txt").write_text("# nothing\n\n")
    with pytest.raises(VideoError, match=r"a\.mp4 is not a list, which is text"):
        found("@a.mp4")
    with pytest.raises(VideoError, match=r"there is no list none\.txt"):
        found(lists=["none.txt"])
    with pytest.raises(VideoError, match="no videos are named by the lists"):
        found("@empty.txt")
