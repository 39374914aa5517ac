"""The network's own PyTorch operators, with CPU and CUDA kernels.

`pwcflow::cost_volume`, and `pwcflow::bias_leaky_relu` for what follows a convolution.
"""

from pwcflow.ops.bias_leaky_relu import bias_leaky_relu
from pwcflow.ops.cost_volume import cost_volume
from pwcflow.ops.reference import COST_VOLUME_CHANNELS, MAX_DISPLACEMENT

__all__ = ["COST_VOLUME_CHANNELS", "MAX_DISPLACEMENT", "bias_leaky_relu", "cost_volume"]
