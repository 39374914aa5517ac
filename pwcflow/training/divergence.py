"""A training whose numbers are not finite any more, and what there is to do about it."""

from pathlib import Path

from pwcflow.errors import PwcFlowError
from pwcflow.training.checkpoint import load_checkpoint

FAILURES_TOLERATED = 50
"""Steps in a row without a finite gradient, after which no smaller loss scale will help."""


class DivergedError(PwcFlowError):
    """Training gives numbers that are not finite, and would go on so."""


def diverged(why: str, checkpoint: Path, changed: int) -> DivergedError:
    """Return what to tell of a divergence, and what there is to do.

    A checkpoint is of use only if the weights changed after it: those whose gradients were not
    finite have none at a lower rate either.

    Args:
        why: what is not finite, as a clause.
        checkpoint: the run's, if there is one.
        changed: the last step that changed the weights.
    """
    if not checkpoint.exists():
        advice = "begin anew with a lower rate"
    # Of several processes only the first knows what it saved, and any may be the one to tell.
    elif (saved := load_checkpoint(checkpoint).step) < changed:
        advice = f"resume {checkpoint}, which is of step {saved}, with a lower rate"
    else:
        advice = "begin anew in another folder with a lower rate"
    return DivergedError(f"training diverged: {why}; {advice}")
