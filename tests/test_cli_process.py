"""Interruption, and what the system does to a process."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pwcflow.cli import main
from pwcflow.flow_file import read_flow
from pwcflow.image_file import write_image
from pwcflow.video import count_frames
from tests.command_line import (
    RECORD,
    SIDE,
    assert_one_error_line,
    files_below,
    make_video,
    posix,
    process,
    start,
    wait_for,
)


@posix
@pytest.mark.usefixtures("hangup_ends")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_video_keeps_what_is_finished(inputs, name):
    make_video(Path("long.mp4"), 2000)
    with start("video", "long.mp4", "--flo", "out/flows", "--viz", "out/v.mp4") as running:
        wait_for(inputs / "out" / "flows" / "000003.flo", running)
        running.send_signal(getattr(signal, name))
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert stdout == ""
    told = re.fullmatch(
        r"interrupted; kept what comes before: (\d+) flows in out/flows and out/v.mp4"
        r"; the same command goes on from there\n",
        stderr,
    )
    assert told
    files = files_below(inputs / "out")
    flows = len(files) - 2
    assert 4 <= flows < 1999
    assert int(told[1]) in (flows - 1, flows)
    names = [f"flows/{number:06d}.flo" for number in range(flows)]
    assert files == [*names, f"flows/{RECORD}", "v.mp4"]
    for path in Path("out/flows").glob("*.flo"):
        assert read_flow(path).shape == (SIDE, SIDE, 2)
    # a flow file comes before its frame, and the signal may come between the two
    assert count_frames(Path("out/v.mp4")) in (flows - 1, flows)


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_bench_tells_of_no_flows_as_it_keeps_none(inputs, name):
    make_video(Path("long.mp4"), 2000)
    options = ["--size", "64x64", "--repeats", "1", "--device", "cpu", "--quiet"]
    with start("bench", "long.mp4", "-o", "new/out", *options) as running:
        # only where all stages run together is there a folder in the folder
        wait_for(inputs, running, "new/out/pwcflow-bench-*/flows/000003.flo")
        running.send_signal(getattr(signal, name))
        stdout, stderr = running.communicate(timeout=60)
    assert (running.returncode, stdout, stderr) == (130, "", "interrupted\n")
    assert not (inputs / "new").exists()


@posix
def test_an_interrupted_training_says_how_to_go_on(here):
    size = ["--size", "64x64", "--batch", "1", "--log-every", "1", "--device", "cpu"]
    with start("train", "-o", "run", "--steps", "100000", *size, "--quiet") as running:
        wait_for(here / "run" / "log.jsonl", running)
        while "loss" not in (here / "run" / "log.jsonl").read_text():
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=60)
    assert (running.returncode, stdout) == (130, "")
    assert re.fullmatch(
        r"interrupted; kept run/checkpoint.pt and run/weights.safetensors after \d+ pairs?; "
        r"the same command with --resume goes on from there\n",
        stderr,
    )


@posix
@pytest.mark.usefixtures("hangup_ends")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interruption_while_torch_is_imported_is_told_in_one_line(inputs, name):
    # stands for the import of torch: says that it has begun, takes its time, and makes another
    # error of what is raised in it, as compiled modules do
    Path("folder/torch.py").write_text(
        "import pathlib, time\npathlib.Path('out/begun').touch()\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    raise ImportError('no')\n"
    )
    env = {**os.environ, "PYTHONPATH": str(inputs / "folder")}
    with start("estimate", "1.png", "2.png", "-o", "out/a.flo", env=env) as running:
        wait_for(inputs / "out" / "begun", running)
        running.send_signal(getattr(signal, name))
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert (stdout, stderr) == ("", "interrupted\n")
    assert files_below(inputs / "out") == ["begun"]


@posix
def test_an_interruption_waits_for_imports_so_that_no_lock_is_left(inputs):
    make_video(Path("short.mp4"), 3)
    Path("folder/torch.py").write_text(
        "import pathlib, time\npathlib.Path('begun').touch()\n"
        "try:\n    time.sleep(0.5)\nexcept KeyboardInterrupt:\n    raise ImportError('no')\n"
        "def __getattr__(name):\n    time.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(inputs / "folder")}
    with start("video", "short.mp4", "--flo", "out/flows", env=env) as running:
        wait_for(inputs / "begun", running)
        assert (inputs / "out" / "flows").is_dir()  # it is locked by then
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=60)
    assert (running.returncode, stderr.count("\n")) == (130, 1)
    assert stderr.startswith("interrupted")
    assert files_below(inputs / "out") == []


class _Interrupting(str):
    """An argument at which a signal comes while it is parsed."""

    def __getitem__(self, _):
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def handlers():
    """Put back what handles signals afterwards."""
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_an_interruption_before_there_is_a_command_is_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pwcflow", _Interrupting("estimate")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@posix
def test_a_reader_that_has_left_is_no_reason_for_a_traceback(inputs):
    with start("visualize", "flow.flo", "-o", "out/a.png") as running:
        running.stdout.close()
        stderr = running.stderr.read()
    assert (running.returncode, stderr) == (1, "")
    assert files_below(inputs / "out") == ["a.png"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_summary_that_cannot_be_printed_is_an_error_in_one_line(inputs, unbuffered):
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        code, _, stderr = process("visualize", "flow.flo", "-o", "out/a.png", stdout=full, env=env)
    assert code == 1
    assert_one_error_line(stderr, "no space left on device")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "-h"]], ids=str)
def test_help_that_cannot_be_printed_is_an_error_in_one_line(arguments, unbuffered):
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        code, _, stderr = process(*arguments, stdout=full, env=env)
    assert code == 1
    assert_one_error_line(stderr, "cannot write: no space left on device; check the disk")


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_reason_to_fail(inputs, closed):
    Path("flow.flo").rename("folder/flow.flo")
    line = f'"{sys.executable}" -m pwcflow visualize folder -o out {closed}'
    assert subprocess.run(line, shell=True, check=False, capture_output=True).returncode == 0
    assert files_below(inputs / "out") == ["flow.png"]


LITTLE_MEMORY = """
import resource
import sys
from pathlib import Path

import pwcflow.estimator
import pwcflow.pipeline
from pwcflow.cli import main

now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (600 << 20),) * 2)
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited in this way on Linux")
def test_too_little_memory_is_told_in_one_line(inputs):
    write_image(Path("huge.png"), np.zeros((2000, 3000, 3), np.uint8))  # takes 3 GB
    arguments = ["estimate", "huge.png", "huge.png", "-o", "out/a.flo", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # the stacks of threads count too
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert_one_error_line(done.stderr, "not enough memory", "use smaller images")
    assert files_below(inputs / "out") == []


def test_an_interruption_while_the_commands_load_is_one_line():
    script = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'pwcflow.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from pwcflow.__main__ import main\n"
        "main()"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_sleep_while_they_wait_unless_it_is_said_otherwise(given, expected):
    policy = "OMP_WAIT_POLICY"
    environment = {name: value for name, value in os.environ.items() if name != policy}
    environment |= {policy: given} if given else {}
    program = (
        "import os, sys; from pwcflow.cli import main; sys.argv = ['pwcflow', '--version']\n"
        "try: main()\n"
        "except SystemExit: print('torch' in sys.modules, os.environ['OMP_WAIT_POLICY'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == f"False {expected}"


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            [],
            "pwcflow: float16 is far slower than float32 on most CPUs, which lack hardware for it; "
            "--precision fp32 or auto is faster\n",
        ),
        (["--quiet"], ""),
    ],
)
def test_that_float16_is_slow_on_a_cpu_is_one_line_unless_quiet(options, told):
    args = ["estimate", "1.png", "2.png", "-o", "out/a.flo", "--precision=fp16", "--device=cpu"]
    code, _, stderr = process(*args, *options)
    assert (code, stderr) == (0, told)
    assert read_flow(Path("out/a.flo")).shape == (SIDE, SIDE, 2)
