"""What reads a dense block: one convolution for its flow and for the next level's feature.

Both see the whole block. The feature's transposed convolution is written as a sub-pixel
convolution, with a result for each of the four finer pixels that a pixel becomes, and the two are
one, in place of two that are slow for having 2 results each.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def decoder_head(flow: nn.Conv2d, feature: nn.ConvTranspose2d | None) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the convolution, of padding 1; they have gradients.

    Args:
        flow: C to 2 channels, 3 x 3.
        feature: C to 2 channels, 4 x 4, with stride 2 and padding 1; None at the finest level.

    Returns:
        weight (K, C, 3, 3) and bias (K,): K is 2 for the flow, then 8 for the feature, as
        `F.pixel_shuffle` takes them.
    """
    assert flow.bias is not None
    if feature is None:
        return flow.weight, flow.bias
    assert feature.bias is not None
    weight = torch.cat((flow.weight, subpixel_weight(feature.weight)))
    return weight, torch.cat((flow.bias, feature.bias.repeat_interleave(4)))


def subpixel_weight(weight: Tensor) -> Tensor:
    """Return the weight of a convolution that before `F.pixel_shuffle` is a transposed one.

    Source: Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016
    (arXiv 1609.07009), on their sub-pixel convolutions of CVPR 2016.

    Args:
        weight: (C, K, 4, 4) of a transposed convolution with stride 2 and padding 1.

    Returns:
        (4 K, C, 3, 3), for padding 1: in 4 k + 2 i + j what leads to channel k of pixel
        (2 y + i, 2 x + j).
    """
    # Tap y of the window sees pixel y - 1, which the transposed convolution puts to 2 (y - 1) - 1
    # + its own tap: pixel i is reached by taps 3 and 1 for y = 0 and 1, or 2 and 0 for y = 1 and 2.
    taps = weight.transpose(0, 1).flip(2, 3)
    windows = [
        F.pad(taps[:, :, i::2, j::2], (j, 1 - j, i, 1 - i)) for i in range(2) for j in range(2)
    ]
    return torch.stack(windows, dim=1).flatten(0, 1)
