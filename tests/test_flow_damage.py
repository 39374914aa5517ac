"""Every flow format, cut at each byte of its header and damaged at random."""

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pwcflow.errors import FlowFileError
from pwcflow.flow_file import (
    check_written,
    read_flow,
    read_metadata,
    write_flow,
)
from tests.damage import MUTATIONS, mutated, with_true_checksums
from tests.flow_samples import HERE, zip_of

KINDS = [*HERE, "_x.jpg", "_x.png"]
HEADER = 700


def sample(folder: Path, kind: str) -> bytes:
    """Return a small file of a kind, and leave the other half of a pair in the folder."""
    flow = np.random.default_rng(5).normal(0, 30, (6, 7, 2)).astype(np.float32)
    flow[1, 2] = np.nan
    path = folder / f"a{kind}"
    write_flow(path, flow, bound=20 if "_x" in kind else None, metadata={"a": "b"})
    return path.read_bytes()


def attempt(path: Path, data: bytes) -> bool:
    """Read damaged data: a flow of a possible size, or one sentence."""
    path.unlink(missing_ok=True)  # some file systems are slow to write over a file
    path.write_bytes(data)
    try:
        flow = read_flow(path)
        read_metadata(path)
    except FlowFileError as error:
        message = str(error)
    else:
        assert flow.dtype == np.float32
        assert flow.ndim == 3
        assert flow.nbytes <= max(5000 * len(data), 1 << 28)  # an .exr may be mostly empty
        return True
    assert "\n" not in message
    assert str(path) in message
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(tmp_path, kind, capfd):
    data = sample(tmp_path, kind)
    path = tmp_path / f"a{kind}"
    ends = {*range(min(HEADER, len(data))), *range(max(0, len(data) - 40), len(data))}
    if len(data) - HEADER > 0:
        ends.update(range(HEADER, len(data), 97))
    for end in sorted(ends):
        assert not attempt(path, data[:end]), end
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_give_a_flow_or_a_sentence(tmp_path, kind, capfd):
    data = sample(tmp_path, kind)
    path = tmp_path / f"a{kind}"
    rng = np.random.default_rng(KINDS.index(kind))
    for index in range(MUTATIONS // len(KINDS) + 1):
        damaged = mutated(data, rng)
        if kind.endswith(".png") and index % 2:
            damaged = with_true_checksums(damaged)
        if kind == ".npz" and index % 2:  # past the checksums of the archive
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
            name = rng.choice(sorted(members))
            members[name] = mutated(members[name], rng)
            damaged = zip_of(packed=True, **{k.removesuffix(".npy"): v for k, v in members.items()})
        attempt(path, damaged)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", HERE)
@pytest.mark.parametrize("size", [(1, 1), (1, 300), (48, 64), (130, 517)])
def test_what_was_written_is_taken_for_it_and_not_for_another_size(tmp_path, kind, size):
    noise = np.random.default_rng(5).normal(0, 30, (*size, 2)).astype(np.float32)
    noise[0, 0] = np.nan
    path = tmp_path / f"a{kind}"
    for flow in (noise, np.zeros_like(noise), np.full_like(noise, 3)):
        write_flow(path, flow, metadata={"a": "b"} if flow is noise else None)
        check_written(path, size)
        if kind != ".flo5":  # whose size only the library knows
            with pytest.raises(FlowFileError, match=re.escape(str(path))):
                check_written(path, (size[0] + 1, size[1]))


@pytest.mark.parametrize("kind", HERE)
def test_what_was_written_and_damaged_is_taken_or_refused_in_a_sentence(tmp_path, kind, capfd):
    data = sample(tmp_path, kind)
    path = tmp_path / f"a{kind}"
    rng = np.random.default_rng(HERE.index(kind))
    cuts = [data[:end] for end in range(len(data))]
    for index, changed in enumerate(cuts + [mutated(data, rng) for _ in range(MUTATIONS)]):
        path.unlink(missing_ok=True)
        path.write_bytes(changed)
        message = None
        try:
            check_written(path, (6, 7))
        except FlowFileError as error:
            message = str(error)
        if message is None:
            assert index >= len(cuts), index  # none that was cut short is taken
        else:
            assert "\n" not in message
            assert str(path) in message
    assert capfd.readouterr() == ("", "")
