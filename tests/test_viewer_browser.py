"""The page in a real browser: what it tells and does."""

from pathlib import Path

import numpy as np
import pytest

from pwcflow.color import flow_to_color
from pwcflow.flow_file import write_flow
from pwcflow.image_file import write_image
from pwcflow.viewer import view
from tests.viewer_page import (
    HEIGHT,
    WIDTH,
    box_of,
    colors_at,
    hover,
    needs_chromium,
    open_page,
    place_of,
    text,
)

pytestmark = needs_chromium

FRAMES = [(200, 0, 0), (0, 200, 0), (0, 0, 200), (200, 200, 0)]
NASTY = "<script>window.hit = 1<&\"'$title 日本.flo"


@pytest.fixture(scope="module")
def sequence(tmp_path_factory):
    """Three flows between four frames of one colour each; the scale is 8 px, the step 1/64 px."""
    folder = tmp_path_factory.mktemp("sequence")
    (folder / "frames").mkdir()
    (folder / "flows").mkdir()
    for number, color in enumerate(FRAMES):
        write_image(
            folder / "frames" / f"{number}.png", np.full((HEIGHT, WIDTH, 3), color, np.uint8)
        )
    for number in range(3):
        flow = np.zeros((HEIGHT, WIDTH, 2), np.float32)
        flow[..., 0] = number + 1
        flow[7, 5] = 3, -4
        flow[20, 10] = np.nan
        flow[29, 39] = 0, 8
        flow[0, 0] = 1.006, 0.01  # 64.4 and 0.64 steps
        write_flow(folder / "flows" / f"{number:06d}.flo", flow)
    page = folder / "page.html"
    view([folder / "flows"], page, frames=[folder / "frames"], fps=200)
    return page


@pytest.fixture
def page(browser, sequence):
    """The sequence in the browser, freshly loaded."""
    open_page(browser, sequence)
    return browser


def test_the_page_loads_without_complaint_or_request(page, sequence):
    assert page.complaints() == []
    outside = [url for url in page.requests() if not url.startswith("data:")]
    assert outside == [sequence.as_uri()]
    assert text(page, "position") == "1 of 3"
    assert text(page, "name") == "000000.flo · 40 x 30 px"


def test_hovering_tells_the_vector(page):
    assert text(page, "value-u") == "-"
    # angle: atan2(-4, 3) is -53.13 degrees
    assert hover(page, 5, 7) == ["(5, 7)", "3.000 px", "-4.000 px", "5.000 px", "306.9°"]
    assert hover(page, 39, 29) == ["(39, 29)", "0.000 px", "8.000 px", "8.000 px", "90.0°"]
    assert hover(page, 20, 20) == ["(20, 20)", "1.000 px", "0.000 px", "1.000 px", "0.0°"]
    # 64 steps and 1 step, of 1/64 px: not farther from the file than half a step
    assert hover(page, 0, 0)[1:3] == ["1.000 px", "0.016 px"]
    assert text(page, "precision") == "0.0078"


def test_hovering_over_an_unknown_pixel_says_so(page):
    assert hover(page, 10, 20) == ["(10, 20)", *["unknown"] * 4]
    assert text(page, "unknown") == "< 0.1 %"  # 1 of 1,200


def test_values_beside_the_picture_are_none(page):
    page.resize(1000, 900)  # now there is room above
    hover(page, 20, -1)
    assert text(page, "at") == "-"
    page.resize(1000, 700)


def test_playing_advances_over_the_end_and_pauses(page):
    page.key(" ")
    page.wait_for("document.getElementById('position').textContent === '3 of 3'")
    page.wait_for("document.getElementById('position').textContent === '1 of 3'")
    page.key(" ")
    assert page.run("document.getElementById('play').getAttribute('aria-label')") == "Play"
    page.run("document.getElementById('play').click()")
    page.wait_for("document.getElementById('position').textContent === '2 of 3'")
    assert page.run("document.getElementById('play').getAttribute('aria-label')") == "Pause"


def test_stepping_shows_each_flow_and_its_frames(page):
    page.key("1")
    for number in (0, 1, 2):
        page.wait_for(f"document.getElementById('position').textContent === '{number + 1} of 3'")
        assert hover(page, 20, 20)[1] == f"{number + 1}.000 px"
        shown = colors_at(page, [place_of(page, 5, 25), place_of(page, 35, 25)])
        np.testing.assert_allclose(shown, [FRAMES[number], FRAMES[number + 1]], atol=8)  # WebP
        page.key("ArrowRight")
    page.wait_for("document.getElementById('position').textContent === '1 of 3'")
    page.key("End")
    page.wait_for("document.getElementById('position').textContent === '3 of 3'")
    page.key("Home")
    page.wait_for("document.getElementById('position').textContent === '1 of 3'")
    page.run(
        "timeline = document.getElementById('timeline'); timeline.value = 1;"
        "timeline.dispatchEvent(new Event('input'))"
    )
    page.wait_for("document.getElementById('position').textContent === '2 of 3'")


def test_the_divider_is_moved_by_pointer_and_keys(page):
    place = place_of(page, 14, 25)  # left of the middle
    frame, flow = FRAMES[0], (255, 223, 223)  # an eighth of the scale to the right: 255 * 7/8
    np.testing.assert_allclose(colors_at(page, [place])[0], frame, atol=8)
    left, top, width, height = box_of(page, "divider")
    middle = left + width / 2, top + height / 2
    page.drag(middle, (place[0] - 60, middle[1]))
    np.testing.assert_allclose(colors_at(page, [place])[0], flow, atol=1)
    assert text(page, "side-left") == "first frame"
    assert text(page, "side-right") == "flow"
    now = "Number(document.getElementById('divider').getAttribute('aria-valuenow'))"
    before = page.run(now)
    page.key(".")
    assert page.run(now) == before + 2
    page.run("document.getElementById('divider').focus()")
    page.key("End")
    assert page.run(now) == 100
    np.testing.assert_allclose(colors_at(page, [place_of(page, 38, 25)])[0], frame, atol=8)
    page.key("x")
    assert page.run(now) == 0
    np.testing.assert_allclose(colors_at(page, [place_of(page, 1, 25)])[0], flow, atol=1)


def test_views_are_chosen_by_keys_and_buttons(page):
    place = [place_of(page, 3, 25), place_of(page, 36, 25)]
    flow = (255, 223, 223)
    page.key("4")
    np.testing.assert_allclose(colors_at(page, place), [flow, flow], atol=1)
    assert page.run("document.getElementById('divider').hidden")
    page.key("1")
    np.testing.assert_allclose(colors_at(page, place), FRAMES[:2], atol=8)
    page.run("document.querySelector('input[value=compare]').click()")
    np.testing.assert_allclose(colors_at(page, place), [FRAMES[0], flow], atol=8)


def test_a_pixel_is_marked_by_keys_and_by_a_click(page):
    page.key("ArrowRight", shift=True)
    assert text(page, "at") == "(20, 15)"
    page.key("ArrowRight", shift=True)
    page.key("ArrowUp", shift=True)
    assert text(page, "at") == "(21, 14)"
    assert text(page, "spoken") == (
        "(21, 14): u 1.000 px, v 0.000 px, magnitude 1.000 px, angle 0.0°"
    )
    page.key("Escape")
    assert text(page, "at") == "-"
    page.click(*place_of(page, 5, 7))
    assert hover(page, 30, 20)[:2] == ["(5, 7)", "3.000 px"]  # the mark stays
    page.key("ArrowRight")
    page.wait_for("document.getElementById('position').textContent === '2 of 3'")
    assert text(page, "value-v") == "-4.000 px"
    page.click(*place_of(page, 5, 7))
    assert hover(page, 30, 20)[0] == "(30, 20)"


def test_zooming_keeps_the_pixel_under_the_pointer_and_dragging_pans(page):
    page.key("4")
    x, y = place_of(page, 5, 7)
    page.mouse("wheel", x, y, deltaX=0, deltaY=-400)
    page.wait_for("document.getElementById('zoom').textContent !== '2000 %'")
    page.mouse("moved", x, y)
    assert text(page, "at") == "(5, 7)"
    zoomed = text(page, "zoom")
    page.drag((x, y), (x + 100, y + 50))
    page.mouse("moved", x + 100, y + 50)
    assert text(page, "at") == "(5, 7)"
    assert text(page, "zoom") == zoomed
    page.key("0")
    assert hover(page, 5, 7)[0] == "(5, 7)"
    page.key("o")
    assert text(page, "zoom") == "100 %"
    page.key("+")
    assert text(page, "zoom") == "125 %"


def test_the_keys_are_listed_on_demand(page):
    page.key("?")
    assert page.run("document.getElementById('help').open")
    assert "previous, next flow" in text(page, "help")
    page.run("document.querySelector('#help button').click()")
    assert not page.run("document.getElementById('help').open")


def test_every_control_has_a_name(page):
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "slider", "radio", "spinbutton", "image", "radiogroup")
    found = [
        (node["role"]["value"], node["name"]["value"])
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in roles
    ]
    assert {role for role, _ in found} == set(roles)
    assert [role for role, name in found if not name.strip()] == []
    assert ("slider", "Divider between first frame and flow") in found
    assert ("button", "Play") in found


def test_it_is_dark_for_whoever_wants_it(page):
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.run(background) == "rgb(244, 245, 247)"
    page.media(prefers_color_scheme="dark")
    assert page.run(background) == "rgb(20, 22, 26)"
    page.media(prefers_color_scheme="light")


def test_the_legend_is_the_wheel(browser, sequence):
    open_page(browser, sequence)
    wheel = np.array(
        browser.run(
            "(() => { const wheel = document.getElementById('wheel');"
            "const size = wheel.width; const context = wheel.getContext('2d');"
            "const at = (x, y) => [...context.getImageData("
            "(size - 1) / 2 + 0.4 * size * x, (size - 1) / 2 + 0.4 * size * y, 1, 1).data];"
            "return [at(1, 0.1), at(0, 1), at(-1, 0), at(0, -1), at(1.2, 0)]; })()"
        )
    )
    assert wheel[4, 3] == 0  # beyond the rim there is nothing
    vectors = np.array([[(1, 0.1), (0, 1), (-1, 0), (0, -1)]], np.float32) * 0.4 / 0.45
    np.testing.assert_allclose(wheel[:4, :3], flow_to_color(vectors, 1)[0], atol=4)


def test_flow_alone_works_too_and_names_cannot_run(browser, tmp_path):
    write_flow(tmp_path / NASTY, np.full((6, 8, 2), 2, np.float32))
    title = "</title><script>window.hit = 1</script>"
    view([tmp_path / NASTY], tmp_path / "日本.html", title=title)
    open_page(browser, tmp_path / "日本.html")
    assert browser.complaints() == []
    assert browser.run("window.hit") is None
    assert browser.run("document.title") == title
    assert text(browser, "name") == f"{NASTY} · 8 x 6 px"
    assert browser.run("document.querySelector('input[value=frames]').disabled")
    browser.key("1")  # is not to be had
    assert browser.run("document.querySelector('input[value=flow]').checked")
    place = place_of(browser, 1, 1, width=8, height=6)
    browser.mouse("moved", *place)
    assert text(browser, "value-u") == "2.000 px"
    # to the lower right, as long as the scale: full colour
    expected = flow_to_color(np.full((1, 1, 2), 2, np.float32))[0]
    np.testing.assert_allclose(colors_at(browser, [place]), expected, atol=2)


def test_a_smaller_page_tells_places_and_vectors_of_the_file(browser, tmp_path):
    y, x = np.mgrid[:30, :60].astype(np.float32)
    write_flow(tmp_path / "a.flo", np.stack([x, -y], -1))
    view([tmp_path / "a.flo"], tmp_path / "a.html", max_side=20)
    open_page(browser, tmp_path / "a.html")
    browser.mouse("moved", *place_of(browser, 4, 2, width=20, height=10))
    assert text(browser, "at") == "(13, 7)"  # the middles of 12..14 and 6..8
    assert text(browser, "value-u") == "13.00 px"
    assert text(browser, "value-v") == "-7.00 px"


def test_a_page_that_is_cut_short_says_so(browser, sequence, tmp_path):
    data = Path(sequence).read_bytes()
    (tmp_path / "cut.html").write_bytes(data[: data.index(b'id="flow-1"') - 50])
    open_page(browser, tmp_path / "cut.html")
    browser.key("ArrowRight")
    browser.wait_for("!document.getElementById('message').hidden")
    assert text(browser, "message") == "the page is cut short: it lacks flow-1"
