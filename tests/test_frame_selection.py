import pytest

from pwcflow.frame_selection import (
    FrameSelection,
    RawFormat,
    parse_moment,
    parse_raw,
    parse_reader,
    parse_size,
    reached,
    selection_of,
)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", 0),
        ("100", 100),
        ("12.5s", 12.5),
        ("0s", 0.0),
        (".5s", 0.5),
        ("3.s", 3.0),
        ("1:30", 90.0),
        ("0:01:30.5", 90.5),
        ("2:00:00", 7200.0),
    ],
)
def test_a_moment_is_a_frame_or_a_time(text, moment):
    parsed = parse_moment(text)
    assert (parsed, type(parsed)) == (moment, type(moment))


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "s", "1 s", "1:2:3:4", "1e3", "five", "٣", "nans"]
)
def test_what_is_no_moment_is_told_in_one_line(text):
    with pytest.raises(ValueError, match="neither a frame number, as 100, nor a time") as caught:
        parse_moment(text)
    assert "\n" not in str(caught.value)


def test_sizes_and_raw_formats_are_read():
    assert parse_size("640x360") == (640, 360)
    assert parse_size("1X2") == (1, 2)
    assert parse_raw("640x360:rgb24") == RawFormat(640, 360, "rgb24")
    assert parse_raw("7x5:gray16le") == RawFormat(7, 5, "gray16le")
    assert parse_reader("av") == "av"


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_size, "640", "640 is not a size"),
        (parse_size, "640x0", "640x0 is not a size"),
        (parse_size, "640x-1", "is not a size"),
        (parse_raw, "640x360", "640x360 is no raw format.*rgb24, bgr24, gray"),
        (parse_raw, "640x360:nv99", "no raw format"),
        (parse_raw, "0x4:gray", "0x4 is not a size"),
        (parse_raw, "5x4:yuv420p", "even sides"),
        (parse_reader, "vlc", "vlc is not one of auto, opencv and av"),
    ],
)
def test_mistakes_are_told(parse, text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"step": 0}, "step must be 1 or more, not 0"),
        ({"start": 5, "end": 5}, "end 5 leaves no frames: it must come after start 5"),
        ({"start": 2.5, "end": 1.0}, "end 1s leaves no frames: it must come after start 2.5s"),
        ({"end": 0}, "end 0 leaves no frames"),
        ({"start": -1}, "start must be a frame number or a time from 0 on"),
        ({"end": float("nan")}, "end must be"),
        ({"scale": 0.0}, "scale must be a number above 0"),
        ({"scale": float("inf")}, "scale must be a number above 0"),
        ({"max_side": 0}, "max-side must be 1 or more"),
        ({"size": (4, 0)}, "cannot be resized to 0 pixels"),
        ({"scale": 0.5, "max_side": 100}, "give one"),
        ({"reader": "vlc"}, "reader must be auto, opencv or av"),
    ],
)
def test_a_selection_without_sense_is_refused_in_one_line(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        FrameSelection(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "frames", "fps", "expected"),
    [
        ({}, 40, 25, 40),
        ({}, None, 25, None),
        ({"start": 10}, 40, 25, 30),
        ({"start": 50}, 40, 25, 0),
        ({"end": 12}, None, None, 12),
        ({"start": 3, "end": 12, "step": 4}, 40, 25, 3),  # 3 7 11
        ({"start": 3, "end": 11, "step": 4}, 40, 25, 2),  # 3 7
        ({"end": 100}, 40, 25, 40),
        ({"start": 0.4}, 40, 25, 30),
        ({"start": 0.41}, 40, 25, 29),  # frame 10 is at 0.40, frame 11 the first not before 0.41
        ({"start": 0.4}, 40, None, None),
        ({"start": 0.4, "end": 1.0, "step": 5}, None, 25, 3),  # 10 15 20
    ],
)
def test_how_many_frames_are_expected(values, frames, fps, expected):
    assert FrameSelection(**values).expected(frames, fps) == expected


@pytest.mark.parametrize(
    ("values", "size", "target"),
    [
        ({}, (640, 360), (640, 360)),
        ({"size": (100, 100)}, (640, 360), (100, 100)),
        ({"scale": 0.5}, (640, 360), (320, 180)),
        ({"scale": 0.5}, (5, 7), (2, 4)),
        ({"scale": 0.001}, (640, 360), (1, 1)),
        ({"scale": 2.0}, (3, 5), (6, 10)),
        ({"max_side": 320}, (640, 360), (320, 180)),
        ({"max_side": 320}, (360, 640), (180, 320)),
        ({"max_side": 1000}, (640, 360), (640, 360)),  # never larger
    ],
)
def test_the_size_that_frames_get(values, size, target):
    assert FrameSelection(**values).target(*size) == target


def test_settings_tell_what_differs_from_everything():
    assert FrameSelection().settings() == {}
    selection = FrameSelection(start=12.5, end=400, step=2, size=(640, 360), reader="av")
    assert selection.settings() == {
        "start": "12.5s", "end": "400", "step": 2, "size": "640x360", "reader": "av",
    }  # fmt: skip
    raw = FrameSelection(raw=RawFormat(4, 2, "gray"), max_side=3)
    assert raw.settings() == {"raw": "4x2:gray", "max_side": 3}


@pytest.mark.parametrize(
    "selection",
    [
        FrameSelection(),
        FrameSelection(start=12.5, end=400, step=2, size=(640, 360), reader="av"),
        FrameSelection(start=3, end=4321.123456),  # no digit of a time is lost
        FrameSelection(raw=RawFormat(4, 2, "gray"), scale=0.25),
    ],
    ids=str,
)
def test_a_selection_comes_back_from_its_settings(selection):
    assert selection_of(selection.settings()) == selection


@pytest.mark.parametrize(
    "settings",
    [
        {"colour": 1}, {"start": "soon"}, {"step": 0}, {"step": 1.5}, {"start": None},
        {"start": "9" * 400}, {"raw": [64, 48, "rgb24"]}, {"raw": 3}, {"max_side": True},
    ],
    ids=lambda settings: str(settings)[:20],
)  # fmt: skip
def test_settings_of_something_else_are_no_selection(settings):
    with pytest.raises(ValueError, match=r"colour|soon|step|start|999|raw|max_side"):
        selection_of(settings)


def test_a_time_is_reached_in_spite_of_rounding():
    assert reached(0.12, 3, 0.1199999999)
    assert not reached(0.12, 3, 0.1199)
    assert reached(3, 3, None)
    assert not reached(0.0, 3, None)


def test_a_time_of_more_hours_than_a_float_holds_is_refused():
    with pytest.raises(ValueError, match="a time from 0 on, not inf"):
        FrameSelection(start=parse_moment("9" * 400 + ":00:00"))
