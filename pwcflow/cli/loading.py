"""What loads the estimator that the options ask for, not before it is needed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pwcflow.cli.console import import_torch

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator
    from pwcflow.runs.provenance import Maker


def estimator_loader(
    weights: str, device: str, precision: str, network_scale: float, quiet: bool
) -> Callable[[], "FlowEstimator"]:
    """Return what loads the estimator, and PyTorch with it, once it is needed."""

    def load() -> "FlowEstimator":
        import_torch()
        from pwcflow.estimator import FlowEstimator

        return FlowEstimator(weights, device, precision, network_scale=network_scale, quiet=quiet)

    return load


def maker_finder(
    weights: str, precision: str, network_scale: float
) -> "Callable[[], Maker | None]":
    """Return what tells what would compute the flows, without PyTorch where that is enough."""

    def find() -> "Maker | None":
        from pwcflow.runs.provenance import KnownMaker
        from pwcflow.weights import provenance_of

        known = None if precision == "auto" else provenance_of(weights)  # auto asks the device
        return KnownMaker(known, precision, network_scale) if known else None

    return find
