"""Flows, and pieces of flow files made by hand, that the tests of formats share."""

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import FlowFileError
from pwcflow.flow_file import (
    FLOW_SUFFIXES,
    read_flow,
)

PACKAGES = {".flo5": "h5py", ".exr": "OpenEXR"}
HERE = [s for s in FLOW_SUFFIXES if s not in PACKAGES or find_spec(PACKAGES[s])]
EXACT = [suffix for suffix in HERE if suffix != ".png"]


def random_flow(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return values over all magnitudes, some of them unknown."""
    rng = np.random.default_rng(seed)
    flow = rng.normal(0, 1, (height, width, 2)) * 10.0 ** rng.uniform(-30, 8, (height, width, 1))
    flow[rng.random((height, width)) < 0.1] = np.nan
    return flow.astype(np.float32)


def refuses(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    with pytest.raises(FlowFileError) as caught:
        read_flow(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "; " in str(caught.value)  # what to do
    assert "\n" not in str(caught.value)


def npy_of(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def zip_of(*, packed: bool = False, **members: np.ndarray | bytes) -> bytes:
    stream = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, value in members.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # of 1980, so that tests have the same names
            data = value if isinstance(value, bytes) else npy_of(value)
            archive.writestr(member, data, compress_type=method)
    return stream.getvalue()


FLOW = np.array([[[1, -2], [0.5, 3]]], np.float32)
