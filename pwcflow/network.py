"""PWC-Net, written to be held beside the paper.

Source: Sun, Yang, Liu, Kautz, "PWC-Net: CNNs for Optical Flow Using Pyramid, Warping, and Cost
Volume", CVPR 2018 (arXiv 1709.02371), in the densely connected variant its authors released
(9,374,274 parameters). Images enter in the order blue, green, red, scaled to 0..1.

Inside the network flow is in units of `FLOW_SCALE` full-resolution pixels at every level.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pwcflow.ops import COST_VOLUME_CHANNELS, FLOW_SCALE, cost_volume
from pwcflow.warp import backward_warp

Built = TypeVar("Built", bound=nn.Module)

PYRAMID_CHANNELS: dict[int, int] = {1: 16, 2: 32, 3: 64, 4: 96, 5: 128, 6: 196}
"""Feature channels of each pyramid level; level l has 1 / 2**l of the image's resolution."""
PYRAMID_STRIDE = 1 << max(PYRAMID_CHANNELS)
"""Image sizes the network takes are multiples of this."""
DECODER_LEVELS = (6, 5, 4, 3, 2)
DENSE_CHANNELS = (128, 128, 96, 64, 32)
CONTEXT_CHANNELS = (128, 128, 128, 96, 64, 32)
CONTEXT_DILATIONS = (1, 2, 4, 8, 16, 1)
LEAKY_SLOPE = 0.1

Pyramid = dict[int, Tensor]
"""Features by level: (N, PYRAMID_CHANNELS[level], H / 2**level, W / 2**level)."""


class FeaturePyramid(nn.Module):
    """Six levels of features, each from the one before by three convolutions."""

    def __init__(self) -> None:
        """Build the levels with PyTorch's default initialisation."""
        super().__init__()
        widths = (3, *PYRAMID_CHANNELS.values())
        self.levels = nn.ModuleDict(
            {
                str(level): nn.Sequential(
                    *_convolution(fine, coarse, stride=2),
                    *_convolution(coarse, coarse),
                    *_convolution(coarse, coarse),
                )
                for level, (fine, coarse) in zip(PYRAMID_CHANNELS, pairwise(widths), strict=True)
            }
        )

    def forward(self, image: Tensor) -> Pyramid:
        """Return the features of (N, 3, H, W) BGR images in 0..1, at the levels decoded."""
        return self.coarser(self.levels["1"](image))

    def coarser(self, feature: Tensor) -> Pyramid:
        """Return the features at the levels decoded, given that of level 1, which is not."""
        pyramid = {}
        for level in range(2, len(self.levels) + 1):
            feature = self.levels[str(level)](feature)
            if level in DECODER_LEVELS:
                pyramid[level] = feature
        return pyramid


class FlowDecoder(nn.Module):
    """Flow at one level, from the cost volume and what the coarser level found."""

    def __init__(self, level: int) -> None:
        """Build the decoder of pyramid level `level`; the coarsest has nothing to refine."""
        super().__init__()
        self.level = level
        if level < DECODER_LEVELS[0]:
            self.upsample_flow = nn.ConvTranspose2d(2, 2, 4, stride=2, padding=1)
            self.upsample_feature = nn.ConvTranspose2d(
                decoder_output_channels(level + 1), 2, 4, stride=2, padding=1
            )
        channels = decoder_input_channels(level)
        self.dense = nn.ModuleList()
        for width in DENSE_CHANNELS:
            self.dense.append(nn.Sequential(*_convolution(channels, width)))
            channels += width
        self.flow_head = nn.Conv2d(channels, 2, 3, padding=1)

    def forward(
        self, first: Tensor, second: Tensor, coarser: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Return this level's flow and the features it was read from.

        Args:
            first: features of the first image at this level, (N, C, H, W).
            second: features of the second image, same shape.
            coarser: what the decoder of the level above returned; None at the coarsest level.

        Returns:
            flow (N, 2, H, W), float32 at the least, and features (N, C', H, W).
        """
        if coarser is None:
            x = self._matching_cost(first, second)
        else:
            coarse_flow, coarse_feature = coarser
            flow = self.upsample_flow(coarse_flow)
            feature = self.upsample_feature(coarse_feature)
            warped = backward_warp(second, flow * (FLOW_SCALE / 2**self.level))
            x = torch.cat(
                (self._matching_cost(first, warped), first, flow.to(first.dtype), feature), dim=1
            )
        for layer in self.dense:
            x = torch.cat((layer(x), x), dim=1)
        return self.flow_head(x.to(self.flow_head.weight.dtype)), x

    @staticmethod
    def _matching_cost(first: Tensor, second: Tensor) -> Tensor:
        return F.leaky_relu(cost_volume(first, second), LEAKY_SLOPE)


class PwcNet(nn.Module):
    """PWC-Net: a feature pyramid, a decoder a level, and a context network at the finest."""

    def __init__(self) -> None:
        """Build the network with PyTorch's default initialisation."""
        super().__init__()
        self.pyramid = FeaturePyramid()
        self.decoders = nn.ModuleDict({str(level): FlowDecoder(level) for level in DECODER_LEVELS})
        layers: list[nn.Module] = []
        channels = decoder_output_channels(DECODER_LEVELS[-1])
        for width, dilation in zip(CONTEXT_CHANNELS, CONTEXT_DILATIONS, strict=True):
            layers += _convolution(channels, width, dilation=dilation)
            channels = width
        self.context = nn.Sequential(*layers, nn.Conv2d(channels, 2, 3, padding=1))

    def set_precision(self, dtype: torch.dtype) -> "PwcNet":
        """Convert the weights to `dtype` in place, but what computes flow to float32 at the least.

        Flow is a coordinate: in bfloat16 a motion of 50 px could only change in steps of 0.25 px.
        """
        self.to(dtype)
        flow_dtype = torch.promote_types(dtype, torch.float32)
        for decoder in self.decoders.values():
            for name, module in decoder.named_children():
                if name in ("flow_head", "upsample_flow"):
                    module.to(flow_dtype)
        self.context[-1].to(flow_dtype)
        return self

    def encode(self, image: Tensor) -> Pyramid:
        """Return the features of (N, 3, H, W) BGR images in 0..1.

        Raises:
            ValueError: the height or the width is no multiple of 64.
        """
        _, _, h, w = image.shape
        check_size(h, w)
        pyramid: Pyramid = self.pyramid(image)
        return pyramid

    def decode(self, first: Pyramid, second: Pyramid) -> list[Tensor]:
        """Return the flow from the first image to the second at levels 6, 5, 4, 3, 2.

        Args:
            first: features of the first images, from `encode`.
            second: features of the second images, same shapes.

        Returns:
            five tensors (N, 2, H / 2**level, W / 2**level), coarse to fine, float32 at the least,
            in units of FLOW_SCALE full-resolution pixels; channel 0 is u (right), 1 is v (down).
            The last one is refined by the context network.
        """
        flows: list[Tensor] = []
        found: tuple[Tensor, Tensor] | None = None
        for name, decoder in self.decoders.items():
            found = decoder(first[int(name)], second[int(name)], found)
            flows.append(found[0])
        assert found is not None
        refinement = self.context[:-1](found[1])
        head = self.context[-1]
        flows[-1] = flows[-1] + head(refinement.to(head.weight.dtype))
        return flows

    def forward(self, first: Tensor, second: Tensor) -> list[Tensor]:
        """Return `decode` of two batches of images, (N, 3, H, W) BGR in 0..1."""
        return self.decode(self.encode(first), self.encode(second))


def uninitialized(build: Callable[[], Built]) -> Built:
    """Return a network whose weights are whatever is in memory, to load others into.

    PyTorch's initialisation would draw from the program's random numbers.
    """
    with torch.device("meta"):
        network = build()
    empty: Built = network.to_empty(device="cpu")
    return empty


def network_size(height: int, width: int, network_scale: float = 1.0) -> tuple[int, int]:
    """Return the height and width that images are resized to for the network, in pixels.

    `network_scale` times theirs, up to the next multiples of 64.
    """

    def axis(size: int) -> int:
        wanted = round(size * network_scale, 6)  # 640 * 1.1 is 704, not a little more
        return math.ceil(wanted / PYRAMID_STRIDE) * PYRAMID_STRIDE

    return axis(height), axis(width)


def check_size(height: int, width: int) -> None:
    """Raise `ValueError` unless the network takes images of this size."""
    if height % PYRAMID_STRIDE or width % PYRAMID_STRIDE:
        size = f"{height} x {width}"
        raise ValueError(f"height and width must be multiples of {PYRAMID_STRIDE}: {size}")


def decoder_input_channels(level: int) -> int:
    """Return the channels a dense block starts from: cost, first feature, flow 2, feature 2."""
    if level == DECODER_LEVELS[0]:
        return COST_VOLUME_CHANNELS
    return COST_VOLUME_CHANNELS + PYRAMID_CHANNELS[level] + 2 + 2


def decoder_output_channels(level: int) -> int:
    """Return the channels a dense block ends with: its input and every layer's output."""
    return decoder_input_channels(level) + sum(DENSE_CHANNELS)


def _convolution(
    inputs: int, outputs: int, *, stride: int = 1, dilation: int = 1
) -> tuple[nn.Module, nn.Module]:
    """Return a 3x3 convolution that keeps the size (but for its stride) and its LeakyReLU."""
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=dilation, dilation=dilation)
    return convolution, nn.LeakyReLU(LEAKY_SLOPE, inplace=True)
