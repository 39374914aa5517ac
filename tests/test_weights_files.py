"""Files that are checkpoints, and the many that are not."""

import argparse
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pwcflow.errors import WeightsError
from pwcflow.weights.files import load_tensors
from pwcflow.weights.identity import sha256_of

TENSORS = {
    "conv.weight": torch.arange(3000, dtype=torch.float32).reshape(10, 300),
    "conv.bias": torch.arange(500, dtype=torch.float16),
}


class RunsWhenLoaded:
    def __reduce__(self):
        return os.mkdir, ("/tmp/pwcflow-was-here",)


def saved(path, content=TENSORS, *, legacy=False):
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return path


def message_of(path):
    with pytest.raises(WeightsError) as caught:
        load_tensors(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    assert "; " in message  # what to do
    return message


def assert_loads(path):
    tensors = load_tensors(path)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, TENSORS[name])


@pytest.mark.parametrize("suffix", [".pytorch", ".pth", ".pth.tar", ".pt", ".ckpt", "", ".bin"])
@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_files_of_torch_save_load_whatever_their_suffix(suffix, legacy, tmp_path):
    assert_loads(saved(tmp_path / f"network{suffix}", legacy=legacy))


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_safetensors_load_whatever_their_suffix(suffix, tmp_path):
    path = tmp_path / f"network{suffix}"
    save_file(TENSORS, path)
    assert_loads(path)


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_name_that_is_no_text_is_no_obstacle(suffix, tmp_path):
    path = tmp_path / f"plain{suffix}"
    if suffix == ".pt":
        torch.save(TENSORS, path)
    else:
        save_file(TENSORS, path)
    odd = tmp_path / os.fsdecode(b"\xff" + suffix.encode())
    path.rename(odd)
    assert_loads(odd)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_training_options_beside_the_tensors_are_no_obstacle(legacy, tmp_path):
    content = {
        "state_dict": TENSORS,
        "hyper_parameters": argparse.Namespace(lr=0.1, folder=Path("runs"), sizes=[1, 2]),
        "pytorch-lightning_version": "1.9.0",
        "callbacks": {},
    }
    assert_loads(saved(tmp_path / "lightning.ckpt", content, legacy=legacy))


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_objects_that_could_run_code_are_named_and_not_loaded(legacy, tmp_path):
    content = {"state_dict": TENSORS, "hook": RunsWhenLoaded()}
    path = saved(tmp_path / "unsafe.ckpt", content, legacy=legacy)
    assert f"({os.mkdir.__module__}.mkdir), which could run code" in message_of(path)
    assert not Path("/tmp/pwcflow-was-here").exists()


def test_a_whole_module_is_named_and_not_loaded(tmp_path):
    path = saved(tmp_path / "module.pt", torch.nn.Linear(2, 2))
    assert "(torch.nn.modules.linear.Linear), which could run code" in message_of(path)


@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors"])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_called_damaged(kind, share, tmp_path):
    path = tmp_path / ("cut.safetensors" if kind == "safetensors" else "cut.pth")
    if kind == "safetensors":
        save_file(TENSORS, path)
    else:
        saved(path, legacy=kind == "legacy")
    data = path.read_bytes()
    path.write_bytes(data[: max(1, int(share * len(data)))])
    assert "is damaged" in message_of(path)


def test_bytes_changed_in_the_list_of_tensors_are_called_damaged(tmp_path):
    path = saved(tmp_path / "changed.pth", legacy=True)
    data = bytearray(path.read_bytes())
    data[60:90] = bytes(30)
    path.write_bytes(data)
    assert "is damaged" in message_of(path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html><title>404</title></html>", "it is a web page"),
        (b"\xef\xbb\xbf\n  <html>", "it is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
        (pickle.dumps({"weights": [1.0]}), "a Python pickle, but not one that torch.save wrote"),
        (pickle.dumps([1, 2], protocol=2), "a Python pickle, but not one that torch.save wrote"),
        (pickle.dumps([1, 2], protocol=0), "its first bytes are of no format known"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "its first bytes are of no format known"),
    ],
    ids=["empty", "page", "page-bom", "lfs", "pickle", "pickle-2", "pickle-0", "png"],
)
def test_what_is_no_checkpoint_says_what_it_is(data, reason, tmp_path):
    path = tmp_path / "network.pytorch"
    path.write_bytes(data)
    assert reason in message_of(path)


def test_an_archive_of_other_files_is_refused(tmp_path):
    path = tmp_path / "models.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("network.pth", b"x")
    assert "a ZIP archive of other files" in message_of(path)


def test_an_archive_of_a_later_zip_version_is_called_damaged(tmp_path):
    path = saved(tmp_path / "version.pth")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 255  # the version needed to read the first entry
    path.write_bytes(data)
    assert "is damaged" in message_of(path)


def test_a_compressed_archive_is_refused_unread(tmp_path):
    path = tmp_path / "bomb.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(1 << 20))
    assert "it is compressed, which torch.save never does" in message_of(path)


def test_an_archive_that_promises_more_than_it_holds_is_refused_unread(tmp_path):
    path = saved(tmp_path / "grows.pth")
    data = bytearray(path.read_bytes())
    size = data.index(b"PK\x01\x02") + 24
    data[size : size + 4] = (1 << 31).to_bytes(4, "little")
    path.write_bytes(data)
    assert "its parts are larger than the whole" in message_of(path)


def test_a_dictionary_that_holds_itself_is_refused(tmp_path):
    content = {}
    content["model"] = content
    path = saved(tmp_path / "endless.pth", content)
    assert "under 'model' it holds a value of type dict" in message_of(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([TENSORS["conv.bias"]], "it holds a value of type list"),
        (TENSORS["conv.bias"], "it holds a value of type Tensor"),
        ({}, "it holds nothing"),
        ({"state_dict": {}}, "it holds nothing"),
        ({"conv.weight": 1.0}, "under 'conv.weight' it holds a value of type float"),
        ({3: TENSORS["conv.bias"]}, "under '3' it holds"),
    ],
    ids=["list", "tensor", "empty", "empty-state", "float", "number"],
)
def test_a_file_without_tensors_by_name_is_refused(content, reason, tmp_path):
    assert reason in message_of(saved(tmp_path / "other.pth", content))


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    assert "does not exist" in message_of(tmp_path / "none.pth")
    assert "is a folder" in message_of(tmp_path)


def test_the_hash_is_that_of_the_whole_file(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert sha256_of(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
