"""Real pairs come as the renderer's do: the same for the same step, in the same memory."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pwcflow.cli import app
from pwcflow.datasets import PairFiles
from pwcflow.errors import ImageError
from pwcflow.flow_file import write_flow
from pwcflow.image_file import read_image, write_image
from pwcflow.training.augment import AugmentSettings
from pwcflow.training.pairs import AHEAD, PairSource
from pwcflow.training.run import run_training
from pwcflow.training.scene import SceneSettings
from pwcflow.training.settings import TrainSettings
from pwcflow.training.trainer import train
from pwcflow.weights import load_weights

CPU = torch.device("cpu")
SETTINGS = AugmentSettings(height=64, width=64)
PLAIN = AugmentSettings(
    height=64, width=64, scaled=0, mirrored=0, upturned=0,
    brightness=0, contrast=0, gamma=0, colour=0, erased=0,
)  # fmt: skip


@pytest.fixture
def pairs(tmp_path):
    """Three pairs, the red of whose first images is 10, 20 and 30, and the u of their flow too."""
    found = []
    for number in (10, 20, 30):
        first, second = (tmp_path / f"{number}_{i}.png" for i in (1, 2))
        write_image(first, np.full((70, 80, 3), (number, 1, 2), np.uint8))
        write_image(second, np.full((70, 80, 3), (number, 3, 4), np.uint8))
        flow = np.full((70, 80, 2), (number, -1), np.float32)
        flow[35] = np.nan
        write_flow(tmp_path / f"{number}.flo", flow)
        found.append(PairFiles(first, second, tmp_path / f"{number}.flo"))
    return found


def tensors(source, step):
    source.load(step)
    batch = source.render()
    return [tensor.clone() for tensor in (batch.images, batch.flow, batch.valid)]


def test_images_are_blue_green_red_and_zeros_beside_their_flow(pairs):
    source = PairSource([pairs[:1]], PLAIN, batch=2, device=CPU)
    source.load(0)
    batch = source.render()
    assert batch.images.shape == (4, 8, 64, 64)
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    assert batch.images.dtype == torch.float32
    for index, pixel in enumerate([(2, 1, 10)] * 2 + [(4, 3, 10)] * 2):
        expected = torch.tensor([*pixel, 0, 0, 0, 0, 0])[:, None, None] / 255
        torch.testing.assert_close(batch.images[index], expected.expand(8, 64, 64))
    known = batch.valid[0, 0] == 1
    assert known.sum() == 63 * 64
    assert (batch.flow[0, 0] == 10 * known).all()
    assert (batch.flow[0, 1] == -1.0 * known).all()


def test_a_step_has_the_same_pairs_in_whatever_order_they_are_asked_for(pairs):
    steps = [0, 1, 2, 50, 3, 1, 51, 0, 2, 3, AHEAD, AHEAD + 1]
    seen = {}
    source = PairSource([pairs], SETTINGS, batch=2, device=CPU, seed=3, rank=1)
    for step in steps:
        got = tensors(source, step)
        for one, same in zip(seen.setdefault(step, got), got, strict=True):
            assert torch.equal(one, same), step
    assert not torch.equal(seen[0][1], seen[1][1])
    again = tensors(PairSource([pairs], SETTINGS, batch=2, device=CPU, seed=3, rank=1), 51)
    assert all(map(torch.equal, again, seen[51]))
    other = tensors(PairSource([pairs], SETTINGS, batch=2, device=CPU, seed=3, rank=0), 51)
    assert not torch.equal(other[1], seen[51][1])


def test_the_batch_stays_in_its_memory(pairs):
    source = PairSource([pairs], SETTINGS, batch=1, device=CPU)
    addresses = set()
    for step in range(3):
        source.load(step)
        batch = source.render()
        addresses.add(tuple(t.data_ptr() for t in (batch.images, batch.flow, batch.valid)))
    assert len(addresses) == 1


def test_data_sets_are_drawn_from_equally_often(pairs):
    source = PairSource([pairs[:1], pairs[1:] * 50], PLAIN, batch=8, device=CPU)
    firsts = [tensors(source, step)[1][:, 0, 0, 0] for step in range(40)]
    assert (torch.cat(firsts) == 10).float().mean().item() == pytest.approx(0.5, abs=0.1)


def test_an_image_that_cannot_be_read_is_told(pairs):
    pairs[0].second.write_bytes(b"text")
    with pytest.raises(ImageError, match=r"10_2\.png is not an image"):
        PairSource([pairs[:1]], PLAIN, batch=1, device=CPU).load(0)


def test_a_run_trains_on_them(pairs, tmp_path):
    settings = TrainSettings(
        output=tmp_path / "run", batch=1, height=64, width=64, steps=2, device="cpu", log_every=1
    )
    summary = train(
        settings,
        lambda device, rank, world: PairSource([pairs], SETTINGS, batch=1, device=device),
    )
    assert (summary.outcome, summary.step, summary.skipped) == ("finished", 2, 0)
    assert summary.epe_px > 0
    assert load_weights(summary.weights).state


@pytest.mark.gpu
def test_a_gpu_gets_the_pairs_of_the_cpu_in_half_precision(pairs):
    sources = [
        PairSource([pairs], SETTINGS, batch=2, device=torch.device(name))
        for name in ("cuda", "cpu")
    ]
    for step in range(2 * AHEAD):
        ours, theirs = (tensors(source, step) for source in sources)
        assert ours[0].dtype == torch.float16
        torch.testing.assert_close(ours[0].cpu(), theirs[0].half(), rtol=0, atol=5e-4)
        assert torch.equal(ours[1].cpu(), theirs[1])
        assert torch.equal(ours[2].cpu(), theirs[2])


@pytest.mark.gpu
def test_a_gpu_trains_on_a_data_set_as_a_cpu_does(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "chairs"
    folder.mkdir()
    for number in range(1, 4):
        first = rng.integers(0, 256, (96, 128, 3), dtype=np.uint8)
        for i, image in ((1, first), (2, np.roll(first, (2, -3), (0, 1)))):
            write_image(folder / "image.png", image)
            (folder / "image.png").rename(folder / f"{number:05}_img{i}.ppm")  # content decides
        write_flow(folder / f"{number:05}_flow.flo", np.full((96, 128, 2), (-3, 2), np.float32))
    logs = []
    for device in ("cpu", "cuda"):
        settings = TrainSettings(
            output=tmp_path / device, batch=2, height=64, width=64, steps=6, device=device,
            log_every=1,
        )  # fmt: skip
        run_training(
            settings, SceneSettings(), photos=[], sprites=[], holdout=[], data=[("chairs", folder)]
        )
        lines = map(json.loads, settings.log_path.read_text().splitlines())
        logs.append([line for line in lines if "loss" in line])
    for line in logs[1]:
        assert np.isfinite([line["loss"], line["epe_px"], line["grad_norm"]]).all()
        assert line["skipped"] == 0
    # Of the same weights and pairs, but in half precision.
    assert logs[1][0]["loss"] == pytest.approx(logs[0][0]["loss"], rel=0.01)
    assert logs[1][0]["epe_px"] == pytest.approx(logs[0][0]["epe_px"], rel=0.01)


@pytest.fixture
def chairs(tmp_path, monkeypatch):
    """A folder `chairs` of one pair, in the current one."""
    monkeypatch.chdir(tmp_path)
    Path("chairs").mkdir()
    for i in (1, 2):
        write_image(Path("chairs/1.png"), np.full((64, 64, 3), 50 * i, np.uint8))
        Path("chairs/1.png").rename(f"chairs/00001_img{i}.ppm")  # its content decides
    write_flow(Path("chairs/00001_flow.flo"), np.full((64, 64, 2), 2, np.float32))


def invoke(line):
    return CliRunner().invoke(app, [*line.split(), "--device", "cpu", "--size", "64x64"])


def test_the_command_trains_on_data_sets(chairs):
    result = invoke("train -o run --steps 1 --batch 1 --data chairs:chairs --quiet --json")
    assert (result.exit_code, result.stderr) == (0, "")
    summary = json.loads(result.stdout)
    assert (summary["pairs"], summary["data"]) == (1, {"chairs:chairs": 1})
    assert summary["images"] == {"training": {"pairs": 1}}


@pytest.mark.parametrize("devices", [1, 2])
def test_a_data_set_that_is_known_nowhere_is_told_before_a_step(chairs, devices):
    write_flow(Path("chairs/00001_flow.flo"), np.full((64, 64, 2), np.nan, np.float32))
    line = f"train -o run --steps 1 --batch 1 --data chairs:chairs --quiet --devices {devices}"
    result = invoke(line)
    assert result.exit_code == 1
    assert result.stderr == (
        "error: no pixel of the pairs that weights are measured on has a known flow; give others\n"
    )
    assert not Path("run/weights.safetensors").exists()


def test_the_command_previews_data_sets(chairs):
    result = invoke("train --preview sheet.png --data chairs:chairs")
    assert (result.exit_code, result.stdout) == (0, "sheet.png: pairs and their flow\n")
    assert read_image("sheet.png").shape == (6 * 320, 2 * 960, 3)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--data chairs", 2, "must be KIND:FOLDER, KIND one of chairs, things"),
        ("--data photos:chairs", 2, "must be KIND:FOLDER"),
        ("--data chairs:", 2, "must be KIND:FOLDER"),
        ("--data chairs:chairs --photos chairs", 2, "are of rendered pairs"),
        ("--data chairs:chairs --motion 5", 2, "are of rendered pairs"),
        ("--data sintel:chairs", 1, "there are no sintel pairs in chairs: looked for training/"),
        ("--data manifest:missing.csv", 1, "cannot read missing.csv"),
    ],
)
def test_wrong_data_is_told(chairs, options, code, message):
    result = invoke(f"train -o run --steps 1 {options}")
    assert result.exit_code == code
    assert message in " ".join(result.stderr.replace("\u2502", " ").split())
    assert not Path("run").exists()
