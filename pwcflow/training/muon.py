"""Muon on flat parameters: steps of convolution weights are made orthogonal.

As in `FlatAdamW`, no step waits for the host, and a step can be captured in a CUDA graph.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pwcflow.training.flat import FlatParameters, flatten
from pwcflow.training.optimizer import AdamSettings, FlatAdamW

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of x, x^3 and x^5; five times over, they take each singular value to 0.7..1.2 or so."""
ITERATIONS = 5
EPSILON = 1e-7
STEP_SIZE = 0.2
"""Root mean square of a step by learning rate 1: that of AdamW, whose rate serves here too."""


class FlatMuon(FlatAdamW):
    """Muon for the weights of convolutions, AdamW for all other parameters.

    The weight of a convolution is a matrix here: a row for each output channel. Scaling, clipping,
    weight decay and averaging are those of `FlatAdamW`, and so is the state: a matrix has its
    momentum in "first_moment", and zeros in "second_moment". An input channel without gradient or
    weight, as in the gaps of `AlignedPwcNet`, gets none.

    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024
    (kellerjordan.github.io/posts/muon), with Nesterov momentum; weight decay and size of a step as
    in Liu et al., "Muon is Scalable for LLM Training", 2025 (arXiv 2502.16982), section 2.2.
    """

    def __init__(
        self,
        matrices: Sequence[FlatParameters],
        others: Sequence[FlatParameters],
        settings: AdamSettings,
    ) -> None:
        """Start from the values the parts have; `matrices` are weights of convolutions only."""
        super().__init__([*matrices, *others], settings)
        self._groups = [
            _groups(part, weights, gradient)
            for part, weights, gradient in zip(
                matrices, self._flats["weights"], self._gradients, strict=False
            )
        ]

    @classmethod
    def of(cls, network: nn.Module, settings: AdamSettings) -> "FlatMuon":
        """Flatten a network's parameters, those of `matrix_names` apart."""
        matrices = matrix_names(network)
        others = {name for name, _ in network.named_parameters()} - matrices
        return cls(flatten(network, matrices), flatten(network, others), settings)

    def _change(self, index: int, gradient: Tensor, used: Tensor) -> None:
        if index >= len(self._groups):
            super()._change(index, gradient, used)
            return
        weights, momentum = self._flats["weights"][index], self._flats["first_moment"][index]
        momentum.mul_((1.0 - (1.0 - MOMENTUM) * used).float()).add_(gradient)
        gradient.add_(momentum, alpha=MOMENTUM)
        weights.mul_((1.0 - self.rate * self._settings.weight_decay * used).float())
        size = (self.rate * used).float()
        with _without_tf32():
            for group in self._groups[index]:
                group.step(size)


def matrix_names(network: nn.Module) -> set[str]:
    """Return the names of the weights that Muon is for: of convolutions between features.

    Those that give flow, 2 channels, are left out, as its authors leave out output layers, and so
    are transposed convolutions, which begin as bilinear interpolation.
    """
    return {
        f"{name}.weight"
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d) and module.out_channels > 2
    }


def orthogonalizers(grams: Tensor) -> Tensor:
    """Return the matrix Q for each Gram matrix X X^T so that Q X is nearly orthogonal.

    Q X is what the iteration X <- a X + b (X X^T) X + c (X X^T)^2 X makes of X / |X|. All its X are
    polynomials of X X^T times the first one, so that it needs no more than this small matrix. In
    float32, Q X is within 1e-6 of its norm of the iteration in float64 if singular values span a
    decade, and within 1e-3 if they span any number, as small ones are lost in X X^T.

    Args:
        grams: (N, M, M), symmetric; zeros give a finite Q.
    """
    a, b, c = COEFFICIENTS
    norms = grams.diagonal(dim1=1, dim2=2).sum(1).sqrt().add_(EPSILON).view(-1, 1, 1)
    grams = grams / norms.square()
    product = None
    for iteration in range(ITERATIONS):
        factor = (grams * b).baddbmm_(grams, grams, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor if product is None else product @ factor
        if iteration < ITERATIONS - 1:
            grams = factor @ grams @ factor
    assert product is not None, "there are iterations"
    return product.div_(norms)


class _Group:
    """Matrices with as many rows, whose small products are computed together."""

    def __init__(self, matrices: list[tuple[Tensor, Tensor]]) -> None:
        """Take views of weights, each with one of the direction it is to go."""
        self._matrices = matrices
        first, _ = matrices[0]
        rows, device = len(first), first.device
        self._grams = torch.zeros(len(matrices), rows, rows, device=device)
        scales = [STEP_SIZE * max(weights.shape) ** 0.5 for weights, _ in matrices]
        self._scales = torch.tensor(scales, device=device).view(-1, 1, 1)

    def step(self, size: Tensor) -> None:
        """Subtract the orthogonalised directions, `size` times their scale."""
        for (_, direction), gram in zip(self._matrices, self._grams, strict=True):
            torch.mm(direction, direction.T, out=gram)
        factors = orthogonalizers(self._grams).mul_(self._scales * -size)
        for (weights, direction), factor in zip(self._matrices, factors, strict=True):
            weights.addmm_(factor, direction)


def _groups(part: FlatParameters, weights: Tensor, directions: Tensor) -> list[_Group]:
    by_rows: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for pair in zip(_matrices(part, weights), _matrices(part, directions), strict=True):
        by_rows.setdefault(len(pair[0]), []).append(pair)
    return [_Group(matrices) for matrices in by_rows.values()]


def _matrices(part: FlatParameters, flat: Tensor) -> Iterator[Tensor]:
    """Yield each piece as a view with no more rows than columns."""
    for piece in part.named(flat).values():
        matrix = piece.permute(0, 2, 3, 1).view(len(piece), -1)
        rows, columns = matrix.shape
        yield matrix if rows <= columns else matrix.T


@contextmanager
def _without_tf32() -> Iterator[None]:
    """Let float32 products be exact to float32, whatever the program or its environment chose.

    With the errors of TF32 in X X^T, a step goes far wrong in directions that X hardly has.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
