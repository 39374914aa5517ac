"""The network's own PyTorch operators, with CPU and CUDA kernels.

`pwcflow::cost_volume`, and `pwcflow::bias_leaky_relu` for what follows a convolution, both with
their gradients; without any `pwcflow::leaky_cost_volume`, and for inference
`pwcflow::bias_leaky_relu_` in place, `pwcflow::prepare_images`, `pwcflow::split_convolution`,
`pwcflow::warp_features`, `pwcflow::upsample_flow` and `pwcflow::finish_flow`. Convolutions of
float32 are a plain function; what is around those of dense blocks is in `pwcflow.ops.append`.
"""

from pwcflow.ops.bias_leaky_relu import bias_leaky_relu, bias_leaky_relu_
from pwcflow.ops.convolution import convolve_floats, has_fast_floats
from pwcflow.ops.cost_volume import cost_volume, cost_volume_backward, leaky_cost_volume
from pwcflow.ops.image import FLOW_SCALE, IMAGE_CHANNELS, finish_flow, joined_parts, prepare_images
from pwcflow.ops.reference import ALIGNED_CHANNELS, COST_VOLUME_CHANNELS, MAX_DISPLACEMENT
from pwcflow.ops.split_convolution import split_convolution
from pwcflow.ops.upsample import FEATURE_PLACE, FLOW_PLACE, PACKED_CHANNELS, upsample_flow
from pwcflow.ops.warp import warp_features

__all__ = [
    "ALIGNED_CHANNELS",
    "COST_VOLUME_CHANNELS",
    "FEATURE_PLACE",
    "FLOW_PLACE",
    "FLOW_SCALE",
    "IMAGE_CHANNELS",
    "MAX_DISPLACEMENT",
    "PACKED_CHANNELS",
    "bias_leaky_relu",
    "bias_leaky_relu_",
    "convolve_floats",
    "cost_volume",
    "cost_volume_backward",
    "finish_flow",
    "has_fast_floats",
    "joined_parts",
    "leaky_cost_volume",
    "prepare_images",
    "split_convolution",
    "upsample_flow",
    "warp_features",
]
