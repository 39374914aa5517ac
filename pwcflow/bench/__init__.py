"""How long the network, the cost volume, and the stages of a video take on this machine."""
