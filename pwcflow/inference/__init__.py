"""PWC-Net where only the flow is wanted: on a GPU in few kernels, and in graphs of them.

An `InferenceNetwork` computes flow from tensors: `ChannelsLastNetwork` or `ExactNetwork`. On a GPU
`captured` records the whole way from images to flow as a CUDA graph, and `gpu_flow` takes numpy
images there and their flow back.
"""

from pwcflow.inference.channels_last import ChannelsLastNetwork, runs_channels_last
from pwcflow.inference.exact import ExactNetwork
from pwcflow.inference.interface import InferenceNetwork

__all__ = ["ChannelsLastNetwork", "ExactNetwork", "InferenceNetwork", "runs_channels_last"]
