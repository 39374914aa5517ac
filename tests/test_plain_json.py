"""What is not finite is null in JSON, wherever it stands."""

import math

import pytest

from pwcflow.plain_json import to_json
from pwcflow.training.result import finished_result, write_result


def test_what_is_not_finite_is_null():
    value = {"a": math.nan, "b": [math.inf, 1.5, {"c": (-math.inf, 2)}], "d": "NaN", "e": None}
    expected = '{"a": null, "b": [null, 1.5, {"c": [null, 2]}], "d": "NaN", "e": null}'
    assert to_json(value) == expected


def test_a_result_is_written_so(tmp_path):
    write_result(tmp_path, {"errors": {"training": math.nan}})
    text = (tmp_path / "result.json").read_text(encoding="utf-8")
    assert text == '{\n  "errors": {\n    "training": null\n  }\n}'


@pytest.mark.parametrize(("error", "is_finished"), [("1.5", True), ("NaN", False)])
def test_a_result_with_errors_that_are_not_finite_is_of_no_finished_run(
    tmp_path, error, is_finished
):
    text = (
        '{"outcome": "finished", "step": 1, "pairs": 1, "seconds": 0.5, '
        f'"errors": {{"training": {error}}}}}'
    )
    (tmp_path / "result.json").write_text(text, encoding="utf-8")
    assert (finished_result(tmp_path) is not None) == is_finished
