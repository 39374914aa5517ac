"""Fixtures and rules shared by all tests."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[1].parent / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where there is none, unless a GPU is required: then let them fail."""
    if os.environ.get("PWCFLOW_REQUIRE_GPU") == "1":
        return
    import torch

    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of evaluation pairs and odd inputs, which lies beside a checkout."""
    if not SHARED.is_dir():
        pytest.skip("the shared evaluation pairs and samples are not here")
    return SHARED
