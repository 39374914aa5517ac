"""PWC-Net with its channels padded to what tensor cores like: the same flow, sooner.

cuDNN's half-precision convolutions want input channels in multiples of 8: at 120 of them they
are twice as fast as at 117. `AlignedPwcNet` is `PwcNet` with channels of zeros put in:

    image                  blue, green, red, then 5 of zeros
    dense block, level 6   cost volume 81, 7 of zeros
    dense block, others    cost volume 81, 7 of zeros, first feature, flow 2, feature 2, 4 of zeros

Parameters have the names they have in `PwcNet`. Those that see such channels have weights for
them, the gaps, which change no flow and whose gradients are zero; `align_state` puts the gaps into
`PwcNet`'s weights and `unalign_state` takes them out.

Its convolutions leave their bias to the operator that computes their LeakyReLU, or to what
computes dense blocks. Those that give flow have their 2 results filled up with zeros too, and with
what gives the next level's feature; see `decoder_head`.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pwcflow.decoder_head import decoder_head
from pwcflow.decoder_input import decoder_input
from pwcflow.dense_block import dense_block
from pwcflow.network import (
    DECODER_LEVELS,
    DENSE_CHANNELS,
    LEAKY_SLOPE,
    PYRAMID_CHANNELS,
    FlowDecoder,
    PwcNet,
    Pyramid,
    check_size,
)
from pwcflow.ops import (
    ALIGNED_CHANNELS,
    COST_VOLUME_CHANNELS,
    FEATURE_PLACE,
    FLOW_SCALE,
    IMAGE_CHANNELS,
    PACKED_CHANNELS,
    bias_leaky_relu,
)
from pwcflow.warp import backward_warp

ALIGNMENT = 8
IMAGE_GAP = -IMAGE_CHANNELS % ALIGNMENT
COST_GAP = ALIGNED_CHANNELS - COST_VOLUME_CHANNELS
FLOW_GAP = PACKED_CHANNELS - FEATURE_PLACE.stop
"""Behind the flow and the feature that come from the coarser level."""


class FusedConvolutions(nn.Sequential):
    """Convolutions, each with a LeakyReLU behind it but for the last, which may give flow."""

    def forward(self, x: Tensor) -> Tensor:
        """Return what `nn.Sequential` does, each bias added and activated in one pass."""
        layers = list(self)
        for convolution in layers[:-1:2]:
            x = _activated(convolution, x)
        return _apply_head(x, layers[-1], None)[:, :2] if len(layers) % 2 else x


class AlignedFlowDecoder(FlowDecoder):
    """`FlowDecoder` with zeros behind its cost volume and behind its flow and feature."""

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        coarser: tuple[Tensor, Tensor] | None,
        finer: FlowDecoder | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return this level's flow, and the `finer` decoder's feature, upsampled.

        Args:
            first: as for `FlowDecoder`.
            second: likewise.
            coarser: what the decoder of the level above returned; None at the coarsest level.
            finer: the next decoder; None at the finest level.

        Returns:
            flow (N, 2, H, W), float32 at the least, and the feature (N, 2, 2H, 2W); without a
            `finer` decoder, in its place the features (N, C', H, W) that the flow was read from.
        """
        upsampled: tuple[Tensor, Tensor] | None = None
        if coarser is not None:
            coarse_flow, feature = coarser
            flow = self.upsample_flow(coarse_flow)
            second = backward_warp(second, flow * (FLOW_SCALE / 2**self.level))
            # The cost volume loads channels that lie together; sampling may lay them apart.
            second = second.contiguous(memory_format=torch.channels_last)
            upsampled = flow.to(first.dtype), feature
        x = self._block(first, second, upsampled)
        found = _apply_head(x, self.flow_head, finer.upsample_feature if finer else None)
        feature = F.pixel_shuffle(found[:, 2:10], 2) if finer else x
        return _at_least_float32(found[:, :2]), feature

    def _block(
        self, first: Tensor, second: Tensor, upsampled: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """Return what the flow is read from; `second` is warped to `first`."""
        layers: list[tuple[Tensor, Tensor]] = []
        for layer in self.dense:
            convolution = next(layer.children())
            assert isinstance(convolution, nn.Conv2d)
            assert convolution.bias is not None
            layers.append((convolution.weight, convolution.bias))
        return dense_block(
            decoder_input(first, second, upsampled, LEAKY_SLOPE), layers, LEAKY_SLOPE
        )


class AlignedPwcNet(nn.Module):
    """`PwcNet` with aligned channels; its features and its weights are channels-last."""

    def __init__(self) -> None:
        """Build the network with PyTorch's default initialisation and zeros in the gaps."""
        super().__init__()
        plain = PwcNet()
        self.pyramid = plain.pyramid
        for name, layers in self.pyramid.levels.items():
            self.pyramid.levels[name] = FusedConvolutions(*layers.children())
        self.decoders = nn.ModuleDict(
            {str(level): AlignedFlowDecoder(level) for level in DECODER_LEVELS}
        )
        self.context = FusedConvolutions(*plain.context)
        for key, ordinary in _ORDINARY_INPUTS.items():
            layer = self.get_submodule(key.removesuffix(".weight"))
            assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
            layer.in_channels = len(ordinary)
            layer.weight = nn.Parameter(_with_gaps(key, layer.weight.detach()))
        for parameter in self.parameters():
            if parameter.ndim == 4:  # else cuDNN would rearrange the weight in every pass
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)

    def set_precision(self, dtype: torch.dtype) -> "AlignedPwcNet":
        """Convert the weights to `dtype` in place, but what upsamples flow to float32 at the least.

        Unlike `PwcNet`'s, the flow heads compute in `dtype`, as converting all that they see takes
        too long. So each level's flow is rounded to `dtype` once: at 50 px to steps of 0.04 px in
        float16, of 0.31 px in bfloat16.
        """
        self.to(dtype)
        for decoder in self.decoders.values():
            for name, module in decoder.named_children():
                if name == "upsample_flow":
                    module.to(torch.promote_types(dtype, torch.float32))
        return self

    def encode(self, images: Tensor) -> Pyramid:
        """Return the features of BGR images in 0..1, with or without the channels of zeros.

        Args:
            images: (N, 3, H, W), or (N, 8, H, W) with zeros in the last five channels, in the
                dtype of the weights; H, W multiples of 64.

        Raises:
            ValueError: the images have another number of channels or another size.
        """
        _, channels, h, w = images.shape
        if channels not in (IMAGE_CHANNELS, IMAGE_CHANNELS + IMAGE_GAP):
            raise ValueError(
                f"images must have {IMAGE_CHANNELS} channels, or {IMAGE_CHANNELS + IMAGE_GAP} with "
                f"zeros, but they have {channels}"
            )
        check_size(h, w)
        if channels == IMAGE_CHANNELS:
            images = F.pad(images, (0, 0, 0, 0, 0, IMAGE_GAP))
        pyramid: Pyramid = self.pyramid(images.contiguous(memory_format=torch.channels_last))
        return pyramid

    def decode(self, first: Pyramid, second: Pyramid) -> list[Tensor]:
        """Return the flow from the first image to the second at levels 6, 5, 4, 3, 2.

        Args:
            first: features of the first images, from `encode`.
            second: features of the second images, same shapes.

        Returns:
            five tensors (N, 2, H / 2**level, W / 2**level), coarse to fine, float32 at the least,
            in units of FLOW_SCALE full-resolution pixels; channel 0 is u (right), 1 is v (down).
        """
        flows: list[Tensor] = []
        found: tuple[Tensor, Tensor] | None = None
        decoders = list(self.decoders.values())
        for level, decoder, finer in zip(
            DECODER_LEVELS, decoders, [*decoders[1:], None], strict=True
        ):
            found = decoder(first[level], second[level], found, finer)
            flows.append(found[0])
        assert found is not None
        flows[-1] = flows[-1] + _at_least_float32(self.context(found[1]))
        return flows

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return `decode` of a batch of pairs, encoded together.

        Args:
            images: what `encode` takes, (2N, ...): the N first images, then the N second ones.

        Raises:
            ValueError: the number of images is odd, or `encode` refuses them.
        """
        if len(images) % 2:
            raise ValueError(f"the first and the second images must be as many: {len(images)}")
        n = len(images) // 2
        pyramid = self.encode(images)
        return self.decode(
            {level: feature[:n] for level, feature in pyramid.items()},
            {level: feature[n:] for level, feature in pyramid.items()},
        )


def align_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return `PwcNet`'s state dict as `AlignedPwcNet`'s, with zeros in the gaps.

    Gradients, averages and the like go through here too: whatever has a parameter's name and shape.
    Tensors without gaps are those of `state`, not copies.
    """
    return {
        key: _with_gaps(key, value) if key in _ORDINARY_INPUTS else value
        for key, value in state.items()
    }


def unalign_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return `AlignedPwcNet`'s state dict as `PwcNet`'s, whatever the gaps hold.

    The inverse of `align_state`. The tensors are contiguous; one that needs no change to be what
    `PwcNet` wants is that of `state`, not a copy.
    """
    return {
        key: (_without_gaps(key, value) if key in _ORDINARY_INPUTS else value).contiguous()
        for key, value in state.items()
    }


def fill_up(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return a convolution with zeros up to a whole multiple of ALIGNMENT results.

    Args:
        weight: (K, C, R, S).
        bias: (K,).

    Returns:
        both, the weight channels-last; they have gradients.
    """
    gap = -len(bias) % ALIGNMENT
    weight = F.pad(weight, (0, 0, 0, 0, 0, 0, 0, gap))
    return weight.contiguous(memory_format=torch.channels_last), F.pad(bias, (0, gap))


def _activated(convolution: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(convolution, nn.Conv2d)
    assert convolution.bias is not None
    y = F.conv2d(
        x,
        convolution.weight,
        None,
        convolution.stride,
        convolution.padding,
        convolution.dilation,
    )
    return bias_leaky_relu(y, convolution.bias, LEAKY_SLOPE)


def _apply_head(x: Tensor, flow: nn.Module, feature: nn.ConvTranspose2d | None) -> Tensor:
    """Return what the convolution of `decoder_head` finds in `x`: flow, feature, zeros."""
    assert isinstance(flow, nn.Conv2d)
    return F.conv2d(x, *fill_up(*decoder_head(flow, feature)), padding=1)


def _at_least_float32(flow: Tensor) -> Tensor:
    return flow.to(torch.promote_types(flow.dtype, torch.float32))


def _ordinary_inputs() -> dict[str, list[bool]]:
    """Return which input channels are not zeros, by the name of the weight that has gaps."""
    inputs = {"pyramid.levels.1.0.weight": [True] * IMAGE_CHANNELS + [False] * IMAGE_GAP}
    for level in DECODER_LEVELS:
        x = [True] * COST_VOLUME_CHANNELS + [False] * COST_GAP
        if level < DECODER_LEVELS[0]:
            x += [True] * (PYRAMID_CHANNELS[level] + 2 + 2) + [False] * FLOW_GAP
        for index, width in enumerate(DENSE_CHANNELS):
            inputs[f"decoders.{level}.dense.{index}.0.weight"] = x
            x = [True] * width + x
        inputs[f"decoders.{level}.flow_head.weight"] = x
        if level > DECODER_LEVELS[-1]:
            inputs[f"decoders.{level - 1}.upsample_feature.weight"] = x
        else:
            inputs["context.0.weight"] = x
    return inputs


_ORDINARY_INPUTS = _ordinary_inputs()


def _with_gaps(key: str, weight: Tensor) -> Tensor:
    ordinary = torch.tensor(_ORDINARY_INPUTS[key], device=weight.device)
    shape = list(weight.shape)
    shape[_input_axis(key)] = len(ordinary)
    aligned = weight.new_zeros(shape)
    aligned.movedim(_input_axis(key), 0)[ordinary] = weight.movedim(_input_axis(key), 0)
    return aligned


def _without_gaps(key: str, aligned: Tensor) -> Tensor:
    ordinary = torch.tensor(_ORDINARY_INPUTS[key], device=aligned.device)
    return aligned.movedim(_input_axis(key), 0)[ordinary].movedim(0, _input_axis(key))


def _input_axis(key: str) -> int:
    """Return the axis of a weight's input channels: transposed convolutions have them first."""
    return 0 if ".upsample_" in key else 1
