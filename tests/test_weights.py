"""Checkpoints by name and by path, with what is known about them."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pwcflow.errors import WeightsError
from pwcflow.network import PwcNet
from pwcflow.weights import CHECKPOINTS, load_weights


def test_the_default_weights_fit_the_network():
    state = load_weights("default").state
    PwcNet().load_state_dict(state, strict=True)
    assert sum(tensor.numel() for tensor in state.values()) == 9_374_274
    assert {tensor.dtype for tensor in state.values()} == {torch.float32}


def test_the_default_weights_say_what_they_are():
    checkpoint = CHECKPOINTS["default"]
    provenance = load_weights("default").provenance
    assert provenance.name == "default"
    assert provenance.sha256 == checkpoint.sha256
    assert provenance.trained_on == checkpoint.trained_on
    assert provenance.licence == checkpoint.licence
    assert checkpoint.licence.startswith("MIT")


def test_every_name_is_listed_with_the_shipped_one_first():
    assert list(CHECKPOINTS) == [
        "default",
        "pytorch-pwc-default",
        "pytorch-pwc-chairs-things",
        "ptlflow-things",
        "ptlflow-sintel",
    ]


@pytest.mark.parametrize("checkpoint", CHECKPOINTS.values(), ids=lambda c: c.name)
def test_every_named_checkpoint_has_its_facts(checkpoint):
    assert checkpoint.licence
    assert checkpoint.trained_on
    assert re.fullmatch("[0-9a-f]{0,64}", checkpoint.sha256)
    assert not checkpoint.url or checkpoint.url.endswith("/" + checkpoint.file_name)


def test_a_file_of_ones_own_has_its_path_as_its_name_and_no_licence(tmp_path):
    path = tmp_path / "mine.safetensors"
    save_file(PwcNet().state_dict(), path)
    provenance = load_weights(str(path)).provenance
    assert provenance.name == str(path)
    assert provenance.licence is None
    assert provenance.trained_on is None
    assert len(provenance.sha256) == 64


def test_a_copy_of_a_known_file_is_known(tmp_path):
    shipped = files("pwcflow.weights").joinpath("default.safetensors").read_bytes()
    path = tmp_path / "copy.bin"
    path.write_bytes(shipped)
    assert load_weights(path).provenance.name == "default"


def test_a_name_that_is_neither_known_nor_a_file_lists_the_names():
    with pytest.raises(WeightsError, match=r"no weights 'sintel'.*default, pytorch-pwc-default"):
        load_weights("sintel")


def test_a_name_too_long_for_a_path_lists_the_names_too():
    with pytest.raises(WeightsError, match=r"no weights 'aaa.*the names are default"):
        load_weights("a" * 5000)


def test_a_path_is_a_file_even_if_it_is_called_like_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "default").write_bytes(b"")
    with pytest.raises(WeightsError, match=r"default is empty"):
        load_weights(Path("default"))
