"""A stand-in for the renderer: smooth random textures, moved by whole pixels; and tiny runs."""

import json
import os
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from pwcflow.training.ranks import joined_by_environment
from pwcflow.training.settings import TrainSettings
from pwcflow.training.trainer import _Run

LARGEST_MOTION = 6


class ShiftedTextures:
    """Pairs that depend on the rank and the step, or on the rank alone if `fixed`."""

    def __init__(self, device, rank=0, world=1, *, batch=1, size=64, fixed=False):
        self.batch, self.size, self.fixed, self.rank, self.world = batch, size, fixed, rank, world
        device = torch.device(device)
        dtype = torch.float16 if device.type == "cuda" else torch.float32
        shape = (2 * batch, 8, size, size)
        self.images = torch.zeros(shape, device=device, dtype=dtype).to(
            memory_format=torch.channels_last
        )
        self.flow = torch.zeros(batch, 2, size, size, device=device)
        self.valid = torch.zeros(batch, 1, size, size, device=device)
        self.scenes = SimpleNamespace(
            textures=torch.zeros(2 * batch, 3, size, size, device=device),
            motion=torch.zeros(batch, 2, 1, 1, device=device),
        )

    def load(self, step):
        seed = (0 if self.fixed else step) * self.world + self.rank
        generator = torch.Generator().manual_seed(seed)
        coarse = torch.rand(self.batch, 3, self.size // 8, self.size // 8, generator=generator)
        first = F.interpolate(coarse, (self.size, self.size), mode="bicubic").clamp(0, 1)
        reach = LARGEST_MOTION
        motion = torch.randint(-reach, reach + 1, (self.batch, 2), generator=generator)
        second = [
            texture.roll((int(v), int(u)), (1, 2))
            for texture, (u, v) in zip(first, motion, strict=True)
        ]
        self.scenes.textures.copy_(torch.cat((first, torch.stack(second))))
        self.scenes.motion.copy_(motion[:, :, None, None])

    def render(self):
        self.images[:, :3].copy_(self.scenes.textures)
        self.flow.copy_(self.scenes.motion.expand_as(self.flow))
        self.valid.fill_(1.0)
        return SimpleNamespace(images=self.images, flow=self.flow, valid=self.valid)


def shifted_textures(device, rank, world):
    return ShiftedTextures(device, rank, world)


def fixed_textures(device, rank, world):
    return ShiftedTextures(device, rank, world, fixed=True)


def join_as(rank, world, port):
    """Let this process know what torchrun tells one of those it starts."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def run_and_keep_the_state(rank, settings, world, port):
    """Be one of the processes that torchrun would start; leave the optimizer's state in a file."""
    join_as(rank, world, port)
    with joined_by_environment(settings.device) as ranks:
        run = _Run(settings, shifted_textures, None, None, ranks)
        run.run()
    torch.save(run._optimizer.state(), settings.output / f"rank{rank}.pt")


def tiny(output, **changes):
    values = {"batch": 1, "height": 64, "width": 64, "steps": 3, "device": "cpu", "log_every": 1}
    return TrainSettings(output=output, **values | changes)


def lines(path):
    return [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
