"""PWC-Net as it is, for where that is fastest."""

import torch.nn.functional as F
from torch import Tensor, nn

from pwcflow import cudnn
from pwcflow.aligned import IMAGE_CHANNELS
from pwcflow.cudnn import CudnnError, Geometry
from pwcflow.network import DECODER_LEVELS, PYRAMID_CHANNELS, PwcNet, Pyramid


class ExactNetwork:
    """`PwcNet` as an `InferenceNetwork`: for CPUs, and for float32 on a GPU.

    Without TF32, which rounds, cuDNN is several times as fast on contiguous float32 tensors as on
    channels-last ones.
    """

    def __init__(self, network: PwcNet) -> None:
        """Take the network, on its device and in its precision; it is changed."""
        if next(network.parameters()).is_cuda:
            _choose_convolutions(network)
        self.plain = network
        self._weight = next(network.parameters())
        self.dtype = self._weight.dtype

    def fused(self) -> "ExactNetwork":
        """Return this network, which has no faster way; see `InferenceNetwork.fused`."""
        return self

    def encode(self, images: Tensor, into: Pyramid | None = None) -> Pyramid:
        """Return the features of images; see `InferenceNetwork.encode`.

        With `into`, only those of the levels in it.
        """
        pyramid = self.plain.encode(images[:, :IMAGE_CHANNELS].contiguous())
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


class _Convolution(nn.Module):
    """A convolution by the fastest of cuDNN's ways, for tensors on a GPU.

    PyTorch takes what cuDNN's heuristics put first, or times ways in gigabytes of memory. For two
    of the network's convolutions the former is FFT, which takes as long as all the others.
    """

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        assert layer.bias is not None
        (stride, _), (dilation, _) = layer.stride, layer.dilation
        assert isinstance(layer.padding, tuple)
        self.weight, self.bias = layer.weight, layer.bias
        self._geometry = Geometry(stride, layer.padding[0], dilation)

    def forward(self, x: Tensor) -> Tensor:
        stride, padding, dilation = (
            self._geometry.stride,
            self._geometry.padding,
            self._geometry.dilation,
        )
        n, _, h, w = x.shape
        # Every convolution of the network keeps the size, or halves it.
        out = x.new_empty((n, len(self.weight), -(-h // stride), -(-w // stride)))
        try:
            cudnn.convolve(x, self.weight, None, out, self._geometry)
        except CudnnError:
            return F.conv2d(x, self.weight, self.bias, stride, padding, dilation)
        return out.add_(self.bias.view(-1, 1, 1))


def _choose_convolutions(network: nn.Module) -> None:
    """Put `_Convolution` in the place of every convolution."""
    for name, child in network.named_children():
        if isinstance(child, nn.Conv2d):
            setattr(network, name, _Convolution(child))
        else:
            _choose_convolutions(child)
