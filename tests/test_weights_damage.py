"""The file of a name, shipped or downloaded, that is not the one meant is refused in one line."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import pwcflow
from pwcflow.errors import WeightsError
from pwcflow.image_file import write_image
from pwcflow.weights import load_weights, provenance_of
from tests.command_line import assert_one_error_line, files_below, picture

FLIPPED = 4000  # bytes, in the middle, where all are of float16 numbers


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of the package, whose weights may be damaged."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(Path(pwcflow.__file__).parent, folder / "pwcflow")
    return folder


@pytest.fixture
def shipped(installed):
    """The weights of that copy, whole again after each test."""
    path = installed / "pwcflow" / "weights" / "default.safetensors"
    whole = path.read_bytes()
    yield path
    path.write_bytes(whole)


def flip(path):
    """Flip the highest bit of exponents: the numbers are huge, finite, and load as before."""
    data = bytearray(path.read_bytes())
    start = (len(data) - FLIPPED) // 2
    data[start : start + FLIPPED] = (byte ^ 0x40 for byte in data[start : start + FLIPPED])
    path.write_bytes(data)


def run(shipped, *args):
    """Run the copy that these weights are shipped with."""
    done = subprocess.run(
        [sys.executable, "-m", "pwcflow", *args],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(shipped.parents[2])},
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.fixture
def pair(here):
    write_image(Path("a.png"), picture(0))
    write_image(Path("b.png"), picture(2))
    return ["a.png", "b.png"]


TRAINING = ["--steps", "1", "--batch", "1", "--size", "64x64", "--device", "cpu", "--quiet"]


def test_damaged_weights_of_the_package_are_refused(pair, shipped):
    flip(shipped)
    found = sha256(shipped.read_bytes()).hexdigest()
    message = (
        f"error: {shipped} is not the file of weights 'default': its SHA-256 begins with "
        f"{found[:8]}, not d7f4dc3a, so it is damaged or another file; reinstall pwcflow\n"
    )
    assert run(shipped, "estimate", *pair, "-o", "out.npz") == message
    assert run(shipped, "train", "-o", "run", "--init", "default", *TRAINING) == message
    assert files_below(Path()) == ["a.png", "b.png"]


def test_cut_weights_of_the_package_are_refused_alike(pair, shipped):
    os.truncate(shipped, 1000)
    stderr = run(shipped, "estimate", *pair, "-o", "out.npz")
    assert_one_error_line(stderr, f"{shipped} is not the file of weights 'default'", "; reinstall")


def test_missing_weights_of_the_package_say_to_reinstall_it(pair, shipped):
    shipped.unlink()
    assert run(shipped, "estimate", *pair, "-o", "out.npz") == (
        f"error: weights 'default' cannot be read from {shipped}: no such file or directory; "
        "reinstall pwcflow\n"
    )


def test_a_downloaded_file_that_is_another_by_now_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PWCFLOW_CACHE", str(tmp_path))
    path = tmp_path / "pwcdcnet-sintel-c7d08a46.ckpt"
    path.write_bytes(b"abc")  # whose SHA-256 is in FIPS 180-2, appendix B.1
    for ask in (load_weights, provenance_of):
        with pytest.raises(WeightsError) as caught:
            ask("ptlflow-sintel")
        assert str(caught.value) == (
            f"{path} is not the file of weights 'ptlflow-sintel': its SHA-256 begins with "
            "ba7816bf, not c7d08a46, so it is damaged or another file; remove it, and it is "
            "downloaded again"
        )
    assert path.read_bytes() == b"abc"


def test_nothing_is_told_of_a_file_that_is_not_downloaded_yet(tmp_path, monkeypatch):
    monkeypatch.setenv("PWCFLOW_CACHE", str(tmp_path))
    assert provenance_of("ptlflow-sintel") is None
