"""cuDNN: how exact PyTorch's use of it is, and convolutions that PyTorch does not hand on.

`exact_convolutions` is for the former. The latter go through cuDNN's own C interface.
PyTorch's convolutions read and write whole tensors, and leave bias and LeakyReLU to further
kernels. These, of half precision, read from and write into some channels of a channels-last tensor,
and add bias and LeakyReLU on the way: a dense block then needs no concatenations. They have no
gradients: cuDNN computes those of such channels on copies that it packs first, which costs more
than it saves (measured in tests/benchmarks/training.json).

It is the library that PyTorch brought with it, found in the process; where there is none, or it is
of another generation, `is_available` says so and everything else works without.

What is computed is a graph of `operations`, each a descriptor of cuDNN's; `plans` are ways to
compute one, and `plan_search` finds the fastest, when it is first asked for or a network's at once.
"""

from pwcflow.cudnn.convolutions import convolve
from pwcflow.cudnn.descriptors import CudnnError, is_available
from pwcflow.cudnn.exact import exact_convolutions
from pwcflow.cudnn.operations import Geometry
from pwcflow.cudnn.plan_search import planning

__all__ = [
    "CudnnError",
    "Geometry",
    "convolve",
    "exact_convolutions",
    "is_available",
    "planning",
]
