"""Folders that are made for a while."""

import pytest

from pwcflow.errors import OutputError
from pwcflow.outputs import folder_for_now


def test_a_folder_for_now_is_gone_with_the_parents_made_for_it(tmp_path):
    with folder_for_now(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_it_is_gone_whatever_ends_the_work(tmp_path, end):
    with pytest.raises(end), folder_for_now(tmp_path / "a" / "b"):
        raise end
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_or_has_got_files_stays(tmp_path):
    (tmp_path / "there").mkdir()
    with folder_for_now(tmp_path / "there"):
        pass
    with folder_for_now(tmp_path / "there" / "a" / "b"):
        (tmp_path / "there" / "a" / "theirs.txt").touch()
    assert sorted(tmp_path.rglob("*")) == [
        tmp_path / "there",
        tmp_path / "there" / "a",
        tmp_path / "there" / "a" / "theirs.txt",
    ]


def test_a_folder_that_cannot_be_made_leaves_none_of_its_parents(tmp_path):
    with (
        pytest.raises(OutputError, match="cannot make the folder"),
        folder_for_now(tmp_path / "a" / ("n" * 300)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
