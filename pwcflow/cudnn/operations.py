"""Convolutions, and what follows them, as operations of cuDNN's graphs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcflow.cudnn.descriptors import Descriptor
from pwcflow.cudnn.enums import (
    Attribute,
    AttributeType,
    ConvolutionMode,
    DataType,
    DescriptorType,
    NanPropagation,
    PointwiseMode,
)

ALIGNMENT = 16
"""Bytes: every tensor's memory must begin at a multiple of it."""
DATA_TYPES = {
    torch.float32: DataType.FLOAT,
    torch.float16: DataType.HALF,
    torch.bfloat16: DataType.BFLOAT16,
}
"""Of the tensors of a graph; float32 is that of the sums between its operations."""

X, W, Y, BIAS, _SUM, _BIASED = range(1, 7)
"""Names of the tensors in a graph: input, weight, result, bias, and what is between."""


@dataclass(frozen=True)
class Geometry:
    """How a convolution's window lies on its input."""

    stride: int = 1
    padding: int = 1
    dilation: int = 1


PLAIN = Geometry()
"""Of a 3 x 3 convolution that keeps the size."""


@dataclass(frozen=True)
class Layout:
    """What of a tensor a plan depends on."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "Layout":
        """Return that of a tensor."""
        return cls(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))

    def empty(self, device: torch.device) -> Tensor:
        """Return a new tensor of it, of as much memory as lies between its ends."""
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)


def forward(
    x: Layout, weight: Layout, bias: Layout | None, y: Layout, geometry: Geometry, slope: float
) -> list[Descriptor]:
    """Return a convolution, and with a bias its addition and LeakyReLU, of X, W and BIAS to Y."""
    wide = Layout(torch.float32, y.shape, y.strides)
    parts = [_tensor(x, X), _tensor(weight, W)]
    parts.append(_tensor(y, Y) if bias is None else _tensor(wide, _SUM, virtual=True))
    window = _window(geometry)
    convolution = Descriptor(DescriptorType.OPERATION_CONVOLUTION_FORWARD, *parts, window)
    convolution.set_float(Attribute.OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0)
    convolution.set_float(Attribute.OPERATION_CONVOLUTION_FORWARD_BETA, 0.0)
    convolution.set_descriptors(Attribute.OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window)
    convolution.set_descriptors(Attribute.OPERATION_CONVOLUTION_FORWARD_X, parts[0])
    convolution.set_descriptors(Attribute.OPERATION_CONVOLUTION_FORWARD_W, parts[1])
    convolution.set_descriptors(Attribute.OPERATION_CONVOLUTION_FORWARD_Y, parts[2])
    operations = [convolution.finalize()]
    if bias is not None:
        biased = _tensor(wide, _BIASED, virtual=True)
        operations.append(_pointwise(_addition(), parts[2], biased, other=_tensor(bias, BIAS)))
        operations.append(_pointwise(_leaky_relu(slope), biased, _tensor(y, Y)))
    return operations


def _tensor(layout: Layout, name: int, *, virtual: bool = False) -> Descriptor:
    """Return a tensor of a graph; a virtual one is never written to memory."""
    descriptor = Descriptor(DescriptorType.TENSOR)
    descriptor.set_enum(
        Attribute.TENSOR_DATA_TYPE, AttributeType.DATA_TYPE, DATA_TYPES[layout.dtype]
    )
    descriptor.set_int64(Attribute.TENSOR_DIMENSIONS, *layout.shape)
    descriptor.set_int64(Attribute.TENSOR_STRIDES, *layout.strides)
    descriptor.set_int64(Attribute.TENSOR_UNIQUE_ID, name)
    descriptor.set_int64(Attribute.TENSOR_BYTE_ALIGNMENT, ALIGNMENT)
    if virtual:
        descriptor.set_bool(Attribute.TENSOR_IS_VIRTUAL, True)
    return descriptor.finalize()


def _window(geometry: Geometry) -> Descriptor:
    descriptor = Descriptor(DescriptorType.CONVOLUTION)
    descriptor.set_enum(Attribute.CONVOLUTION_COMP_TYPE, AttributeType.DATA_TYPE, DataType.FLOAT)
    descriptor.set_enum(
        Attribute.CONVOLUTION_CONV_MODE,
        AttributeType.CONVOLUTION_MODE,
        ConvolutionMode.CROSS_CORRELATION,
    )
    for attribute, value in (
        (Attribute.CONVOLUTION_DILATIONS, geometry.dilation),
        (Attribute.CONVOLUTION_FILTER_STRIDES, geometry.stride),
        (Attribute.CONVOLUTION_POST_PADDINGS, geometry.padding),
        (Attribute.CONVOLUTION_PRE_PADDINGS, geometry.padding),
    ):
        descriptor.set_int64(attribute, value, value)
    descriptor.set_int64(Attribute.CONVOLUTION_SPATIAL_DIMS, 2)
    return descriptor.finalize()


def _addition() -> Descriptor:
    return _rule(PointwiseMode.ADD).finalize()


def _leaky_relu(slope: float) -> Descriptor:
    rule = _rule(PointwiseMode.RELU_FWD)
    # NaN stays NaN, as in PyTorch. cuDNN 9 calls the attribute deprecated, but NVIDIA's frontend,
    # in node/pointwise.h, still sets it.
    rule.set_enum(
        Attribute.POINTWISE_NAN_PROPAGATION,
        AttributeType.NAN_PROPOGATION,
        NanPropagation.PROPAGATE_NAN,
    )
    rule.set_double(Attribute.POINTWISE_RELU_LOWER_CLIP, 0.0)
    rule.set_double(Attribute.POINTWISE_RELU_LOWER_CLIP_SLOPE, slope)
    return rule.finalize()


def _rule(mode: PointwiseMode) -> Descriptor:
    """Return what to do with each value, in float32; not finalised yet."""
    rule = Descriptor(DescriptorType.POINTWISE)
    rule.set_enum(Attribute.POINTWISE_MODE, AttributeType.POINTWISE_MODE, mode)
    rule.set_enum(Attribute.POINTWISE_MATH_PREC, AttributeType.DATA_TYPE, DataType.FLOAT)
    return rule


def _pointwise(
    rule: Descriptor, x: Descriptor, y: Descriptor, *, other: Descriptor | None = None
) -> Descriptor:
    operation = Descriptor(
        DescriptorType.OPERATION_POINTWISE, rule, x, y, *([other] if other else [])
    )
    operation.set_descriptors(Attribute.OPERATION_POINTWISE_PW_DESCRIPTOR, rule)
    operation.set_descriptors(Attribute.OPERATION_POINTWISE_XDESC, x)
    if other is not None:
        operation.set_descriptors(Attribute.OPERATION_POINTWISE_BDESC, other)
    operation.set_descriptors(Attribute.OPERATION_POINTWISE_YDESC, y)
    return operation.finalize()
