import errno
import os
from pathlib import Path

import pytest

from pwcflow.atomic_file import check_folder_writable, check_writable, replacing
from pwcflow.errors import OutputError


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_only_when_the_block_has_succeeded(tmp_path):
    path = tmp_path / "Å日本 1.flo"
    with replacing(path) as temporary:
        temporary.write_bytes(b"new")
        assert not path.exists()
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".flo"
        assert temporary.name.startswith(".")
    assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_error_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "flow.png"
    path.write_bytes(b"old")
    with pytest.raises(error), replacing(path) as temporary:
        temporary.write_bytes(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["flow.png"]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "flow.npy"
    with replacing(path) as first, replacing(path) as second:
        first.write_bytes(b"first")
        second.write_bytes(b"second")
    assert path.read_bytes() == b"first"
    assert names_in(tmp_path) == ["flow.npy"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "flow.flo") as temporary:
            temporary.write_bytes(b"")
    finally:
        os.umask(before)
    assert (tmp_path / "flow.flo").stat().st_mode & 0o777 == 0o640


def test_a_block_may_remove_its_own_file_when_it_fails(tmp_path):
    with pytest.raises(ValueError, match="mine"), replacing(tmp_path / "a.flo") as temporary:
        temporary.write_bytes(b"half")
        temporary.unlink()
        raise ValueError("mine")
    assert names_in(tmp_path) == []


def test_a_missing_folder_is_named(tmp_path):
    folder = tmp_path / "no" / "such"
    with pytest.raises(OutputError) as caught, replacing(folder / "a.flo"):
        pass
    message = f"the folder {folder} does not exist; create it first"
    assert str(caught.value) == f"cannot write {folder / 'a.flo'}: {message}"


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(OutputError, match="it is a folder"), replacing(tmp_path):
        pass


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="file is a file"), replacing(tmp_path / "file" / "a.flo"):
        pass


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(OutputError, match="produced no file"), replacing(tmp_path / "a.flo"):
        pass


def test_a_name_too_long_is_an_error(tmp_path):
    path = tmp_path / ("a" * 300 + ".flo")
    with pytest.raises(OutputError), replacing(path) as temporary:
        temporary.write_bytes(b"")
    assert names_in(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="there is no device file here")
def test_a_device_is_not_replaced():
    with pytest.raises(OutputError, match="not a regular file"), replacing(Path("/dev/null")):
        pass
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(os.name == "nt", reason="Windows restricts symbolic links")
def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.flo"
    link.symlink_to(tmp_path / "real" / "flow.flo")
    with replacing(link) as temporary:
        temporary.write_bytes(b"new")
    assert link.is_symlink()
    assert (tmp_path / "real" / "flow.flo").read_bytes() == b"new"


@pytest.mark.skipif(os.name == "nt", reason="Windows restricts symbolic links")
def test_links_in_a_loop_are_an_error(tmp_path):
    (tmp_path / "a.flo").symlink_to(tmp_path / "b.flo")
    (tmp_path / "b.flo").symlink_to(tmp_path / "a.flo")
    with pytest.raises(OutputError), replacing(tmp_path / "a.flo") as temporary:
        temporary.write_bytes(b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_says_so(tmp_path):
    path = tmp_path / "flow.flo"
    message = "no space left on device; free some space"
    with pytest.raises(OutputError, match=message) as caught, replacing(path) as temporary:
        temporary.symlink_to("/dev/full")
        temporary.write_bytes(b"data")
    assert "\n" not in str(caught.value)
    assert names_in(tmp_path) == []


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_read_only_folder_says_so(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with (
            pytest.raises(OutputError, match="permission denied"),
            replacing(tmp_path / "a.flo") as t,
        ):
            t.write_bytes(b"")
    finally:
        tmp_path.chmod(0o700)


def test_a_refused_write_says_what_to_do(tmp_path):
    with pytest.raises(OutputError, match="permission denied; write to a folder you may write to"):  # noqa: SIM117
        with replacing(tmp_path / "a.flo") as temporary:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(temporary))


def test_an_error_about_another_file_is_passed_on(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.flo"):
        (tmp_path / "input.flo").read_bytes()


def test_what_can_be_written_is_told_without_a_trace(tmp_path):
    path = tmp_path / "a.flo"
    check_writable(path)
    assert names_in(tmp_path) == []
    path.write_bytes(b"old")
    check_writable(path)
    check_folder_writable(tmp_path)
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["a.flo"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none/a.flo", "the folder .*none does not exist; create it first"),
        ("file/a.flo", "file is a file; choose a folder"),
        ("folder", "it is a folder; add a file name"),
    ],
)
def test_what_cannot_be_written_is_told_beforehand(tmp_path, name, message):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=message):
        check_writable(tmp_path / name)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no files")
def test_a_folder_that_takes_no_files_is_told_beforehand():
    with pytest.raises(OutputError, match=r"cannot write /proc/self/a\.flo: "):
        check_writable(Path("/proc/self/a.flo"))
    with pytest.raises(OutputError, match="cannot write /proc/self: "):
        check_folder_writable(Path("/proc/self"))
