"""Fixtures and rules shared by all tests."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fake_estimator import FakeEstimator

if TYPE_CHECKING:
    from tests.chromium import Chromium

SHARED = Path(__file__).parents[1].parent / "shared"

if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    # Processes that share the cores share the threads too: those of PyTorch wait by spinning, and
    # with more of them than cores the network takes ten times as long.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where there are too few, unless they are required: then they fail."""
    required = max(
        os.environ.get("PWCFLOW_REQUIRE_GPU") == "1",
        int(os.environ.get("PWCFLOW_REQUIRE_GPUS", "0")),
    )
    missing = [(item, count) for item in items if (count := _gpus_needed(item)) > required]
    if not missing:
        return
    import torch

    present = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for item, count in missing:
        if count > present:
            reason = "needs a CUDA device" if count == 1 else f"needs {count} CUDA devices"
            item.add_marker(pytest.mark.skip(reason=reason))


def _gpus_needed(item: pytest.Item) -> int:
    counts = [mark.kwargs.get("count", 1) for mark in item.iter_markers("gpu")]
    return max(counts, default=0)


@pytest.fixture
def hangup_ends() -> Iterator[None]:
    """Let a closed terminal end the test and what it starts, which under nohup it does not."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of evaluation pairs and odd inputs, which lies beside a checkout."""
    if not SHARED.is_dir():
        pytest.skip("the shared evaluation pairs and samples are not here")
    return SHARED


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def inputs(here: Path) -> Path:
    """Return a folder to work in, with the inputs of the command line's tests."""
    from tests.command_line import make_inputs

    make_inputs()
    return here


@pytest.fixture
def estimator() -> FakeEstimator:
    """Return an estimator without a network, whose flow tells which two images it was given."""
    return FakeEstimator()


@pytest.fixture
def no_thread_is_left_behind() -> Iterator[None]:
    """Look after a test whether its threads have ended."""
    yield
    running = [thread for thread in threading.enumerate() if not thread.daemon]  # tqdm has one
    assert running == [threading.main_thread()]


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """With several, oneDNN adds up gradients in an order that changes from run to run."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Chromium"]:
    """Return a browser without a window, for tests that need Chromium."""
    from tests.chromium import Chromium

    with Chromium(tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium
