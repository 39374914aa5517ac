"""The operators `pwcflow::cost_volume`, `..._backward` and `pwcflow::leaky_cost_volume`."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pwcflow.ops import cost_volume_cuda, reference
from pwcflow.ops.dtypes import check_dtype
from pwcflow.ops.layout import empty_like_layout
from pwcflow.ops.reference import ALIGNED_CHANNELS, COST_VOLUME_CHANNELS


def cost_volume(first: Tensor, second: Tensor) -> Tensor:
    """Return how well each pixel of `first` matches its 9 x 9 neighbours in `second`.

    Args:
        first: features of the first image, (N, C, H, W); float16, bfloat16, float32 or float64;
            any strides.
        second: features of the second image, warped to the first; same shape, dtype, device.

    Returns:
        (N, 81, H, W), contiguous, in the dtype of the inputs. Channel (dy + 4) * 9 + (dx + 4) is
        the mean over C of first[y, x] * second[y + dy, x + dx], with 0 outside the image. Sums
        are taken in float32 (float64 for float64).

    Raises:
        ValueError: the shapes, dtypes or devices differ, or are not what is described above.

    Source: Sun et al., PWC-Net, CVPR 2018, section 3, "Cost volume layer" (arXiv 1709.02371).
    """
    _check(first, second)
    volume: Tensor = _cost_volume(first, second)
    return volume


def leaky_cost_volume(first: Tensor, second: Tensor, slope: float, out: Tensor) -> None:
    """Write LeakyReLU of the cost volume into some channels of a larger tensor; has no gradient.

    Args:
        first: as `cost_volume` takes it.
        second: likewise.
        slope: what negative values are multiplied by.
        out: (N, 81, H, W), of the dtype and device of the others, any strides; or (N, 88, H, W),
            where the seven channels behind the 81 become zeros; or (N, 88 + C, H, W), where
            `first` follows behind those, as the input of PWC-Net's decoder.

    Raises:
        ValueError: the shapes, dtypes or devices are not what is described above.
    """
    _check(first, second)
    n, c, h, w = first.shape
    channels = (COST_VOLUME_CHANNELS, ALIGNED_CHANNELS, ALIGNED_CHANNELS + c)
    shapes = [(n, number, h, w) for number in channels]
    if out.shape not in shapes or out.dtype != first.dtype or out.device != first.device:
        raise ValueError(
            f"out must be one of {', '.join(map(str, shapes))}, {first.dtype} on {first.device}, "
            f"but it is {tuple(out.shape)}, {out.dtype} on {out.device}"
        )
    _leaky_cost_volume(first, second, slope, out)


def cost_volume_backward(grad: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of `first` and `second`, each in the layout of its tensor.

    Args:
        grad: the gradient of `cost_volume`, (N, 81, H, W), any strides.
        first: as `cost_volume` takes it.
        second: likewise.
    """
    gradients: tuple[Tensor, Tensor] = _cost_volume_backward(grad, first, second)
    return gradients


def _check(first: Tensor, second: Tensor) -> None:
    if first.ndim != 4 or first.shape != second.shape:
        raise ValueError(
            "first and second must have one shape (N, C, H, W), but they are "
            f"{tuple(first.shape)} and {tuple(second.shape)}"
        )
    if first.dtype != second.dtype or first.device != second.device:
        raise ValueError(
            "first and second must have one dtype and device, but they are "
            f"{first.dtype} on {first.device} and {second.dtype} on {second.device}"
        )
    if first.shape[1] == 0:
        raise ValueError("the mean over C needs at least one channel")
    check_dtype(first)


# `torch.library.custom_op` says this in less, but its first call imports a compiler: 2 seconds.
torch.library.define("pwcflow::cost_volume", "(Tensor first, Tensor second) -> Tensor")
torch.library.define(
    "pwcflow::cost_volume_backward",
    "(Tensor grad, Tensor first, Tensor second) -> (Tensor, Tensor)",
)
torch.library.define(
    "pwcflow::leaky_cost_volume",
    "(Tensor first, Tensor second, float slope, Tensor(a!) out) -> ()",
)


def _plain_leaky(first: Tensor, second: Tensor, slope: float, out: Tensor) -> None:
    out[:, :COST_VOLUME_CHANNELS] = F.leaky_relu(reference.cost_volume(first, second), slope)
    out[:, COST_VOLUME_CHANNELS:ALIGNED_CHANNELS] = 0
    behind = out[:, ALIGNED_CHANNELS:]
    behind.copy_(first[:, : behind.shape[1]])


torch.library.impl("pwcflow::cost_volume", "cpu")(reference.cost_volume)
torch.library.impl("pwcflow::cost_volume_backward", "cpu")(reference.cost_volume_backward)
torch.library.impl("pwcflow::leaky_cost_volume", "cpu")(_plain_leaky)


@torch.library.impl("pwcflow::cost_volume", "cuda")
def _on_gpu(first: Tensor, second: Tensor) -> Tensor:
    kernels = cost_volume_cuda.kernels_for(first)
    if kernels is None:
        return reference.cost_volume(first, second)
    n, _, h, w = first.shape
    volume = first.new_empty((n, COST_VOLUME_CHANNELS, h, w))
    cost_volume_cuda.cost_volume(kernels, first, second, 1.0, volume)
    return volume


@torch.library.impl("pwcflow::leaky_cost_volume", "cuda")
def _leaky_on_gpu(first: Tensor, second: Tensor, slope: float, out: Tensor) -> None:
    kernels = cost_volume_cuda.kernels_for(first)
    if kernels is None:
        _plain_leaky(first, second, slope, out)
    else:
        cost_volume_cuda.cost_volume(kernels, first, second, slope, out)


@torch.library.impl("pwcflow::cost_volume_backward", "cuda")
def _backward_on_gpu(grad: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    kernels = cost_volume_cuda.kernels_for(first)
    if kernels is None:
        return reference.cost_volume_backward(grad, first, second)
    return cost_volume_cuda.cost_volume_backward(kernels, grad, first, second)


def _fake(first: Tensor, second: Tensor) -> Tensor:
    n, _, h, w = first.shape
    return first.new_empty((n, COST_VOLUME_CHANNELS, h, w))


def _fake_backward(grad: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    return empty_like_layout(first), empty_like_layout(second)


def _fake_leaky(first: Tensor, second: Tensor, slope: float, out: Tensor) -> None:
    """Nothing is returned."""


torch.library.register_fake("pwcflow::leaky_cost_volume", _fake_leaky)
torch.library.register_fake("pwcflow::cost_volume", _fake)
torch.library.register_fake("pwcflow::cost_volume_backward", _fake_backward)

_cost_volume = torch.ops.pwcflow.cost_volume.default
_leaky_cost_volume = torch.ops.pwcflow.leaky_cost_volume.default
_cost_volume_backward = torch.ops.pwcflow.cost_volume_backward.default


def _save_inputs(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    return cost_volume_backward(grad, *ctx.saved_tensors)


torch.library.register_autograd("pwcflow::cost_volume", _backward, setup_context=_save_inputs)
