"""A run whose folder has damaged flow files, or has lost its record, and the run after it."""

import re

import pytest

from pwcflow.errors import OutputError
from tests.test_resume import contents, frames_folder, run

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
