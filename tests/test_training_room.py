"""A training asks whether the disk can take what it leaves, before it begins."""

import shutil
from collections import namedtuple

import pytest

from pwcflow.errors import OutputError
from pwcflow.training.room import check_room
from tests.command_line import assert_one_error_line, invoke
from tests.training_source import tiny

Usage = namedtuple("Usage", "total used free")
CHECKPOINT = 9_374_274 * 4 * 4
"""Bytes of the network's parameters, their mean and two moments, as float32."""
WEIGHTS = 9_374_274 * 2


@pytest.fixture
def disk(monkeypatch):
    """Return what sets the room on all disks, in bytes."""
    return lambda free: monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, free))


@pytest.mark.parametrize(
    ("begun", "keep", "count", "needed"),
    [
        (False, 0.0, 1, 2 * CHECKPOINT + WEIGHTS),
        (True, 0.0, 1, CHECKPOINT),
        (False, 0.5, 1, 2 * CHECKPOINT * 5 // 4 + WEIGHTS),
        (False, 0.0, 3, 4 * CHECKPOINT + 3 * WEIGHTS),
        (False, 0.0, 0, 0),
    ],
)
def test_a_checkpoint_for_each_run_and_one_more_is_needed(
    tmp_path, disk, begun, keep, count, needed
):
    settings = tiny(tmp_path / "run", keep=keep, init="default")
    if begun:
        settings.output.mkdir()
        settings.checkpoint_path.touch()
    disk(needed)
    check_room(settings.output, [settings] * count)
    disk(needed - 1)
    with pytest.raises(OutputError, match=f"need {needed / 1e6:.0f} MB, but .* has "):
        check_room(settings.output, [settings] * count)


@pytest.mark.parametrize("recipe", [[], ["--recipe", "default"]], ids=str)
def test_a_training_that_does_not_fit_on_the_disk_is_not_begun(here, disk, recipe):
    disk(1_000_000)
    result = invoke("train", "-o", "run", "--minutes", 1, "--device", "cpu", *recipe)
    assert result.exit_code == 1
    # Eight stages of 150.0 + 18.7 MB, three of which keep other weights of 37.5 MB; one such more.
    needed = "1650 MB" if recipe else "319 MB"
    assert_one_error_line(
        result.stderr, f"need {needed}, but run has 1 MB free; free some space, or choose"
    )
    assert not (here / "run").exists()
