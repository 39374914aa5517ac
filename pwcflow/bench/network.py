"""Time and memory of pairs of images, by size and batch."""

from dataclasses import dataclass

import torch

from pwcflow.bench.images import textured_pairs
from pwcflow.bench.timing import (
    Call,
    Memory,
    Times,
    forget_memory,
    out_of_gpu_memory,
    peak_memory,
    time_calls,
)
from pwcflow.cudnn import exact_convolutions
from pwcflow.estimator import PRECISIONS, UNRECORDED, FlowEstimator
from pwcflow.inference.captured import Batch, CapturedFlow
from pwcflow.network import network_size
from pwcflow.ops import prepare_images
from pwcflow.pipeline import LoadEstimator


@dataclass(frozen=True)
class PairCost:
    """What one pair of a batch takes; times are in milliseconds."""

    network: Times
    """The network alone: images and flow stay on the device."""
    whole: Times
    """Calling the estimator: numpy images in, numpy flow out."""
    memory: Memory
    """Of the whole."""


def measure_pairs(
    load: LoadEstimator,
    height: int,
    width: int,
    batch: int,
    repeats: int,
    *,
    fused: bool = True,
) -> PairCost | None:
    """Return what a pair takes, or None where the GPU has not enough memory for the batch.

    Args:
        load: returns a new estimator: one that has seen other sizes may hold memory for them.
        height: of the images, in pixels.
        width: of the images, in pixels.
        batch: pairs in a call.
        repeats: calls that are timed.
        fused: whether the network alone is prepared as for a long video; see
            `InferenceNetwork.fused`.
    """
    images = textured_pairs(batch, height, width)
    try:
        estimator = load()
        forget_memory(estimator.device)
        for _ in range(UNRECORDED if estimator.device.type == "cuda" else 0):
            estimator(*images)  # from then on it is recorded
        whole = time_calls(lambda: estimator(*images), estimator.device, repeats)
        memory = peak_memory(estimator.device)
        call = network_call(estimator, height, width, batch, fused=fused)
        network = time_calls(call, estimator.device, repeats)
    except RuntimeError as error:
        if not out_of_gpu_memory(error):
            raise
        return None
    return PairCost(network * (1 / batch), whole * (1 / batch), memory)


def network_call(
    estimator: FlowEstimator, height: int, width: int, batch: int, *, fused: bool = True
) -> Call:
    """Return a call of the estimator's network alone: images and flow stay on its device.

    On a GPU they are images as they come and flow at their size. The one place that knows what is
    inside of an estimator.
    """
    if estimator._gpu is None:
        return _plain_call(estimator, height, width, batch)
    first, second = (torch.from_numpy(images) for images in textured_pairs(batch, height, width))
    shape = Batch(
        2 * batch,
        height,
        width,
        3,
        first.dtype,
        consecutive=False,
        network_scale=estimator.network_scale,
        fused=fused,
    )
    with torch.cuda.device(estimator.device), torch.inference_mode(), exact_convolutions():
        graph = CapturedFlow(estimator._gpu.network, shape, estimator.device)
        graph.pixels.copy_(torch.cat((first, second)))

    def call() -> object:
        graph.run()
        return graph.flow

    return call


def _plain_call(estimator: FlowEstimator, height: int, width: int, batch: int) -> Call:
    first, second = (
        prepare_images(
            torch.from_numpy(images),
            *network_size(height, width, estimator.network_scale),
            PRECISIONS[estimator.precision],
        )
        for images in textured_pairs(batch, height, width)
    )
    network = estimator._network

    def call() -> object:
        with torch.inference_mode(), exact_convolutions():
            return network.decode(network.encode(first), network.encode(second))

    return call
