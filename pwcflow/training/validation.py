"""How well weights do on scenes they were not trained on."""

from pathlib import Path

import torch

from pwcflow.aligned import AlignedPwcNet, align_state
from pwcflow.ops import FLOW_SCALE
from pwcflow.training.step import Renderer
from pwcflow.weights import load_weights


@torch.inference_mode()
def rendered_error(weights: Path, renderer: Renderer, batches: int, device: torch.device) -> float:
    """Return the mean end-point error in pixels over rendered pairs.

    Args:
        weights: a checkpoint's file.
        renderer: where the pairs come from; its steps 0, 1, ... are used.
        batches: how many steps.
        device: where to compute; in float16 on a GPU.
    """
    network = AlignedPwcNet()
    network.load_state_dict(align_state(load_weights(weights).state))
    network.eval().set_precision(torch.float16 if device.type == "cuda" else torch.float32)
    network.to(device)
    total, weight = torch.zeros((), device=device), torch.zeros((), device=device)
    for step in range(batches):
        renderer.load(step)
        batch = renderer.render()
        size = batch.flow.shape[-2:]
        flow = torch.nn.functional.interpolate(
            network(batch.images)[-1] * FLOW_SCALE, size, mode="bilinear", align_corners=False
        )
        distance = torch.linalg.vector_norm(flow - batch.flow, dim=1, keepdim=True)
        total += (distance * batch.valid).sum()
        weight += batch.valid.sum()
    return float(total / weight)
