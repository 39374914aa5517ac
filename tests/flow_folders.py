"""Flows of a few vectors, and folders in a folder of them."""

import numpy as np

from pwcflow.flow_file import write_flow


def flow_with(*vectors):
    """One row of pixels with these vectors, and the rest of 4 x 6 at rest."""
    flow = np.zeros((4, 6, 2), np.float32)
    flow[0, : len(vectors)] = vectors
    return flow


def tree_of_flows(root):
    for place, motion in (("a/000000.flo", 2), ("a/000001.flo", 8), ("b/c/000000.npy", 4)):
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        write_flow(path, flow_with((motion, 0), (1, 0)))
    return root
