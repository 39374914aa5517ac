"""How well weights do on pairs that stay the same: at the start of a run, at its end, between."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcflow.aligned import AlignedPwcNet
from pwcflow.errors import PwcFlowError
from pwcflow.image_file import Image
from pwcflow.network import uninitialized
from pwcflow.ops import FLOW_SCALE
from pwcflow.training.contact_sheet import comparison_sheet
from pwcflow.training.step import Renderer

SHEET_PAIRS = 4

MakeRenderers = Callable[[torch.device], Mapping[str, Callable[[], Renderer]]]
"""From the device, what makes the pairs of each validation set, by name; they are made anew each
time, so that they take no memory between."""


@dataclass(frozen=True)
class Measured:
    """What came out on one set of pairs."""

    epe_px: float
    """Mean end-point error in pixels."""
    motion_px: float
    """Mean length of the true flow: the error of weights that find no flow at all."""
    sheet: Image
    """First frame, estimated and true flow of a few pairs."""


@torch.inference_mode()
def measure(
    weights: Mapping[str, Tensor], renderer: Renderer, batches: int, device: torch.device
) -> Measured:
    """Return how weights do on the pairs of a renderer's steps 0, 1, ...

    Args:
        weights: of `AlignedPwcNet`.
        renderer: where the pairs come from.
        batches: how many steps.
        device: where to compute; in float16 on a GPU.

    Raises:
        PwcFlowError: the true flow is known nowhere.
    """
    network = uninitialized(AlignedPwcNet)
    network.load_state_dict(dict(weights))
    network.eval().set_precision(torch.float16 if device.type == "cuda" else torch.float32)
    network.to(device)
    error, motion, weight = (torch.zeros((), device=device) for _ in range(3))
    sheet: Image | None = None
    for step in range(batches):
        renderer.load(step)
        batch = renderer.render()
        size = batch.flow.shape[-2:]
        flow = torch.nn.functional.interpolate(
            network(batch.images)[-1] * FLOW_SCALE, size, mode="bilinear", align_corners=False
        )
        if sheet is None:
            sheet = comparison_sheet(batch, flow[:SHEET_PAIRS])
        error += _sum_of_lengths(flow - batch.flow, batch.valid)
        motion += _sum_of_lengths(batch.flow, batch.valid)
        weight += batch.valid.sum()
    assert sheet is not None, "there is at least one step"
    if not weight:
        raise PwcFlowError(
            "no pixel of the pairs that weights are measured on has a known flow; give others"
        )
    return Measured(float(error / weight), float(motion / weight), sheet)


def _sum_of_lengths(vectors: Tensor, valid: Tensor) -> Tensor:
    lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return torch.where(valid > 0, lengths * valid, 0.0).sum()


def validate(
    weights: Mapping[str, Tensor], make: MakeRenderers, batches: int, device: torch.device
) -> dict[str, Measured]:
    """Return how weights do on each validation set, by its name; see `measure`."""
    return {
        name: measure(weights, make_renderer(), batches, device)
        for name, make_renderer in make(device).items()
    }
