"""A run whose folder has damaged flow files, or has lost its record, and the run after it."""

import re
from itertools import pairwise

import numpy as np
import pytest

from pwcflow.errors import OutputError, PwcFlowError
from pwcflow.flow_file import read_flow, write_flow
from pwcflow.visualization import Look
from tests.flow_samples import HERE
from tests.repeated_runs import contents, damage, frames_folder, run


def zeroed(path):
    """What a power cut may leave: the length is on disk, and none of the bytes."""
    path.write_bytes(bytes(path.stat().st_size))


def zeroed_beginning(path):
    data = path.read_bytes()
    path.write_bytes(bytes(16) + data[16:])


def zeroed_end(path):
    data = path.read_bytes()
    path.write_bytes(data[:-16] + bytes(16))


def zeroed_middle(path):
    data = path.read_bytes()
    at = len(data) // 2
    path.write_bytes(data[:at] + bytes(16) + data[at + 16 :])


RAW = (".flo", ".npy", ".pfm")
"""What nothing but the values themselves can tell from the flow of a still scene."""
DAMAGES = [
    (change, suffix)
    for suffix in HERE
    for change in (zeroed, zeroed_beginning, damage, zeroed_end)
    if not (change is zeroed_end and suffix in RAW)
]


@pytest.mark.parametrize(("change", "suffix"), DAMAGES)
@pytest.mark.parametrize("complete", [True, False])
def test_a_damaged_flow_between_others_is_computed_again(
    tmp_path, estimator, change, suffix, complete
):
    levels = [10, 20, 30, 40, 50, 60]
    source, folder = frames_folder(tmp_path / "frames", levels), tmp_path / "flows"
    run(estimator, source, folder, suffix=suffix)
    change(folder / f"000002{suffix}")
    if not complete:
        (folder / f"000004{suffix}").unlink()
    estimator.encoded.clear()
    summary = run(estimator, source, folder, suffix=suffix)
    assert (summary["outcome"], summary["flows_kept"]) == ("done", 2)
    assert estimator.encoded == levels[2:]
    flows = [read_flow(folder / f"{number:06d}{suffix}") for number in range(5)]
    assert [flow[0, 0].tolist() for flow in flows] == [list(two) for two in pairwise(levels)]
    assert run(estimator, source, folder, suffix=suffix)["outcome"] == "skipped"


@pytest.mark.parametrize("style", ["wheel", "side"])
def test_damage_that_only_reading_shows_is_computed_again_for_a_colour_video(
    tmp_path, estimator, style
):
    levels = [10, 20, 30, 40, 50, 60]
    source, folder = frames_folder(tmp_path / "frames", levels), tmp_path / "flows"
    look = Look(style=style)
    run(estimator, source, tmp_path / "whole", suffix=".png", viz=tmp_path / "a.avi", look=look)
    run(estimator, source, folder, suffix=".png")
    zeroed_middle(folder / "000002.png")
    with pytest.raises(PwcFlowError, match=r"000002\.png"):
        read_flow(folder / "000002.png")
    assert run(estimator, source, folder, suffix=".png")["outcome"] == "skipped"
    estimator.encoded.clear()
    estimator.fails_at = 2
    with pytest.raises(PwcFlowError, match=r"no flow here; kept what comes before: 4 flows in"):
        run(estimator, source, folder, suffix=".png", viz=tmp_path / "b.avi", look=look)
    zeroed_middle(folder / "000002.png")
    estimator.fails_at = None
    estimator.encoded.clear()
    viz = tmp_path / "b.avi"
    summary = run(estimator, source, folder, suffix=".png", viz=viz, look=look)
    assert (summary["outcome"], summary["flows_kept"]) == ("done", 2)
    assert estimator.encoded == levels[2:]
    assert viz.read_bytes() == (tmp_path / "a.avi").read_bytes()
    for number in range(5):
        name = f"{number:06d}.png"
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("suffix", HERE)
@pytest.mark.parametrize("number", [0, 4])
def test_a_flow_of_another_size_at_either_end_is_computed_again(
    tmp_path, estimator, suffix, number
):
    levels = [10, 20, 30, 40, 50, 60]
    source, folder = frames_folder(tmp_path / "frames", levels), tmp_path / "flows"
    run(estimator, source, folder, suffix=suffix)
    path = folder / f"{number:06d}{suffix}"
    height, width, _ = read_flow(path).shape
    write_flow(path, np.zeros((width, height, 2), np.float32))
    assert run(estimator, source, folder, suffix=suffix)["flows_kept"] == number
    assert read_flow(path).shape == (height, width, 2)


NO_RECORDS = {
    None: "its pwcflow.json, which tells what made them, is missing; put that file back to go on",
    b"[" * 100_000: r"its pwcflow.json, .*, is damaged \(it is not JSON\); put",
    b"": r"is damaged \(it is not JSON\); put",
    b"{": r"is damaged \(it is not JSON\); put",
    bytes(700): r"is damaged \(it is not JSON\); put",
    b"\xff\xfe": r"is damaged \(it is not JSON\); put",
    b"[]": r"is damaged \(it holds no JSON object\); put",
    b'{"flows": "2"}': r"is damaged \(its 'flows' is not of the kind that a run writes\); put",
    b"{}": "holds flows of an input that pwcflow.json does not name; give",
}


@pytest.mark.parametrize("record", NO_RECORDS, ids=lambda record: ascii(record)[:12])
def test_what_is_wrong_with_a_record_is_told(tmp_path, estimator, record):
    source, folder = frames_folder(tmp_path / "frames", [10, 20, 30]), tmp_path / "flows"
    run(estimator, source, folder)
    whole = (folder / "pwcflow.json").read_bytes()
    (folder / "pwcflow.json").unlink()
    if record is not None:
        (folder / "pwcflow.json").write_bytes(record)
    before = contents(folder)
    with pytest.raises(
        OutputError, match=r"holds flows .*give --overwrite to remove them, or"
    ) as e:
        run(estimator, source, folder)
    assert re.search(NO_RECORDS[record], str(e.value))
    assert contents(folder) == before
    (folder / "pwcflow.json").write_bytes(whole)
    assert run(estimator, source, folder)["outcome"] == "skipped"
    (folder / "pwcflow.json").write_bytes(record or b"")
    assert run(estimator, source, folder, overwrite=True)["outcome"] == "done"


def test_flows_of_another_format_without_a_record_are_told_of_with_its_fault(tmp_path, estimator):
    source, folder = frames_folder(tmp_path / "frames", [10, 20, 30]), tmp_path / "flows"
    run(estimator, source, folder, suffix=".png")
    (folder / "pwcflow.json").unlink()
    with pytest.raises(
        OutputError, match=r"000000\.png is .* made it, as pwcflow\.json beside it is missing; put"
    ):
        run(estimator, source, folder, suffix=".png")
