"""A network's parameters in one tensor, so that a handful of kernels update them all."""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor, nn

PIECE_ALIGNMENT = 128
"""Elements. In float16, pieces then begin at multiples of 256 bytes, as if allocated alone."""


class FlatParameters:
    """Parameters of one dtype and device, moved into one tensor; gradients have another like it.

    Weights of convolutions lie channels-last in it, as cuDNN wants them. What lies between the
    pieces is zero.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Move the parameters: each becomes a view of `values`, with the values it has."""
        self.parameters = list(parameters.values())
        dtypes = {(parameter.dtype, parameter.device) for parameter in self.parameters}
        if len(dtypes) != 1:
            raise ValueError(f"the parameters must have one dtype and device, but have {dtypes}")
        ((self.dtype, self.device),) = dtypes
        self._places: dict[str, tuple[int, torch.Size]] = {}
        size = 0
        for name, parameter in parameters.items():
            self._places[name] = size, parameter.shape
            size += -(-parameter.numel() // PIECE_ALIGNMENT) * PIECE_ALIGNMENT
        self._size = size
        self.values = self.new_flat(self.dtype)
        """What the network computes with."""
        self.gradient = self.new_flat(self.dtype)
        self.gradients = list(self.named(self.gradient).values())
        """The gradient of each parameter: a view of `gradient`, in the order of `parameters`."""
        for parameter, view in zip(self.parameters, self.named(self.values).values(), strict=True):
            view.copy_(parameter.detach())
            parameter.data = view

    def new_flat(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return zeros laid out like `values`."""
        return torch.zeros(self._size, dtype=dtype, device=self.device)

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the piece of each parameter in a tensor laid out like `values`."""
        return {
            name: _piece(flat[offset : offset + shape.numel()], shape)
            for name, (offset, shape) in self._places.items()
        }

    def store_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Copy a gradient of each parameter into `gradient`, replacing what it holds.

        One kernel takes many tensors, where letting autograd add to `.grad` would take one each.
        """
        torch._foreach_copy_(self.gradients, list(gradients))


def flatten(network: nn.Module, names: Collection[str] | None = None) -> list[FlatParameters]:
    """Move a network's parameters, or only the named ones, into one flat tensor for each dtype."""
    by_dtype: dict[torch.dtype, dict[str, nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if names is None or name in names:
            by_dtype.setdefault(parameter.dtype, {})[name] = parameter
    return [FlatParameters(parameters) for parameters in by_dtype.values()]


def _piece(flat: Tensor, shape: torch.Size) -> Tensor:
    """Return one-dimensional memory as `shape`, channels-last if that has four dimensions."""
    if len(shape) != 4:
        return flat.view(shape)
    outputs, inputs, height, width = shape
    return flat.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
