"""What the networks for inference have in common."""

from typing import Protocol

import torch
from torch import Tensor

from pwcflow.network import Pyramid


class InferenceNetwork(Protocol):
    """PWC-Net's weights on one device, and what computes flow with them.

    Attributes:
        dtype: what is computed in, and the type of features and images; flow is float32.
    """

    dtype: torch.dtype

    def fused(self) -> "InferenceNetwork":
        """Return what computes the same faster on a GPU, after a longer preparation."""

    def encode(self, images: Tensor, into: Pyramid | None = None) -> Pyramid:
        """Return the features of images.

        Args:
            images: (N, 8, H, W), channels-last, as from `prepare_images`; H, W multiples of 64.
            into: from `empty_pyramid` for as many images of this size, or some of its images, to be
                written and returned.
        """

    def empty_pyramid(self, count: int, height: int, width: int) -> Pyramid:
        """Return a pyramid of `count` images of H x W pixels, to be written by `encode`."""

    def decode(self, first: Pyramid, second: Pyramid) -> Tensor:
        """Return the flow from the first images to the second.

        Args:
            first: features of the first images, from `encode`.
            second: features of the second images, same shapes.

        Returns:
            (N, 2, H / 4, W / 4), in units of FLOW_SCALE full-resolution pixels; channel 0 is u
            (right), 1 is v (down).
        """
