"""What `pwcflow bench` tells of the machine that it measures."""

import logging
import os
import subprocess
import sys

import pytest

from pwcflow.bench import report
from pwcflow.bench.busy import busy_warning, processors_got, warn_if_busy
from pwcflow.bench.machine import Machine, model_in, processor_name
from pwcflow.bench.run import BenchResult

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model\t\t: 158
model name\t: Intel(R) Core(TM) i7-9750H CPU  @ 2.60GHz
flags\t\t: fpu vme

processor\t: 1
model name\t: another
"""
ARM = """processor\t: 0
BogoMIPS\t: 2000.00
CPU implementer\t: 0x41
CPU part\t: 0xd4f
"""
ARM_BY_LSCPU = """Architecture:             aarch64
  BIOS Model name:        Grace A02
  Model name:             Neoverse-V2
  Model:                  0
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (X86, "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz"),
        (ARM, None),
        (ARM_BY_LSCPU, "Neoverse-V2"),
        ("Model name:  -\n", None),
        ("model name\t: unknown\n", None),
        ("model name\t: \n", None),
        ("", None),
    ],
)
def test_the_processor_is_named_by_its_model(text, name):
    assert model_in(text) == name


@pytest.mark.parametrize(("code", "name"), [(0, "Apple M2"), (1, None)])
def test_on_macos_sysctl_names_the_processor(monkeypatch, code, name):
    def run(command, **_):
        assert command == ("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string")
        return subprocess.CompletedProcess(command, code, "Apple M2\n")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert processor_name() == name


def test_a_system_that_cannot_be_asked_names_no_processor(monkeypatch):
    def run(command, **_):
        raise FileNotFoundError(command[0])

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert processor_name() is None


@pytest.mark.skipif(sys.platform != "win32", reason="only Windows has a registry")
def test_on_windows_the_registry_names_the_processor():
    assert processor_name()


@pytest.mark.parametrize(
    ("gpu", "cpu", "threads", "told"),
    [
        (None, "AMD EPYC 9654", 2, "CPU AMD EPYC 9654, 2 threads"),
        (None, None, 1, "CPU, 1 thread"),
        ("NVIDIA H200", "AMD EPYC 9654", 16, "NVIDIA H200, CPU AMD EPYC 9654, 16 threads"),
        ("NVIDIA H200", None, 16, "NVIDIA H200, CPU, 16 threads"),
    ],
)
def test_a_report_begins_with_what_it_was_measured_on(gpu, cpu, threads, told):
    machine = Machine(device="device", gpu=gpu, cpu=cpu, cpu_threads=threads, torch="2.11.0")
    result = BenchResult(machine, "fp16", 1.5, "default", 30, [], [], None)
    assert report.lines_of(result) == [
        f"{told}, torch 2.11.0, fp16, network scale 1.5, weights default, 30 calls each"
    ]
    summary = report.summary_of(result)
    assert [summary[name] for name in ("device", "gpu", "cpu", "cpu_threads", "torch")] == [
        "device", gpu, cpu, threads, "2.11.0",
    ]  # fmt: skip


# other processes


@pytest.mark.parametrize(("got", "threads"), [(1.8, 2), (0.9, 1), (14.4, 16), (16.1, 16)])
def test_nine_tenths_of_the_processors_are_enough(got, threads):
    assert busy_warning(got, threads) is None


@pytest.mark.parametrize(
    ("got", "threads", "told"),
    [
        (1.0, 2, "2 threads got the time of only 1.0 processors"),
        (1.79, 2, "2 threads got the time of only 1.8 processors"),
        (0.5, 1, "1 thread got the time of only 0.5 processors"),
        (14.3, 16, "16 threads got the time of only 14.3 processors"),
    ],
)
def test_less_is_told_with_what_to_do(got, threads, told):
    assert busy_warning(got, threads) == (
        f"before measuring, {told}, so all times will be too long: other programs use the rest, or "
        "this one is not allowed to; end what else runs, or set OMP_NUM_THREADS to the number of "
        "processors that it may use"
    )


def test_threads_get_no_more_processors_than_they_are():
    assert 0 < processors_got(2) < 2.5  # clocks may be coarse


@pytest.fixture
def shared_processor():
    """One processor for this thread, and those that it starts, with a process that never rests."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("processes cannot be bound to a processor here")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        busy = [sys.executable, "-c", "print(flush=True)\nwhile True:\n    pass"]
        with subprocess.Popen(busy, stdout=subprocess.PIPE) as other:
            try:
                other.stdout.readline()  # it has begun
                yield
            finally:
                other.kill()
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("shared_processor")
def test_a_process_that_takes_a_share_of_the_processor_is_noticed(caplog):
    warn_if_busy()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message.startswith("before measuring, 1 thread got the time of only 0.")
