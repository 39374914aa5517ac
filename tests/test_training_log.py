"""The log of a training: lines of JSON, whole ones only, that a resumed run goes on with."""

import os
import sys

import pytest

from pwcflow.training.log import RunLog


def test_a_log_tells_whether_a_step_has_a_value_of_a_kind(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(
        '{"step": 1, "epe_px": 3.5}\n{"step": 2, "holdout_epe_px": 2.5}\n[]\n{"step": 1'
    )
    log = RunLog(path)
    assert [log.tells(step, "_epe_px") for step in (0, 1, 2)] == [False, False, True]


def test_the_last_value_of_a_log_is_that_of_the_last_line_that_has_it(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"loss": 3.5}\n{"loss": 2.5}\n{"training_epe_px": 1.5}\n[]\n{"loss": 1.')
    log = RunLog(path)
    assert (log.last("loss"), log.last("training_epe_px"), log.last("lr")) == (2.5, 1.5, None)


def test_a_log_is_cut_to_whole_lines_of_steps_up_to_one(tmp_path):
    path = tmp_path / "log.jsonl"
    text = [f'{{"step": {step}, "loss": {step}.5}}\n' for step in (0, 1, 1, 2, 3)]
    for step, kept in ((2, 4), (1, 3), (0, 1), (-1, 0)):
        path.write_text("".join(text) + '[]\n{"step": "one"}\n{"step": 2, "lo')
        RunLog(path).cut(step)
        assert path.read_text() == "".join(text[:kept])
        assert list(tmp_path.iterdir()) == [path]


def test_a_whole_line_that_lost_its_end_is_kept_and_gets_it_back(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}')
    log = RunLog(path)
    log.cut(2)
    log.write({"step": 3})
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'


def test_a_log_is_written_on_when_whoever_read_it_has_left(tmp_path, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    pipe = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stderr", pipe)
    log = RunLog(tmp_path / "log.jsonl", echo=True)
    log.say("training")
    log.write({"step": 1})
    log.write({"step": 2})
    monkeypatch.setattr(sys, "stderr", None)
    RunLog(tmp_path / "log.jsonl", echo=True).write({"step": 3})
    monkeypatch.undo()
    with pytest.raises(BrokenPipeError):
        pipe.close()
    assert (tmp_path / "log.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'
