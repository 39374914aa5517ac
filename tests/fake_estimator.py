"""An estimator without a network, whose flow tells which two images it was given."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np

from pwcflow.color import flow_to_color
from pwcflow.errors import PwcFlowError


class FakeEstimator:
    """Its flow is constant: u is the mean of the first image, v the mean of the second."""

    flow_to_color = staticmethod(flow_to_color)

    def __init__(self):
        self.weights = SimpleNamespace(name="fake", sha256="0" * 64)
        self.device = "cpu"
        self.precision = "fp32"
        self.network_scale = 1.0
        self.encoded = []
        self.loads = 0
        self.fails_at = None  # the number of a flow
        self._flows = 0

    def load(self):
        self.loads += 1
        self._flows = 0
        return self

    def encode(self, image):
        brightness = float(image[::4, ::4].mean())
        self.encoded.append(brightness)
        return brightness, image.shape[:2]

    def decode(self, first, second):
        if self._flows == self.fails_at:
            raise PwcFlowError("no flow here")
        self._flows += 1
        flow = np.empty((*first[1], 2), np.float32)
        flow[:] = first[0], second[0]
        return flow

    def flows(self, frames, expected=None):
        for first, second in pairwise(map(self.encode, frames)):
            yield self.decode(first, second)

    def __call__(self, first, second):
        return self.decode(self.encode(first), self.encode(second))
