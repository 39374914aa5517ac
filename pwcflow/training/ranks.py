"""What the processes of a run, one a device, have to tell each other."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from pwcflow.device import find_device

ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
"""What torchrun tells each process it starts."""
PATIENCE = timedelta(hours=6)
"""How long processes wait for one another: the first one measures on as many pairs as it is given,
and the ten minutes of NCCL are soon over. If one ends, whoever started it ends the others, so that
none waits in vain."""


@dataclass(frozen=True)
class Ranks:
    """This process among the others. Alone, it has nobody to ask."""

    device: torch.device
    rank: int = 0
    world: int = 1

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, the same in all of them."""
        if self.world > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by that of the first process."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def agree(self, stop: bool, elapsed: float) -> tuple[bool, float]:
        """Return whether any process wants to stop, and the first one's elapsed seconds."""
        if self.world == 1:
            return stop, elapsed
        told = torch.tensor(
            [float(stop), elapsed if self.rank == 0 else 0.0],
            dtype=torch.float64,
            device=self.device,
        )
        dist.all_reduce(told)
        wanted, seconds = told.tolist()
        return wanted > 0, seconds


def started_by_torchrun() -> bool:
    """Return whether this process is one of several that torchrun started."""
    return all(name in os.environ for name in ENVIRONMENT)


def is_first_process() -> bool:
    """Return whether this process is alone, or the first of those that torchrun started."""
    return not started_by_torchrun() or os.environ["RANK"] == "0"


def device_of(name: str, local_rank: int) -> torch.device:
    """Return the device of a process: each its own GPU, or all the CPU.

    Raises:
        DeviceError: there are fewer GPUs than processes, or the name is unknown.
    """
    device = find_device(name)
    return find_device(f"cuda:{local_rank}") if device.type == "cuda" else device


@contextmanager
def joined_by_environment(device_name: str) -> Iterator[Ranks]:
    """Join the processes that torchrun started, and leave them at the end."""
    rank, world, local_rank = (int(os.environ[name]) for name in ENVIRONMENT)
    with _group(Ranks(device_of(device_name, local_rank), rank, world), None) as ranks:
        yield ranks


def open_store() -> TCPStore:
    """Return where the processes of this machine find each other, by its `port`, while it lives."""
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@contextmanager
def joined_by_port(device_name: str, rank: int, world: int, port: int) -> Iterator[Ranks]:
    """Join the processes that know the port of a store on this machine."""
    device = device_of(device_name, rank)
    store = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    with _group(Ranks(device, rank, world), store) as ranks:
        yield ranks


@contextmanager
def _group(ranks: Ranks, store: Store | None) -> Iterator[Ranks]:
    on_gpu = ranks.device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(ranks.device)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=store,
        rank=ranks.rank,
        world_size=ranks.world,
        timeout=PATIENCE,
        device_id=ranks.device if on_gpu else None,
    )
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
