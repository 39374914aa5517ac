"""Times of the cost volume at each level of the network, beside other ways to compute it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor

from pwcflow.bench.timing import Call, Times, time_launches
from pwcflow.inference import runs_channels_last
from pwcflow.network import PYRAMID_CHANNELS
from pwcflow.ops import COST_VOLUME_CHANNELS, cost_volume, reference
from pwcflow.ops.reference import MAX_DISPLACEMENT

Volume = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class VolumeCost:
    """What the cost volume of one level takes, in microseconds; None was not measured.

    On a CPU ours is plain PyTorch, which is not measured twice.
    """

    level: int
    channels: int
    height: int
    width: int
    ours: Times
    plain: Times | None
    localcorr: Times | None
    ours_backward: Times
    plain_backward: Times | None


def measure_volume(
    level: int, height: int, width: int, dtype: torch.dtype, device: torch.device, repeats: int
) -> VolumeCost:
    """Return the times of one level for a pair of images of a size, on random features.

    `time_launches` says how. The gradients are those of both features. Ours takes features as
    the network has them there, channels-last or contiguous; the others take contiguous ones.

    Args:
        level: of the pyramid.
        height: of the images as the network sees them, in pixels; a multiple of 64.
        width: likewise.
        dtype: of the features.
        device: where to compute.
        repeats: calls that are timed.
    """
    channels, h, w = shape_of(level, height, width)
    generator = torch.Generator().manual_seed(level)
    first, second, grad = (
        torch.randn((1, count, h, w), generator=generator).to(device, dtype)
        for count in (channels, channels, COST_VOLUME_CHANNELS)
    )
    channels_last = runs_channels_last(dtype, device)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    our_first, our_second, our_grad = (
        it.contiguous(memory_format=layout) for it in (first, second, grad)
    )
    backward = torch.ops.pwcflow.cost_volume_backward

    def timed(call: Call) -> Times:
        with torch.inference_mode():
            return time_launches(call, device, repeats)

    def plain(call: Call) -> Times | None:
        return timed(call) if device.type == "cuda" else None

    theirs = localcorr_volume(device)
    return VolumeCost(
        level,
        channels,
        h,
        w,
        ours=timed(lambda: cost_volume(our_first, our_second)),
        plain=plain(lambda: reference.cost_volume(first, second)),
        localcorr=theirs and timed(lambda: theirs(first, second)),
        ours_backward=timed(lambda: backward(our_grad, our_first, our_second)),
        plain_backward=plain(lambda: reference.cost_volume_backward(grad, first, second)),
    )


def shape_of(level: int, height: int, width: int) -> tuple[int, int, int]:
    """Return (C, H, W) of the features of a level, for images as the network sees them."""
    return PYRAMID_CHANNELS[level], height >> level, width >> level


def localcorr_volume(device: torch.device) -> Volume | None:
    """Return the cost volume of the package localcorr, or None where it cannot run.

    Its Triton kernel returns (N, 9, 9, H, W), rows of displacements first as ours are, and sums
    over the channels where ours is the mean. It has no kernel for the gradients: they are plain
    PyTorch, 81 displacements one after the other.
    """
    if device.type != "cuda":
        return None
    try:
        factory = import_module("localcorr").get_localcorr_sampler
        volume: Volume = factory(patch_size=2 * MAX_DISPLACEMENT + 1, corr_mode="localcorr_triton")
        with torch.cuda.device(device):
            volume(*torch.rand((2, 1, 32, 8, 8), device=device))
    except Exception:  # another's package: no such module, no Triton, no compiler for its launcher
        return None
    return volume
