"""A run over many videos in a process of its own, with an estimator that costs next to nothing.

    python -m tests.many_run OUT INPUT...

Prints a line when it is ready, waits for one on standard input, or its end, and prints its summary
at the end.
"""

import json
import sys
import time
from pathlib import Path

from pwcflow.pipeline.many_videos import estimate_videos
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video.find import find_videos
from tests.fake_estimator import FakeEstimator

SECONDS_PER_FLOW = 0.002


class Slow(FakeEstimator):
    """Takes its time, as a network does."""

    def decode(self, first, second):
        time.sleep(SECONDS_PER_FLOW)
        return super().decode(first, second)


def main():
    out = Path(sys.argv[1])
    videos = find_videos(sys.argv[2:], [], [out])
    print("begun", flush=True)
    sys.stdin.readline()
    print(json.dumps(estimate_videos(Slow, videos, VideoOutputs(folder=out, viz=out))), flush=True)


if __name__ == "__main__":
    main()
