"""What `estimate` and `video` do: images in, the estimator, files out.

Nothing here imports torch. The estimator is loaded by a function that is called once the inputs
and outputs were found to be in order, so that a mistake is told at once.
"""

from pwcflow.pipeline.pair import estimate_pair
from pwcflow.pipeline.summary import LoadEstimator, Summary
from pwcflow.pipeline.video import FindMaker, estimate_video

__all__ = ["FindMaker", "LoadEstimator", "Summary", "estimate_pair", "estimate_video"]
