"""What `pwcflow bench` tells of the machine that it measures."""

import subprocess
import sys

import pytest

from pwcflow.bench import report
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
