"""The public Python API: images in, flow out.

numpy arrays exist outside of this module, tensors inside; images are RGB outside, and turned to
the BGR that the network was trained on here, once.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.cudnn import exact_convolutions
from pwcflow.device import find_device
from pwcflow.errors import WeightsError
from pwcflow.network import FLOW_SCALE, PYRAMID_STRIDE, PwcNet, Pyramid
from pwcflow.weights import load_weights

PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class EncodedImage:
    """What `FlowEstimator.encode` found in one image, or in each of a batch."""

    pyramid: Pyramid
    """Features by level, on the estimator's device."""
    height: int
    width: int
    """The image's own size in pixels, which is that of its flow."""
    batched: bool
    """Whether the image came as a batch, (N, H, W, C), and so shall its flow."""


class FlowEstimator:
    """Estimates dense optical flow between images with a pretrained PWC-Net.

    Holds no state but its weights: calls do not influence each other, whatever their sizes.
    """

    def __init__(
        self,
        weights: str | Path = "default",
        device: str = "auto",
        precision: str = "fp32",
        *,
        quiet: bool = False,
    ) -> None:
        """Load the network.

        Args:
            weights: a name in `pwcflow.weights.CHECKPOINTS` (public ones are downloaded once) or a
                checkpoint file.
            device: `auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:INDEX`.
            precision: `fp32` (TF32 is not used), `fp16` or `bf16`; flow itself is always float32.
            quiet: show no progress bar while downloading.

        Raises:
            WeightsError: the checkpoint is missing, damaged or of another network.
            DeviceError: the device is not here.
            ValueError: the precision is unknown.
        """
        if precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}: {precision!r}")
        self.device = find_device(device)
        self.precision = precision
        loaded = load_weights(weights, quiet=quiet)
        self.weights = loaded.provenance
        network = PwcNet()
        network.load_state_dict(loaded.state)
        network.requires_grad_(False).eval().set_precision(PRECISIONS[precision])
        self._network = network.to(self.device)

    def __call__(
        self, first: npt.NDArray[Any], second: npt.NDArray[Any]
    ) -> npt.NDArray[np.float32]:
        """Return the flow that carries `first` onto `second`.

        Args:
            first: an RGB image (H, W, 3), or gray (H, W) or (H, W, 1), or with an alpha channel,
                which is ignored, (H, W, 4); or a batch of them (N, H, W, C). uint8, uint16, or
                floating point in 0..1. Any size from 1 x 1 up.
            second: the image or images after it, of the same size.

        Returns:
            (H, W, 2), or (N, H, W, 2) for a batch, float32, in pixels: the point at (x, y) of the
            first image is at (x + flow[y, x, 0], y + flow[y, x, 1]) in the second; x points
            right, y down.

        Raises:
            ValueError, TypeError: the arrays are no images as above, or differ in size.
            WeightsError: the weights, or the precision, make numbers overflow on these images.
        """
        return self.decode(self.encode(first), self.encode(second))

    def encode(self, image: npt.NDArray[Any]) -> EncodedImage:
        """Return the features of an image, so that a video's frame is encoded once for two pairs.

        Takes what calling the estimator takes.
        """
        pixels = _checked(image)
        height, width = pixels.shape[1:3]
        with torch.inference_mode(), exact_convolutions():
            tensor = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2)
            tensor = tensor.to(torch.float32) / _full_scale(pixels.dtype)
            tensor = _as_bgr(tensor)
            size = (network_size(height), network_size(width))
            if size != (height, width):
                tensor = F.interpolate(tensor, size, mode="bilinear", align_corners=False)
            pyramid = self._network.encode(tensor.to(PRECISIONS[self.precision]))
        return EncodedImage(pyramid, height, width, batched=image.ndim == 4)

    def decode(self, first: EncodedImage, second: EncodedImage) -> npt.NDArray[np.float32]:
        """Return the flow between two encoded images; see `__call__`."""
        if _shape(first) != _shape(second):
            raise ValueError(
                "first and second must be images of one size, or batches of one shape, but they "
                f"are {_shape(first)} and {_shape(second)}"
            )
        with torch.inference_mode(), exact_convolutions():
            flow = self._network.decode(first.pyramid, second.pyramid)[-1]
            flow = _at_image_size(flow, first.height, first.width)
            result = flow.permute(0, 2, 3, 1).contiguous().cpu().numpy()
        if not np.isfinite(result).all():
            remedy = "other weights" if self.precision == "fp32" else "--precision fp32"
            raise WeightsError(
                f"the weights {self.weights.name} give no finite flow in {self.precision} here; "
                f"use {remedy}"
            )
        return result if first.batched else result[0]


def network_size(size: int) -> int:
    """Return the next multiple of 64, to which an axis of `size` pixels is resized."""
    return -(-size // PYRAMID_STRIDE) * PYRAMID_STRIDE


def _at_image_size(flow: Tensor, height: int, width: int) -> Tensor:
    """Return the network's finest flow at the image's size, in its pixels.

    The network saw the image stretched to multiples of 64, each axis by its own factor: its flow
    shrinks back by the same factors.
    """
    flow = F.interpolate(flow, (height, width), mode="bilinear", align_corners=False)
    scale = flow.new_tensor([width / network_size(width), height / network_size(height)])
    return flow * (FLOW_SCALE * scale.view(1, 2, 1, 1))


def _checked(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an image or batch as contiguous (N, H, W, C), or say what is wrong with it."""
    if not isinstance(image, np.ndarray):
        raise TypeError(f"an image must be a numpy array, but it is a {type(image).__name__}")
    shape = image.shape
    pixels = image[..., None] if image.ndim == 2 else image
    pixels = pixels if pixels.ndim == 4 else pixels[None]
    if pixels.ndim != 4 or pixels.shape[3] not in (1, 3, 4) or 0 in shape:
        raise ValueError(
            "an image must be (H, W), (H, W, C) or a batch (N, H, W, C), with C = 1, 3 or 4, "
            f"but its shape is {shape}"
        )
    pixels = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    if pixels.dtype.kind == "f":
        pixels = pixels.astype(np.float32, copy=False)
        low, high = pixels.min(), pixels.max()
        if not (low >= 0.0 and high <= 1.0):  # also false for NaN
            raise ValueError(f"a floating-point image must be in 0..1: it has {low} to {high}")
    elif pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"an image must be uint8, uint16 or floating point: {pixels.dtype}")
    return np.require(pixels, requirements=("C", "W"))  # PyTorch warns of read-only memory


def _full_scale(dtype: np.dtype[Any]) -> float:
    return 1.0 if dtype.kind == "f" else float(np.iinfo(dtype).max)


def _as_bgr(image: Tensor) -> Tensor:
    """Return gray, RGB or RGBA images (N, C, H, W) as three channels: blue, green, red."""
    if image.shape[1] == 1:
        return image.expand(-1, 3, -1, -1)
    return image[:, :3].flip(1)


def _shape(image: EncodedImage) -> tuple[int, ...]:
    """Return (H, W), or (N, H, W) of a batch."""
    batch = next(iter(image.pyramid.values())).shape[:1] if image.batched else ()
    return (*batch, image.height, image.width)
