import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pwcflow.cli import app
from pwcflow.errors import FlowFileError, OutputError, PwcFlowError, VideoError
from pwcflow.flow_file import write_flow
from pwcflow.frame_selection import FrameSelection
from pwcflow.image_file import write_image
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.viewer import view
from tests.fake_estimator import FakeEstimator

NASTY = "<script>window.hit = 1<&\"'$title 日本.flo"
DATA = re.compile(r'<script type="application/octet-stream" id="([^"]*)"([^>]*)>([^<]*)</script>')
FACT = re.compile(r'data-([a-z-]+)="([^"]*)"')


def flow_of(*vectors, height=4, width=6):
    flow = np.zeros((height, width, 2), np.float32)
    flow[0, : len(vectors)] = vectors
    return flow


def write_flows(folder, count, height=4, width=6):
    folder.mkdir(exist_ok=True)
    for number in range(count):
        write_flow(
            folder / f"{number:06d}.flo", flow_of((number + 1, 0), height=height, width=width)
        )
    return folder


def write_frames(folder, count, height=4, width=6):
    folder.mkdir(exist_ok=True)
    for number in range(count):
        write_image(folder / f"{number}.png", np.full((height, width, 3), number * 20, np.uint8))
    return folder


def embedded(page):
    """Return the facts of each flow and the keys of the pictures, in the order of the page."""
    flows, pictures = {}, []
    for name, facts, _ in DATA.findall(page.read_text(encoding="utf-8")):
        kind, _, key = name.partition("-")
        if kind == "flow":
            flows[int(key)] = dict(FACT.findall(facts))
        else:
            pictures.append(key)
    return flows, pictures


def settings_of(page):
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="settings">([^<]*)<', text)[1])


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args):
    return CliRunner().invoke(app, ["view", *map(str, args)])


def test_flows_and_their_frames_go_into_one_page(work):
    write_flows(work / "flows", 2)
    write_frames(work / "frames", 3)
    summary = view([Path("flows")], Path("a.html"), frames=[Path("frames")])
    size = Path("a.html").stat().st_size
    assert summary == {
        "results": ["flows"],
        "output": "a.html",
        "flows": 2,
        "frames": 3,
        "frames_from": ["frames"],
        "why_no_frames": None,
        "width": 6,
        "height": 4,
        "max_flow_px": 2.0,
        "precision_px": 1 / 512,  # half of 1/256, which is 2 px / 512
        "bytes": size,
    }
    flows, pictures = embedded(Path("a.html"))
    assert pictures == ["0-0", "0-1", "0-2"]
    assert [(flows[i]["first"], flows[i]["second"]) for i in (0, 1)] == [
        ("0-0", "0-1"),
        ("0-1", "0-2"),
    ]
    assert flows[1]["name"] == "000001.flo"
    assert settings_of(Path("a.html"))["fps"] == 25


def test_one_scale_holds_for_all_flows_of_a_page(work):
    write_flow(Path("a.flo"), flow_of((3, 4)))
    write_flow(Path("b.npy"), flow_of((np.nan, 0), (0, 10)))
    assert view([Path("a.flo"), Path("b.npy")], Path("a.html"))["max_flow_px"] == 10
    assert settings_of(Path("a.html"))["scale"] == 10
    assert view([Path("a.flo")], Path("a.html"), max_flow=2.5)["max_flow_px"] == 2.5
    write_flow(Path("still.flo"), flow_of((0.1, 0)))
    assert view([Path("still.flo")], Path("a.html"))["max_flow_px"] == 1


def test_frames_are_found_by_what_video_recorded(work):
    write_frames(work / "frames", 8, 64, 64)
    selection = FrameSelection(start=1, step=2, size=(48, 32))
    outputs = VideoOutputs(folder=Path("flows"))
    estimate_video(FakeEstimator, Path("frames"), outputs, selection=selection)
    summary = view([Path("flows")], Path("a.html"))
    assert summary["frames_from"] == [str(work / "frames")]
    assert (summary["flows"], summary["frames"]) == (3, 4)  # frames 1, 3, 5 and 7
    assert (summary["width"], summary["height"]) == (48, 32)
    # one flow alone brings along its own two frames
    summary = view([Path("flows/000001.flo")], Path("a.html"))
    assert summary["frames"] == 2
    assert embedded(Path("a.html"))[1] == ["0-1", "0-2"]


def test_a_page_does_without_frames_that_are_gone_or_were_changed(work):
    frames = write_frames(work / "frames", 3, 64, 64)
    estimate_video(FakeEstimator, Path("frames"), VideoOutputs(folder=Path("flows")))
    write_image(frames / "2.png", np.zeros((65, 64, 3), np.uint8))
    summary = view([Path("flows")], Path("a.html"))
    assert (summary["flows"], summary["frames"]) == (2, 0)
    assert summary["why_no_frames"] == f"{frames} has changed since"
    assert "first" not in embedded(Path("a.html"))[0][0]
    frames.rename(work / "elsewhere")
    result = run("flows", "-o", "a.html")
    assert result.exit_code == 0
    assert f"without frames (the frames of {frames} are gone; put them back; " in result.output
    (work / "flows" / "pwcflow.json").unlink()
    why = view([Path("flows")], Path("a.html"))["why_no_frames"]
    assert why == "pwcflow.json beside the flows is missing"
    assert view([Path("flows")], Path("a.html"), look_for_frames=False)["why_no_frames"] is None


@pytest.mark.parametrize(
    "damaged",
    [{}, {"input": 3}, {"input": {"path": "frames", "fingerprint": "0", "settings": 3}}],
    ids=str,
)
def test_a_record_of_something_else_is_not_relied_on(work, damaged):
    write_flows(work / "flows", 1)
    (work / "flows" / "pwcflow.json").write_text(json.dumps(damaged))
    assert view([Path("flows")], Path("a.html"))["frames"] == 0


def test_images_are_given_one_by_one_or_as_a_folder_in_any_number_that_reaches(work):
    write_flow(Path("flow.flo"), flow_of((1, 0)))
    write_frames(work / "frames", 3)
    images = [Path("frames/0.png"), Path("frames/1.png")]
    assert view([Path("flow.flo")], Path("a.html"), frames=images)["frames"] == 2
    # a name that is no number goes by its place, a number is that of the first frame
    assert view([Path("flow.flo")], Path("a.html"), frames=[Path("frames")])["frames"] == 2
    assert embedded(Path("a.html"))[1] == ["0-0", "0-1"]
    Path("flow.flo").rename("000001.flo")
    view([Path("000001.flo")], Path("a.html"), frames=[Path("frames")])
    assert embedded(Path("a.html"))[1] == ["0-1", "0-2"]
    # the last frame may lack
    Path("000001.flo").rename("000002.flo")
    view([Path("000002.flo")], Path("a.html"), frames=[Path("frames")])
    flows, pictures = embedded(Path("a.html"))
    assert pictures == ["0-2"]
    assert "second" not in flows[0]


def test_frames_that_do_not_belong_to_the_flows_are_refused(work):
    write_flows(work / "flows", 2)
    write_frames(work / "two", 2)
    write_frames(work / "wide", 3, 4, 8)
    with pytest.raises(VideoError, match=r"2 flows lie between 3 images, but --frames names 2;"):
        view([Path("flows")], Path("a.html"), frames=[Path("two/0.png"), Path("two/1.png")])
    with pytest.raises(VideoError, match=r"frames are 8 x 4 pixels but flows.000000.flo is 6 x 4"):
        view([Path("flows")], Path("a.html"), frames=[Path("wide")])
    Path("flows/000001.flo").rename("flows/000005.flo")
    with pytest.raises(VideoError, match=r"two has 2 frames, so none for flows.000005.flo"):
        view([Path("flows")], Path("a.html"), frames=[Path("two")])
    with pytest.raises(VideoError, match=r"there is no file none"):
        view([Path("flows")], Path("a.html"), frames=[Path("none")])
    write_flows(work / "others", 1)
    with pytest.raises(VideoError, match=r"flows of one folder, but these are of 2"):
        view([Path("flows"), Path("others")], Path("a.html"), frames=[Path("two")])
    assert not Path("a.html").exists()


def test_frames_of_another_scale_are_those_of_the_flow(work):
    write_flow(Path("flow.flo"), flow_of((1, 0), height=45, width=80))
    write_frames(work / "frames", 2, 90, 160)
    write_frames(work / "rounded", 2, 91, 161)
    for frames in ("frames", "rounded"):
        assert view([Path("flow.flo")], Path("a.html"), frames=[Path(frames)])["frames"] == 2


def test_a_smaller_page_keeps_the_size_of_the_file_and_its_vectors(work):
    write_flow(Path("flow.flo"), flow_of(*[(7, 0)] * 6))
    write_frames(work / "frames", 2)
    view([Path("flow.flo")], Path("a.html"), frames=[Path("frames")], max_side=3)
    facts = embedded(Path("a.html"))[0][0]
    assert [facts[name] for name in ("width", "height")] == ["3", "2"]
    assert [facts[name] for name in ("file-width", "file-height")] == ["6", "4"]
    assert settings_of(Path("a.html"))["scale"] == 7


def test_a_page_has_no_address_in_it_and_forbids_requests(work):
    write_flow(Path("flow.flo"), flow_of((1, 0)))
    view([Path("flow.flo")], Path("a.html"))
    text = Path("a.html").read_text(encoding="utf-8")
    assert "://" not in text
    assert "//cdn" not in text
    assert not re.search(r'(?:src|href)="(?!data:)', text)
    assert "default-src 'none'" in text


def test_names_and_titles_cannot_become_part_of_the_page(work):
    write_flow(Path(NASTY), flow_of((1, 0)))
    view([Path(NASTY)], Path("a.html"), title="</title><script>window.hit = 1</script> $style")
    text = Path("a.html").read_text(encoding="utf-8")
    assert "<script>window.hit" not in text
    assert text.count("</title>") == 1
    assert "&lt;script&gt;window.hit = 1&lt;&amp;&quot;&#x27;$title 日本.flo" in text
    view([Path(NASTY)], Path("a.html"))
    assert text.count("<script") == Path("a.html").read_text(encoding="utf-8").count("<script")


@pytest.mark.skipif(sys.platform != "linux", reason="names there are text")
def test_a_name_that_is_no_text_is_shown_by_its_codes(work):
    name = os.fsdecode(b"caf\xe9.flo")
    write_flow(Path(name), flow_of((1, 0)))
    view([Path(name)], Path("a.html"))
    assert embedded(Path("a.html"))[0][0]["name"] == r"caf\udce9.flo"


def test_what_is_wrong_is_told_before_or_without_a_page(work):
    write_flow(Path("flow.flo"), flow_of((1, 0)))
    with pytest.raises(OutputError, match=r"a page is called NAME\.html"):
        view([Path("flow.flo")], Path("a.png"))
    with pytest.raises(OutputError, match=r"folder none does not exist"):
        view([Path("flow.flo")], Path("none/a.html"))
    with pytest.raises(FlowFileError, match=r"there is no file none\.flo"):
        view([Path("none.flo")], Path("a.html"))
    Path("half.flo").write_bytes(Path("flow.flo").read_bytes()[:-1])
    with pytest.raises(FlowFileError, match=r"half\.flo is cut short"):
        view([Path("flow.flo"), Path("half.flo")], Path("a.html"), max_flow=1)
    Path("empty").mkdir()
    with pytest.raises(FlowFileError, match=r"empty has no flow files in it, .*name the folder of"):
        view([Path("empty")], Path("a.html"))
    inner = Path("many/clip.mp4")
    inner.mkdir(parents=True)
    (inner / "pwcflow.json").touch()
    with pytest.raises(FlowFileError, match=r"many has no flow files.*as many.clip\.mp4"):
        view([Path("many")], Path("a.html"))
    write_flow(Path("wide.npy"), np.zeros((1, 16384, 2), np.float32))
    with pytest.raises(
        PwcFlowError, match=r"16384 x 1 pixels, more than browsers draw; give --max"
    ):
        view([Path("wide.npy")], Path("a.html"))
    assert not Path("a.html").exists()
    assert sorted(path.name for path in work.iterdir()) == [
        "empty", "flow.flo", "half.flo", "many", "wide.npy",
    ]  # fmt: skip


def test_flows_in_a_folder_within_are_told_of_when_they_are_left_out(work, caplog):
    write_flows(work / "flows", 2)
    inner = work / "flows" / "clip.mp4"
    write_flows(inner, 3)
    (inner / "pwcflow.json").touch()
    view([Path("flows")], Path("a.html"))
    assert caplog.messages == [
        "flows in folders within flows are left out; name those folders too, such as flows/clip.mp4"
    ]


def test_the_command_tells_what_it_wrote(work):
    write_flows(work / "flows", 2)
    write_frames(work / "frames", 3)
    result = run("flows", "-o", "a.html", "--frames", "frames", "--fps", "7", "--title", "Clip")
    assert result.exit_code == 0
    assert result.output == (
        f"a.html: 2 flows with 3 frames of frames, {Path('a.html').stat().st_size / 1e6:.1f} MB, "
        "vectors to 0.002 px, fully saturated at 2.0 px\n"
    )
    assert settings_of(Path("a.html"))["fps"] == 7
    assert "<title>Clip</title>" in Path("a.html").read_text(encoding="utf-8")
    told = json.loads(run("flows", "-o", "a.html", "--json").output)
    assert told["why_no_frames"] == "pwcflow.json beside the flows is missing"
    assert run("flows", "-o", "a.html", "--frames", "frames", "--no-frames").exit_code == 2
    result = run("flows", "-o", "a.txt")
    assert result.exit_code == 1
    assert result.output.count("\n") == 1


def test_help_says_that_there_may_be_several_results():
    assert "view [OPTIONS] RESULT...\n" in run("--help").output


with_scripts = pytest.mark.skipif(
    os.name != "posix", reason="a shell script stands for the browser"
)


def open_in(browser_script, *options, **environment):
    """Show a page in a browser that is a shell script; return how the command ended."""
    write_flow(Path("flow.flo"), flow_of((1, 0)))
    browser = Path("browser").absolute()
    browser.write_text(f"#!/bin/sh\n{browser_script}\n")
    browser.chmod(0o755)
    return subprocess.run(
        [sys.executable, "-m", "pwcflow", "view", "flow.flo", "--open", *options],
        env={**os.environ, "BROWSER": f"{browser} %s", **environment},
        capture_output=True,
        text=True,
    )


@with_scripts
def test_open_hands_the_page_to_the_browser(work):
    done = open_in('printf %s "$1" > opened', "-o", "a b.html")
    assert done.returncode == 0, done.stderr
    assert Path("opened").read_text() == (work / "a b.html").as_uri()


@with_scripts
def test_open_tells_when_there_is_no_browser(work):
    done = open_in("exit 1", "-o", "a.html", "--quiet", PATH="", DISPLAY="")
    told = "error: a.html is written, but there is no browser to show it in; open it yourself\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)
    assert Path("a.html").is_file()


def test_a_page_needs_neither_torch_nor_cupy(work):
    write_flow(Path("flow.flo"), flow_of((1, 0)))
    script = (
        "import sys; sys.modules['torch'] = sys.modules['cupy'] = None\n"
        "from pwcflow.cli import app\n"
        "app(['view', 'flow.flo', '-o', 'a.html'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path("a.html").is_file()
