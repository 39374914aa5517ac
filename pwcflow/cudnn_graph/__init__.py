"""Convolutions that cuDNN has and PyTorch does not hand on, through cuDNN's own C interface.

PyTorch's convolutions read and write whole tensors, and leave bias and LeakyReLU to further
kernels. Those here read from and write into some channels of a channels-last tensor, add bias and
LeakyReLU on the way, and can add a gradient to one that is there: a dense block then needs neither
concatenations nor additions, which take as long as its convolutions.

It is the library that PyTorch brought with it, found in the process; where there is none, or it is
of another generation, `is_available` says so and everything else works without.

What is computed is a graph of `operations`, each a descriptor of cuDNN's; `plans` finds the fastest
way to compute one.
"""

from pwcflow.cudnn_graph.convolutions import add_input_gradient, convolve, weight_gradient
from pwcflow.cudnn_graph.descriptors import CudnnError, is_available
from pwcflow.cudnn_graph.operations import PLAIN, Geometry

__all__ = [
    "PLAIN",
    "CudnnError",
    "Geometry",
    "add_input_gradient",
    "convolve",
    "is_available",
    "weight_gradient",
]
