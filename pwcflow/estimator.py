"""The public Python API: images in, flow out.

numpy arrays exist outside of this module, tensors inside.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pwcflow.color import ColorCode
from pwcflow.color.code import MIDDLEBURY
from pwcflow.color.painting import Paint, flow_to_color
from pwcflow.cudnn import exact_convolutions
from pwcflow.device import find_device, find_precision, tell_if_slow
from pwcflow.errors import WeightsError
from pwcflow.gpu_color import GpuPainter
from pwcflow.inference import (
    ChannelsLastNetwork,
    ExactNetwork,
    InferenceNetwork,
    runs_channels_last,
)
from pwcflow.inference.gpu_flow import GpuFlow, at_work, fetched
from pwcflow.network import PwcNet, Pyramid, network_size, uninitialized
from pwcflow.ops import finish_flow, prepare_images
from pwcflow.weights import load_weights

UNRECORDED = 32
"""Pairs of a size that a GPU computes kernel by kernel; then it is worth recording them."""
FUSED_FROM = 25_000_000_000
"""Pixels of all frames of a video, as the network sees them, from which on the fastest way pays. On
an H200 with 16 processors it takes 5 to 6.5 s longer to prepare and saves 0.21 to 0.25 ns for each
(tests/benchmarks/speed.json)."""
NETWORK_SCALES = (0.5, 4.0)
"""The smallest, at which no pixel of an image goes unseen, and the largest."""
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

    What a call returns does not depend on those before it. On a GPU, memory for the sizes used last
    is kept.
    """

    def __init__(
        self,
        weights: str | Path = "default",
        device: str = "auto",
        precision: str = "fp32",
        *,
        network_scale: float = 1.0,
        quiet: bool = False,
    ) -> None:
        """Load the network.

        Args:
            weights: a name in `pwcflow.weights.CHECKPOINTS` (public ones are downloaded once) or a
                checkpoint file.
            device: `auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:INDEX`.
            precision: `fp32` (TF32 is not used), `fp16` or `bf16`; flow itself is always float32.
                `auto` is the fastest that the device computes in hardware.
            network_scale: factor by which images are resized for the network; 1.5 finds finer flow
                in about 2.25 times the time and memory. Flow is at the size and in the pixels of
                the images given, whatever it is.
            quiet: show no progress bar while downloading.

        Raises:
            WeightsError: the checkpoint is missing, damaged or of another network.
            DeviceError: the device is not here.
            ValueError: the precision is unknown, or the scale is not in `NETWORK_SCALES`.
        """
        if precision not in (*PRECISIONS, "auto"):
            names = ", ".join((*PRECISIONS, "auto"))
            raise ValueError(f"precision must be one of {names}: {precision!r}")
        smallest, largest = NETWORK_SCALES
        if not smallest <= network_scale <= largest:
            raise ValueError(
                f"network_scale must be from {smallest:g} to {largest:g}: {network_scale}"
            )
        self.network_scale = float(network_scale)
        self.device = find_device(device)
        self.precision = find_precision(precision, self.device)
        loaded = load_weights(weights, quiet=quiet)
        self.weights = loaded.provenance
        tell_if_slow(self.precision, self.device)
        self._network = _network(loaded.state, PRECISIONS[self.precision], self.device)
        on_gpu = self.device.type == "cuda"
        self._gpu = GpuFlow(self._network, self.device, self.network_scale) if on_gpu else None
        self._paint: Paint = GpuPainter(self.device) if on_gpu else flow_to_color
        self._calls: Counter[tuple[int, ...]] = Counter()

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
        images = _checked(first), _checked(second)
        kinds = [(image.shape, image.dtype) for image in images]
        self._calls[images[0].shape] += 1
        rare = self._calls[images[0].shape] <= UNRECORDED
        if self._gpu is None or rare or kinds[0] != kinds[1] or first.ndim != second.ndim:
            return self.decode(self.encode(first), self.encode(second))
        flow, finite = self._gpu.between(*images)
        self._check_finite(finite)
        return flow if first.ndim == 4 else flow[0]

    def flows(
        self, frames: Iterable[npt.NDArray[Any]], expected: int | None = None
    ) -> Generator[npt.NDArray[np.float32], None, None]:
        """Yield the flow between each two consecutive frames; each frame is encoded once.

        On a GPU, from the UNRECORDED-th frame on, several are worked on at a time: up to 32 are
        taken from `frames` ahead of the flows that are given.

        Args:
            frames: images as calling the estimator takes them, no batches, of one size and dtype;
                each an array of its own, as several are held at a time.
            expected: about how many they are, if that is known: for thousands of large frames a
                GPU is prepared for seconds more, and faster then.

        Yields:
            (H, W, 2) float32, in pixels, as calling the estimator returns it.

        Raises:
            ValueError, TypeError, WeightsError: as calling the estimator does. These, and what
                `frames` itself raises, come after the flows of what went before.
        """
        rest = _alike(frames)
        if self._gpu is None:
            yield from self._one_by_one(rest)
            return
        last = yield from self._one_by_one(islice(rest, UNRECORDED))
        if last is None or (following := next(rest, None)) is None:
            return
        height, width, _ = last.shape
        seen = height * width * self.network_scale**2
        many = expected is not None and expected * seen >= FUSED_FROM
        with closing(self._gpu.along(chain((last, following), rest), many=many)) as found:
            for flow, finite in found:
                self._check_finite(finite)
                yield flow

    def _one_by_one(
        self, frames: Iterable[npt.NDArray[Any]]
    ) -> Generator[npt.NDArray[np.float32], None, npt.NDArray[Any] | None]:
        """Yield the flows between frames, and return the last one, if there is one."""
        last: npt.NDArray[Any] | None = None
        before: EncodedImage | None = None
        for last in frames:
            encoded = self.encode(last)
            if before is not None:
                yield self.decode(before, encoded)
            before = encoded
        return last

    def encode(self, image: npt.NDArray[Any]) -> EncodedImage:
        """Return the features of an image, so that a video's frame is encoded once for two pairs.

        Takes what calling the estimator takes.
        """
        pixels = _checked(image)
        height, width = pixels.shape[1:3]
        size = network_size(height, width, self.network_scale)
        with self._at_work():
            tensor = torch.from_numpy(pixels).to(self.device)
            images = prepare_images(tensor, *size, self._network.dtype)
            pyramid = self._network.encode(images)
        return EncodedImage(pyramid, height, width, batched=image.ndim == 4)

    def decode(self, first: EncodedImage, second: EncodedImage) -> npt.NDArray[np.float32]:
        """Return the flow between two encoded images; see `__call__`."""
        if _shape(first) != _shape(second):
            raise ValueError(
                "first and second must be images of one size, or batches of one shape, but they "
                f"are {_shape(first)} and {_shape(second)}"
            )
        with self._at_work():
            flow = self._network.decode(first.pyramid, second.pyramid)
            finished, finite = finish_flow(flow, first.height, first.width)
            result = fetched(finished)
            all_finite = bool(finite.all())
        self._check_finite(all_finite)
        return result if first.batched else result[0]

    def flow_to_color(
        self,
        flow: npt.NDArray[np.float32],
        max_magnitude_px: float | None = None,
        code: ColorCode = MIDDLEBURY,
    ) -> npt.NDArray[np.uint8]:
        """Return what `pwcflow.flow_to_color` does, painted on the estimator's device.

        From a GPU a level differs by 1 at most.
        """
        return self._paint(flow, max_magnitude_px, code)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        if self._gpu:
            with at_work(self.device):
                yield
        else:
            with torch.inference_mode(), exact_convolutions():
                yield

    def _check_finite(self, finite: bool) -> None:
        if not finite:
            remedy = "other weights" if self.precision == "fp32" else "--precision fp32"
            raise WeightsError(
                f"the weights {self.weights.name} give no finite flow in {self.precision} here; "
                f"use {remedy}"
            )


def _network(
    state: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device
) -> InferenceNetwork:
    """Return what computes flow fastest in a precision on a device."""
    if runs_channels_last(dtype, device):
        return ChannelsLastNetwork(state, dtype, device)
    network = uninitialized(PwcNet)
    network.load_state_dict(state)
    network.requires_grad_(False).eval().set_precision(dtype)
    return ExactNetwork(network.to(device))


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
    if any(stride < 0 for stride in pixels.strides):
        return pixels.copy()  # an axis of one that runs backwards is contiguous to NumPy alone
    return np.require(pixels, requirements=("C", "W"))  # PyTorch warns of read-only memory


def _alike(frames: Iterable[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    """Yield images as contiguous (H, W, C), or say which is wrong."""
    expected: npt.NDArray[Any] | None = None
    for frame in frames:
        pixels: npt.NDArray[Any] = _checked(frame)[0]
        if frame.ndim == 4:
            raise ValueError(f"a frame must be one image, but its shape is {frame.shape}")
        expected = pixels if expected is None else expected
        if pixels.shape != expected.shape or pixels.dtype != expected.dtype:
            raise ValueError(
                "frames must be of one shape and dtype, but "
                f"{expected.shape} {expected.dtype} is followed by {pixels.shape} {pixels.dtype}"
            )
        yield pixels


def _shape(image: EncodedImage) -> tuple[int, ...]:
    """Return (H, W), or (N, H, W) of a batch."""
    batch = next(iter(image.pyramid.values())).shape[:1] if image.batched else ()
    return (*batch, image.height, image.width)
