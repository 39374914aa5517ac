"""The cost volume as a PyTorch operator, `pwcflow::cost_volume`, with CPU and CUDA kernels."""

from pwcflow.ops.cost_volume import cost_volume
from pwcflow.ops.reference import COST_VOLUME_CHANNELS, MAX_DISPLACEMENT

__all__ = ["COST_VOLUME_CHANNELS", "MAX_DISPLACEMENT", "cost_volume"]
