"""What a killed process left of a file goes when the file is written again, and nothing else."""

import errno
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import OutputError
from pwcflow.flow_file import write_flow
from pwcflow.locks import InUseError, locked_folder, replacing_alone
from pwcflow.training.trainer import train
from pwcflow.video_writer import color_writer
from pwcflow.viewer import view
from tests.repeated_runs import frames_folder, run
from tests.test_many_videos import REPOSITORY
from tests.test_video_writer import picture
from tests.training_source import shifted_textures, tiny

WRITE_VIDEO = """
from pwcflow.video_writer import color_writer
from pwcflow.viewer import view
from tests.test_video_writer import picture
with color_writer(path, 25) as writer:
    writer.write(picture(0))
    wait()
"""
WRITE_FILE = """
from pwcflow.locks import replacing_alone
with replacing_alone(path) as temporary:
    temporary.write_bytes(b"half")
    wait()
"""


def writing(path, script):
    """Start a process that has written a part of a file and does not go on before it is told."""
    start = (
        "import sys\nfrom pathlib import Path\npath = Path(sys.argv[1])\n"
        "def wait():\n    print('waits', flush=True)\n    sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", start + script, str(path)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "waits\n"
    return process


def killed(path, script):
    """Leave what a process leaves that is killed while it writes a file."""
    with writing(path, script) as process:
        process.kill()


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def write_video(path):
    with color_writer(path, 25) as writer:
        writer.write(picture(0))


def test_the_next_video_of_that_name_clears_away_what_a_kill_left(tmp_path):
    path = tmp_path / "flow.mp4"
    for _ in range(2):
        killed(path, WRITE_VIDEO)
    assert [name for name in names_in(tmp_path) if name.endswith(".mp4")] != []
    write_video(path)
    assert names_in(tmp_path) == ["flow.mp4"]


@pytest.mark.usefixtures("one_thread")
def test_the_next_run_of_training_clears_away_what_a_kill_left(tmp_path):
    for name in ("checkpoint.pt", "weights.safetensors"):
        killed(tmp_path / name, WRITE_FILE)
    train(tiny(tmp_path, steps=1), shifted_textures)
    assert names_in(tmp_path) == ["checkpoint.pt", "log.jsonl", "weights.safetensors"]


def test_the_next_page_of_that_name_clears_away_what_a_kill_left(tmp_path):
    write_flow(tmp_path / "a.flo", np.ones((4, 4, 2), np.float32))
    page = tmp_path / f"{'é' * 125}.html"  # as long as names may be
    killed(page, WRITE_FILE)
    assert len(names_in(tmp_path)) == 3  # with the file that was left, and its lock
    view([tmp_path / "a.flo"], page)
    assert names_in(tmp_path) == ["a.flo", page.name]


def test_the_next_flows_in_that_folder_clear_away_what_a_kill_left_of_a_video(tmp_path, estimator):
    source, out = frames_folder(tmp_path / "frames", [1, 2]), tmp_path / "out"
    out.mkdir()
    for name in ("v.mp4", "w.mp4"):
        killed(out / name, WRITE_VIDEO)
    (out / ".pwcflow-notes.lock").touch()  # somebody else's
    left = names_in(out)
    with writing(out / "alive.mp4", WRITE_VIDEO) as process:
        alive = sorted(set(names_in(out)) - set(left))
        assert len(left) == 5
        assert len(alive) == 2  # what is left of each: a part and its lock
        run(estimator, source, out)
        assert names_in(out) == sorted(
            [*alive, ".pwcflow-notes.lock", "000000.flo", "pwcflow.json"]
        )
        process.communicate("")
    assert process.returncode == 0
    assert names_in(out) == [".pwcflow-notes.lock", "000000.flo", "alive.mp4", "pwcflow.json"]


def test_what_a_living_process_writes_stays(tmp_path):
    path, other = tmp_path / "flow.mp4", tmp_path / "other.mp4"
    killed(path, WRITE_VIDEO)
    with writing(other, WRITE_VIDEO) as process:
        write_video(path)
        with pytest.raises(InUseError, match=r"other\.mp4 is being written by another process"):
            write_video(other)
        process.communicate("")
    assert process.returncode == 0
    assert names_in(tmp_path) == ["flow.mp4", "other.mp4"]


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_run_whose_colour_video_another_one_writes_does_not_begin(tmp_path, estimator, suffix):
    source, viz = frames_folder(tmp_path / "frames", [1, 2]), tmp_path / f"v{suffix}"
    refused = pytest.raises(InUseError, match=rf"v\{suffix} is being written by another process")
    with writing(viz, WRITE_VIDEO) as process:
        with refused:
            run(estimator, source, tmp_path / "b", viz=viz)
        process.communicate("")
    assert estimator.loads == 0
    assert names_in(tmp_path) == ["frames", viz.name]
    assert run(estimator, source, tmp_path / "b", viz=viz)["outcome"] == "done"
    assert names_in(tmp_path) == ["b", "frames", viz.name]


def test_a_link_stands_for_its_file(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.mp4"
    link.symlink_to(tmp_path / "real/flow.mp4")
    killed(tmp_path / "real/flow.mp4", WRITE_VIDEO)
    write_video(link)
    assert names_in(tmp_path / "real") == ["flow.mp4"]
    assert names_in(tmp_path) == ["link.mp4", "real"]


def test_an_error_leaves_neither_the_file_nor_a_lock(tmp_path):
    with pytest.raises(ValueError, match="mine"), replacing_alone(tmp_path / "a.pt") as temporary:
        temporary.write_bytes(b"half")
        raise ValueError("mine")
    missing = pytest.raises(OutputError, match="does not exist; create it first")
    with missing, replacing_alone(tmp_path / "none/a.pt"):
        pass
    assert names_in(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no folder with an open file")
def test_the_lock_of_a_folder_made_anew_is_not_that_of_the_removed_one(tmp_path):
    folder = tmp_path / "out"
    first = ExitStack()
    first.enter_context(locked_folder(folder))
    shutil.rmtree(folder)
    with locked_folder(folder):
        first.close()
        with pytest.raises(InUseError, match="is being written"), locked_folder(folder):
            pass
    assert names_in(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows locks in another way")
def test_without_locks_files_are_written_nothing_is_removed_and_one_warning_says_so(
    tmp_path, monkeypatch, caplog
):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    out, path = tmp_path / "out", tmp_path / "out/checkpoint.pt"
    out.mkdir()
    killed(path, WRITE_FILE)
    (left,) = out.glob(".pwcflow-*.pt")
    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked_folder(out):
        for text in ("first", "second"):
            with replacing_alone(path) as temporary:
                temporary.write_text(text)
            assert path.read_text() == text
    assert names_in(out) == [left.name, path.name]
    with locked_folder(tmp_path / "other"):
        pass
    reason = os.strerror(errno.ENOLCK).lower()
    assert caplog.messages == [
        f"files in {folder} cannot be locked ({reason}): let no other process write into it"
        for folder in (out, tmp_path / "other")
    ]


@contextmanager
def as_nobody():
    """Take root's privileges away inside the block, where there are any."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_lock_that_must_not_be_opened_is_named(here):
    path = Path("a.pt")  # relative: only the last folder is everybody's
    here.chmod(0o777)
    killed(path, WRITE_FILE)
    (lock,) = Path().glob(".pwcflow-*.lock")
    lock.chmod(0o444)
    before = names_in(here)
    with as_nobody(), pytest.raises(OutputError) as caught, replacing_alone(path):
        pass
    assert str(caught.value) == (
        f"cannot write a.pt: there is no permission to open its lock {lock}, which a process of "
        "another user holds or left when it was killed; remove that file if none writes there, or "
        "choose another output"
    )
    assert names_in(here) == before
    with as_nobody():
        lock.unlink()
        with replacing_alone(path) as temporary:
            temporary.write_bytes(b"whole")
    assert names_in(here) == ["a.pt"]
    here.chmod(0o555)
    denied = pytest.raises(OutputError, match=r"^cannot write a.pt: permission denied; choose")
    with as_nobody(), denied, replacing_alone(path):
        pass
    here.chmod(0o700)
