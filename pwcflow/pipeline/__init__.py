"""What the commands do, a module for each: files in, files out.

`pair` is `estimate`; `video` and `many_videos` are `video`; `convert`, `evaluate`, `info` and
`visualize` are called as their commands are. `view`, `train` and `bench` have packages of their
own.

Nothing here imports torch. The estimator is loaded by a function that is called once the inputs
and outputs were found to be in order, so that a mistake is told at once.
"""

from pwcflow.pipeline.pair import estimate_pair
from pwcflow.pipeline.summary import LoadEstimator, Summary
from pwcflow.pipeline.video import FindMaker, estimate_video

__all__ = ["FindMaker", "LoadEstimator", "Summary", "estimate_pair", "estimate_video"]
