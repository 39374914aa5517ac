"""PWC-Net in channels-last tensors: nothing is copied or kept that can be spared.

`AlignedPwcNet` says what is computed; here it is said how, where only the flow is wanted. Each
dense block lives in one channels-last tensor into which everything is written where it belongs:

    the five convolutions' results, the last one first
    cost volume 81, 7 of zeros
    first feature, flow 2, feature 2, 4 of zeros        but for level 6

A convolution reads from the channels behind those that it writes. Without cuDNN PyTorch does the
same in more steps, which serves as reference.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pwcflow.aligned import ALIGNMENT, AlignedPwcNet, align_state
from pwcflow.cudnn import Geometry
from pwcflow.inference.convolution import convolve_into, transpose_into
from pwcflow.network import (
    DECODER_LEVELS,
    DENSE_CHANNELS,
    LEAKY_SLOPE,
    PYRAMID_CHANNELS,
    FlowDecoder,
    Pyramid,
)
from pwcflow.ops import (
    ALIGNED_CHANNELS,
    FEATURE_PLACE,
    FLOW_SCALE,
    PACKED_CHANNELS,
    leaky_cost_volume,
    upsample_flow,
    warp_features,
)

LINEAR = 1.0
"""Slope of a LeakyReLU that does nothing."""
_UPSAMPLING = Geometry(stride=2, padding=1)


@dataclass(frozen=True)
class _Convolution:
    weight: Tensor
    """(K, C, 3, 3), channels-last; K filled up with zeros to a multiple of ALIGNMENT."""
    bias: Tensor
    geometry: Geometry

    @property
    def width(self) -> int:
        return len(self.bias)


@dataclass(frozen=True)
class _Upsampling:
    """The transposed convolutions between two decoders."""

    flow_weight: Tensor
    flow_bias: Tensor
    feature_weight: Tensor
    """(C, 8, 4, 4), channels-last: zeros but for the feature's place."""
    feature_bias: Tensor


@dataclass(frozen=True)
class _Decoder:
    level: int
    dense: list[_Convolution]
    head: _Convolution
    upsampling: _Upsampling | None


class ChannelsLastNetwork:
    """An `InferenceNetwork` for half precision on a GPU."""

    def __init__(
        self, state: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device
    ) -> None:
        """Take `PwcNet`'s state dict; `dtype` is what is computed in, flow itself in float32."""
        network = AlignedPwcNet()
        network.load_state_dict(align_state(state))
        network.requires_grad_(False)
        self.dtype, self._device = dtype, device
        self._fused = False
        self._pyramid = {
            int(name): self._convolutions(_filled_up(int(name), layers))
            for name, layers in network.pyramid.levels.items()
        }
        self._decoders = [self._decoder(network.decoders[str(level)]) for level in DECODER_LEVELS]
        self._context = self._convolutions(network.context)

    def fused(self) -> "ChannelsLastNetwork":
        """Return this network, its convolutions adding bias and LeakyReLU themselves on a GPU.

        It is faster by a fifth, but cuDNN compiles such convolutions when they are first used, up
        to three ways for each of some fifty. For each size and batch that takes from 5 to 30
        seconds one after the other, and some seconds in a block of `pwcflow.cudnn.planning`.
        """
        network = copy.copy(self)
        network._fused = True
        return network

    def encode(self, images: Tensor, into: Pyramid | None = None) -> Pyramid:
        """Return the features of images; see `InferenceNetwork.encode`."""
        pyramid: Pyramid = {}
        x = images
        for level, layers in self._pyramid.items():
            for layer in layers[:-1]:
                x = self._result(x, layer, LEAKY_SLOPE)
            if into:
                self._convolve(x, layers[-1], into[level], LEAKY_SLOPE)
                x = into[level]
            else:
                x = self._result(x, layers[-1], LEAKY_SLOPE)
            pyramid[level] = x
        return pyramid

    def empty_pyramid(self, count: int, height: int, width: int) -> Pyramid:
        """Return a pyramid of `count` images to be written, of H x W pixels."""
        return {
            level: self._empty(count, layers[-1].width, height >> level, width >> level)
            for level, layers in self._pyramid.items()
        }

    def decode(self, first: Pyramid, second: Pyramid) -> Tensor:
        """Return the flow from the first images to the second; see `InferenceNetwork.decode`."""
        found: tuple[Tensor, Tensor] | None = None
        for decoder in self._decoders:
            found = self._decode(decoder, first[decoder.level], second[decoder.level], found)
        assert found is not None
        flow, x = found
        for layer in self._context[:-1]:
            x = self._result(x, layer, LEAKY_SLOPE)
        return flow + self._result(x, self._context[-1], LINEAR)[:, :2]

    def _decode(
        self,
        decoder: _Decoder,
        first: Tensor,
        second: Tensor,
        coarser: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, Tensor]:
        """Return this level's flow, (N, 2, h, w) float32, and the features it was read from."""
        n, c, h, w = first.shape
        place = sum(DENSE_CHANNELS)
        if decoder.upsampling is None:
            x = self._empty(n, place + ALIGNED_CHANNELS, h, w)
            warped = second
            volume = x[:, place:]
        else:
            assert coarser is not None
            x = self._empty(n, place + ALIGNED_CHANNELS + c + PACKED_CHANNELS, h, w)
            flow = torch.empty((n, 2, h, w), device=x.device)
            self._upsample(decoder.upsampling, *coarser, flow, x[:, -PACKED_CHANNELS:])
            warped = warp_features(second, flow, FLOW_SCALE / 2**decoder.level)
            volume = x[:, place:-PACKED_CHANNELS]
        leaky_cost_volume(first, warped, LEAKY_SLOPE, volume)
        for layer in decoder.dense:
            start = place - layer.width
            self._convolve(x[:, place:], layer, x[:, start:place], LEAKY_SLOPE)
            place = start
        return self._result(x, decoder.head, LINEAR)[:, :2].float(), x

    def _upsample(
        self, layers: _Upsampling, coarse: Tensor, x: Tensor, flow: Tensor, packed: Tensor
    ) -> None:
        transpose_into(x, layers.feature_weight, packed, _UPSAMPLING)
        upsample_flow(
            coarse, layers.flow_weight, layers.flow_bias, layers.feature_bias, flow, packed
        )

    def _result(self, x: Tensor, layer: _Convolution, slope: float) -> Tensor:
        n, _, h, w = x.shape
        stride = layer.geometry.stride
        out = self._empty(n, layer.width, h // stride, w // stride)
        self._convolve(x, layer, out, slope)
        return out

    def _convolve(self, x: Tensor, layer: _Convolution, out: Tensor, slope: float) -> None:
        convolve_into(x, layer.weight, layer.bias, out, layer.geometry, slope, fused=self._fused)

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(
            shape, dtype=self.dtype, device=self._device, memory_format=torch.channels_last
        )

    def _decoder(self, module: nn.Module) -> _Decoder:
        assert isinstance(module, FlowDecoder)
        coarsest = module.level == DECODER_LEVELS[0]
        return _Decoder(
            module.level,
            [self._convolutions(layer)[0] for layer in module.dense],
            self._convolution(module.flow_head),
            None if coarsest else self._upsampling(module.upsample_flow, module.upsample_feature),
        )

    def _upsampling(self, flow: nn.ConvTranspose2d, feature: nn.ConvTranspose2d) -> _Upsampling:
        inputs, _, *window = feature.weight.shape
        weight = feature.weight.new_zeros(inputs, PACKED_CHANNELS, *window)
        weight[:, FEATURE_PLACE] = feature.weight
        return _Upsampling(
            self._exact(flow.weight),
            self._exact(flow.bias),
            self._taken(weight),
            self._exact(feature.bias),
        )

    def _convolutions(self, layers: nn.Module) -> list[_Convolution]:
        convolutions = [layer for layer in layers.children() if isinstance(layer, nn.Conv2d)]
        return [self._convolution(layer) for layer in convolutions]

    def _convolution(self, layer: nn.Module) -> _Convolution:
        assert isinstance(layer, nn.Conv2d)
        gap = -layer.out_channels % ALIGNMENT
        seen = -layer.in_channels % ALIGNMENT
        weight = F.pad(layer.weight, (0, 0, 0, 0, 0, seen, 0, gap))
        assert layer.bias is not None
        return _Convolution(
            self._taken(weight),
            F.pad(layer.bias, (0, gap)).to(self._device, self.dtype),
            Geometry(_square(layer.stride), _square(layer.padding), _square(layer.dilation)),
        )

    def _taken(self, weight: Tensor) -> Tensor:
        weight = weight.to(self._device, self.dtype)
        return weight.contiguous(memory_format=torch.channels_last)

    def _exact(self, parameter: Tensor | None) -> Tensor:
        assert parameter is not None
        return parameter.to(self._device, torch.float32).contiguous()


def _filled_up(level: int, layers: nn.Module) -> nn.Module:
    """Return a level of the pyramid, scaled so that channels of zeros change no cost volume.

    The cost volume is a mean over channels. Level 6, whose 196 become 200, has its features scaled
    by the root of their ratio: nothing else sees them, and LeakyReLU lets the scale through.
    """
    channels = PYRAMID_CHANNELS[level]
    filled = channels + -channels % ALIGNMENT
    if filled != channels:
        assert level == DECODER_LEVELS[0], "finer levels' features are seen by the decoder too"
        *_, last = (layer for layer in layers.children() if isinstance(layer, nn.Conv2d))
        assert last.bias is not None
        for parameter in (last.weight, last.bias):
            parameter.mul_(math.sqrt(filled / channels))
    return layers


def _square(sizes: Sequence[int] | str) -> int:
    """Return the one number that both axes have."""
    first, second = (int(size) for size in sizes)
    assert first == second
    return first
