"""Training: scenes rendered on the fly, and the loop that learns from them."""
