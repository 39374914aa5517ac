"""PWC-Net in channels-last tensors: nothing is copied or kept that can be spared.

`AlignedPwcNet` says what is computed; here it is said how, where only the flow is wanted. Each
dense block comes to be one channels-last tensor:

    the five convolutions' results, the last one first
    cost volume 81, 7 of zeros
    first feature, flow 2, feature 2, 4 of zeros        but for level 6

Convolutions of float32, and fused ones of half precision, write where their result belongs in it,
and read from the channels behind that. cuDNN's ready ones of half precision would copy both ways;
there each result is put in front of what was read, in a new tensor, in the one pass that adds the
bias. In half precision an image, and what the first convolution makes of it, is the sum of two
parts; see `split_convolution`. The convolution that finds the flow also finds the next level's
feature; see `decoder_head`.

Without kernels PyTorch does the same in more steps, which serves as reference.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pwcflow.aligned import ALIGNMENT, AlignedPwcNet, align_state, fill_up
from pwcflow.cudnn import Geometry
from pwcflow.decoder_head import decoder_head
from pwcflow.inference.convolution import convolve_and_append, convolve_into
from pwcflow.network import (
    DECODER_LEVELS,
    DENSE_CHANNELS,
    LEAKY_SLOPE,
    PYRAMID_CHANNELS,
    FlowDecoder,
    Pyramid,
    uninitialized,
)
from pwcflow.ops import (
    ALIGNED_CHANNELS,
    FLOW_SCALE,
    IMAGE_CHANNELS,
    PACKED_CHANNELS,
    has_fast_floats,
    leaky_cost_volume,
    split_convolution,
    upsample_flow,
    warp_features,
)

LINEAR = 1.0
"""Slope of a LeakyReLU that does nothing."""


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
class _FloatLayer:
    """A convolution whose kernel takes float32 weights in every precision."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class _Decoder:
    level: int
    dense: list[_Convolution]
    head: _Convolution
    """To the flow and, but for the finest level, to the next level's feature, as `upsample_flow`
    takes them."""
    upsampling: _FloatLayer | None
    """The flow's transposed convolution, from the level before."""


def runs_channels_last(dtype: torch.dtype, device: torch.device) -> bool:
    """Return whether `ChannelsLastNetwork` is the fastest way to compute in `dtype` on a device.

    Asks `has_fast_floats` of float32 on a GPU.
    """
    return device.type == "cuda" and (dtype != torch.float32 or has_fast_floats(device))


class ChannelsLastNetwork:
    """An `InferenceNetwork` for where `runs_channels_last`."""

    def __init__(
        self, state: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device
    ) -> None:
        """Take `PwcNet`'s state dict; `dtype` is what is computed in, flow itself in float32."""
        network = uninitialized(AlignedPwcNet)
        network.load_state_dict(align_state(state))
        network.requires_grad_(False)
        self.dtype, self._device = dtype, device
        self._fused = False
        self._pyramid = {
            int(name): self._convolutions(_scaled(int(name), layers))
            for name, layers in network.pyramid.levels.items()
        }
        self._first: _FloatLayer | None = None
        """In half precision; it is not in `_pyramid` then."""
        if dtype != torch.float32:
            self._first = self._float_layer(
                next(network.pyramid.levels["1"].children()), IMAGE_CHANNELS
            )
            _, second, *others = self._pyramid[1]
            self._pyramid[1] = [_of_two_parts(second), *others]
        decoders = [network.decoders[str(level)] for level in DECODER_LEVELS]
        self._decoders = [
            self._decoder(module, finer)
            for module, finer in zip(decoders, [*decoders[1:], None], strict=True)
        ]
        self._context = self._convolutions(network.context)

    def fused(self) -> "ChannelsLastNetwork":
        """Return this network, its convolutions adding bias and LeakyReLU themselves on a GPU.

        Those of float32 always do. Of half precision it takes a fifth less time, but cuDNN
        compiles such convolutions when they are first used, up to three ways for each of some
        fifty. For each size and batch that takes half a minute one after the other, and 6 s by 16
        processors in a block of `pwcflow.cudnn.planning` (tests/benchmarks/network.json).
        """
        network = copy.copy(self)
        network._fused = True
        return network

    def encode(self, images: Tensor, into: Pyramid | None = None) -> Pyramid:
        """Return the features of images; see `InferenceNetwork.encode`."""
        pyramid: Pyramid = {}
        x = images if self._first is None else self._first_convolution(images, self._first)
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
        decoded: Tensor | None = None
        for decoder in self._decoders:
            x = self._dense(decoder, first[decoder.level], second[decoder.level], decoded)
            decoded = self._result(x, decoder.head, LINEAR)
        assert decoded is not None
        for layer in self._context[:-1]:
            x = self._result(x, layer, LEAKY_SLOPE)
        return decoded[:, :2].float() + self._result(x, self._context[-1], LINEAR)[:, :2]

    def _dense(
        self, decoder: _Decoder, first: Tensor, second: Tensor, coarser: Tensor | None
    ) -> Tensor:
        """Return a decoder's dense block; `coarser` is the result of the head before it."""
        n, c, h, w = first.shape
        in_place = self._fused or self.dtype == torch.float32
        place = sum(DENSE_CHANNELS) if in_place else 0
        if decoder.upsampling is None:
            x = self._empty(n, place + ALIGNED_CHANNELS, h, w)
            warped = second
            volume = x[:, place:]
        else:
            assert coarser is not None
            x = self._empty(n, place + ALIGNED_CHANNELS + c + PACKED_CHANNELS, h, w)
            flow = torch.empty((n, 2, h, w), device=x.device)
            weight, bias = decoder.upsampling.weight, decoder.upsampling.bias
            upsample_flow(coarser, weight, bias, flow, x[:, -PACKED_CHANNELS:])
            warped = warp_features(second, flow, FLOW_SCALE / 2**decoder.level)
            volume = x[:, place:-PACKED_CHANNELS]
        leaky_cost_volume(first, warped, LEAKY_SLOPE, volume)
        if not in_place:
            for layer in decoder.dense:
                x = convolve_and_append(x, layer.weight, layer.bias, LEAKY_SLOPE)
            return x
        for layer in decoder.dense:
            start = place - layer.width
            self._convolve(x[:, place:], layer, x[:, start:place], LEAKY_SLOPE)
            place = start
        return x

    def _first_convolution(self, images: Tensor, layer: _FloatLayer) -> Tensor:
        """Return the first convolution's result in two parts."""
        n, _, h, w = images.shape
        out = self._empty(n, 2 * len(layer.bias), h // 2, w // 2)
        split_convolution(images, layer.weight, layer.bias, LEAKY_SLOPE, out)
        return out

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

    def _decoder(self, module: nn.Module, finer: nn.Module | None) -> _Decoder:
        """Return a decoder; `finer` is the next one, which has the feature's upsampling."""
        assert isinstance(module, FlowDecoder)
        coarsest = module.level == DECODER_LEVELS[0]
        feature = finer.upsample_feature if isinstance(finer, FlowDecoder) else None
        return _Decoder(
            module.level,
            [self._convolutions(layer)[0] for layer in module.dense],
            self._filled_up(*decoder_head(module.flow_head, feature), Geometry()),
            None if coarsest else self._float_layer(module.upsample_flow),
        )

    def _float_layer(self, layer: nn.Module, inputs: int | None = None) -> _FloatLayer:
        """Return a layer, of its input channels the first ones only if there is a number."""
        assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
        assert layer.bias is not None
        weight, bias = layer.weight[:, :inputs], layer.bias
        return _FloatLayer(
            *(tensor.to(self._device, torch.float32).contiguous() for tensor in (weight, bias))
        )

    def _convolutions(self, layers: nn.Module) -> list[_Convolution]:
        convolutions = [layer for layer in layers.children() if isinstance(layer, nn.Conv2d)]
        return [self._convolution(layer) for layer in convolutions]

    def _convolution(self, layer: nn.Module) -> _Convolution:
        assert isinstance(layer, nn.Conv2d)
        assert layer.bias is not None
        geometry = Geometry(_square(layer.stride), _square(layer.padding), _square(layer.dilation))
        return self._filled_up(layer.weight, layer.bias, geometry)

    def _filled_up(self, weight: Tensor, bias: Tensor, geometry: Geometry) -> _Convolution:
        """Return a convolution whose channels are whole multiples of ALIGNMENT."""
        weight = F.pad(weight, (0, 0, 0, 0, 0, -weight.shape[1] % ALIGNMENT))
        weight, bias = (tensor.to(self._device, self.dtype) for tensor in fill_up(weight, bias))
        return _Convolution(weight, bias, geometry)


def _scaled(level: int, layers: nn.Module) -> nn.Module:
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


def _of_two_parts(layer: _Convolution) -> _Convolution:
    """Return a convolution that sees two parts of each of its channels, and so their sum."""
    weight = layer.weight.repeat(1, 2, 1, 1).contiguous(memory_format=torch.channels_last)
    return replace(layer, weight=weight)


def _square(sizes: Sequence[int] | str) -> int:
    """Return the one number that both axes have."""
    first, second = (int(size) for size in sizes)
    assert first == second
    return first
