"""The weights that training from scratch starts from."""

import torch
from torch import Tensor, nn

from pwcflow.network import LEAKY_SLOPE, PwcNet, uninitialized

HEAD_SHARE = 0.1
"""Layers that give flow, or a feature beside it, start small: the first flow is nearly zero."""
BILINEAR = (0.25, 0.75, 0.75, 0.25)
"""Along one axis, what doubles the resolution of flow by bilinear interpolation."""


def initial_weights(seed: int) -> dict[str, Tensor]:
    """Return random weights for `PwcNet`, float32, on the CPU, the same for one seed.

    Source: He et al., "Delving Deep into Rectifiers", ICCV 2015 (arXiv 1502.01852), for the slope
    of the network's LeakyReLU; biases are zero.
    """
    generator = torch.Generator().manual_seed(seed)
    network = uninitialized(PwcNet)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(module.weight, a=LEAKY_SLOPE, generator=generator)
            assert module.bias is not None, "every convolution here has a bias"
            nn.init.zeros_(module.bias)
    state = network.state_dict()
    for name, weight in state.items():
        if name.endswith("upsample_flow.weight"):
            weight.copy_(_bilinear(weight.shape[0]))
        elif name in _small_weights(network):
            weight.mul_(HEAD_SHARE)
    return state


def _small_weights(network: PwcNet) -> set[str]:
    heads = {f"context.{len(network.context) - 1}.weight"}
    for level in network.decoders:
        heads |= {f"decoders.{level}.{layer}.weight" for layer in ("flow_head", "upsample_feature")}
    return heads


def _bilinear(channels: int) -> Tensor:
    """Return the kernel of a transposed convolution that upsamples each channel by itself."""
    line = torch.tensor(BILINEAR)
    return torch.eye(channels)[:, :, None, None] * torch.outer(line, line)
