"""The colours of flows painted on a GPU, where that is what computes the flows."""

from pwcflow.gpu_color.painter import GpuPainter

__all__ = ["GpuPainter"]
