"""PWC-Net as it is, for where that is fastest."""

from torch import Tensor

from pwcflow.network import DECODER_LEVELS, PYRAMID_CHANNELS, PwcNet, Pyramid
from pwcflow.ops import joined_parts


class ExactNetwork:
    """`PwcNet` as an `InferenceNetwork`: for where `ChannelsLastNetwork` is not the fastest.

    Without TF32, which rounds, cuDNN is several times as fast on contiguous float32 tensors as on
    channels-last ones. In half precision level 1, a hundredth of the work, is computed in float32:
    what there is to follow in a bright image of little contrast would be lost in rounding it.
    """

    def __init__(self, network: PwcNet) -> None:
        """Take the network, on its device and in its precision; level 1 becomes float32."""
        self.plain = network
        self._weight = next(network.pyramid.levels["2"].parameters())
        self.dtype = self._weight.dtype
        self._level_1 = network.pyramid.levels["1"].float()

    def fused(self) -> "ExactNetwork":
        """Return this network, which has no faster way; see `InferenceNetwork.fused`."""
        return self

    def encode(self, images: Tensor, into: Pyramid | None = None) -> Pyramid:
        """Return the features of images; see `InferenceNetwork.encode`.

        With `into`, only those of the levels in it.
        """
        feature = self._level_1(joined_parts(images).contiguous())
        pyramid = self.plain.pyramid.coarser(feature.to(self.dtype))
        if into is None:
            return pyramid
        for level, feature in into.items():
            feature.copy_(pyramid[level])
        return into

    def empty_pyramid(self, count: int, height: int, width: int) -> Pyramid:
        """Return the levels that are decoded of `count` images of H x W pixels, to be written."""
        return {
            level: self._weight.new_empty(
                (count, PYRAMID_CHANNELS[level], height >> level, width >> level)
            )
            for level in DECODER_LEVELS
        }

    def decode(self, first: Pyramid, second: Pyramid) -> Tensor:
        """Return the flow from the first images to the second; see `InferenceNetwork.decode`."""
        return self.plain.decode(first, second)[-1]
