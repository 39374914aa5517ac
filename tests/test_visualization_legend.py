"""The legend of a picture: its place and size, its colours, its numbers and letters."""

import numpy as np
import pytest

from pwcflow.color import flow_to_color
from pwcflow.errors import OutputError
from pwcflow.visualization.key import MOST_TICKS, bar_length, round_ticks
from pwcflow.visualization.text import draw_text, number
from tests.visualization_scene import WITH_LEGEND, constant, show


@pytest.mark.parametrize("style", WITH_LEGEND)
def test_a_legend_beside_widens_the_picture_and_one_inside_does_not(style):
    flow = constant(3, 4, 400, 400)
    plain = show(style, flow)
    beside, inside = (show(style, flow, legend=place) for place in ("beside", "inside"))
    height, width = plain.shape[:2]
    np.testing.assert_array_equal(beside[:, :width], plain)
    assert beside.shape[0] == height
    assert 1.1 * width < beside.shape[1] < 1.4 * width
    assert inside.shape == plain.shape
    np.testing.assert_array_equal(inside[: height // 4], plain[: height // 4])
    assert (inside != plain).any()


@pytest.mark.parametrize("style", WITH_LEGEND)
@pytest.mark.parametrize("scale", [1e-20, 0.001, 1, 99.96, 12345.6, 1e20])
def test_any_scale_has_a_legend(style, scale):
    assert show(style, constant(0, 0, 40, 50), scale=scale, legend="beside").shape[0] >= 40


@pytest.mark.parametrize("style", WITH_LEGEND)
def test_a_picture_without_room_for_a_legend_says_so_and_is_continued_beside(style):
    with pytest.raises(OutputError, match=r"no room for a legend inside.*use --legend beside"):
        show(style, constant(0, 0, 20, 30), legend="inside")
    image = show(style, constant(0, 0, 1, 1), legend="beside")
    assert image.shape[0] > 50


def test_the_wheel_of_the_legend_has_the_colours_of_the_picture():
    # 360 x 360: a unit of 6 px is raised to 8. The strip is 13 units wide, the wheel has a radius
    # of 4.5 units, and its middle is 1 + 5.5 and 1 + 0.25 + 4.5 units from the strip's corner.
    image = show("wheel", constant(0, 0, 360, 360), legend="beside")
    assert image.shape == (360, 360 + 104, 3)
    x, y = 360 + 52, 46
    assert image[y, x].tolist() == pytest.approx([255] * 3, abs=6)
    for u, v in ((1, 0), (0, 1), (-1, 0), (0, -1), (0.6, 0.6)):
        color = image[round(y + 20 * v), round(x + 20 * u)].astype(int)
        expected = flow_to_color(np.float32([[[u * 20 / 36, v * 20 / 36]]]), 1.0)[0, 0]
        assert np.abs(color - expected).max() < 14  # half a pixel off


def test_the_colour_bar_of_the_legend_goes_from_the_bottom_up():
    image = show("heat", constant(0, 0, 360, 360), legend="beside")
    strip = image[:, 360 + 8 :][:, 8]  # 1 + 1 units in: within the bar, 0.4 to 2.2 units
    rows = (strip != 255).any(axis=1).nonzero()[0]
    bar = strip[rows[-1] - 140 : rows[-1] - 1].astype(int)
    assert bar[-1].tolist() == pytest.approx([68, 1, 84], abs=8)
    assert bar[0, 0] > 200


def test_numbers_are_written_with_three_digits():
    values = {0: "0", 0.5: "0.5", 1: "1", 9.994: "9.99", 27.173: "27.2", 99.96: "100", 1234: "1234"}
    assert {value: number(value) for value in values} == values
    assert number(1e-9) == "1.00e-09"


def test_ticks_and_bars_are_round():
    assert round_ticks(27.2) == [0, 10, 20]
    assert round_ticks(1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert round_ticks(7) == [0, 2, 4, 6]
    assert max(len(round_ticks(largest)) for largest in np.geomspace(1, 10, 500)) == MOST_TICKS
    assert bar_length(436, 1024) == 50
    assert bar_length(1, 1) == 50


def test_a_colour_bar_is_as_low_as_its_picture_while_its_numbers_can_be_read():
    # Seven numbers and a space, of 1.4 units of 8 px each, and 3.4 units more, need 116.8 px; and
    # there is a margin of 8 px above and below.
    assert show("heat", constant(0, 0, 140, 200), legend="beside").shape[0] == 140
    assert show("heat", constant(0, 0, 60, 300), legend="beside").shape[0] == 133


@pytest.mark.parametrize("style", WITH_LEGEND)
def test_the_size_of_a_picture_does_not_depend_on_its_scale(style):
    """Or a video, whose scale grows, would end."""
    for height, width in ((30, 90), (150, 200)):
        sizes = {
            show(style, constant(0, 0, height, width), scale=scale, legend="beside").shape
            for scale in np.geomspace(0.9, 2000, 40)
        }
        assert len(sizes) == 1


@pytest.mark.parametrize("height", [8, 12, 20, 40])
def test_capitals_are_as_high_as_asked(height):
    canvas = np.full((60, 60, 3), 255, np.uint8)
    draw_text(canvas, "H", 5, 50, height, (0, 0, 0))
    rows = (canvas < 128).any(axis=(1, 2)).nonzero()[0]
    assert len(rows) == pytest.approx(height, abs=1 + height / 20)  # whole pixels, and strokes
