"""What a video codec does to an image, in plain PyTorch: `compress` in render.cu.

Of JPEG and H.264 only what shows: blocks of 8 x 8 pixels lose the detail that their rounded cosine
transform cannot hold, in colour more than in brightness.
"""

import math

import torch
from torch import Tensor


def compress(images: Tensor, quantum: Tensor) -> Tensor:
    """Return images (N, C, H, W) as a codec gives them back; blocks begin at the upper left corner.

    Args:
        images: blue, green, red in 0..1; channels beyond stay as they are.
        quantum: (N,), step of a block's mean brightness times 8; 0 leaves an image as it is. Detail
            has steps that grow with its frequency, and colour twice those.
    """
    height, width = images.shape[-2:]
    blue, green, red = images[:, :3].unbind(1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    planes = torch.stack((luma, (blue - luma) / 1.772, (red - luma) / 1.402), 1)
    padding = (0, -width % 8, 0, -height % 8)
    planes = torch.nn.functional.pad(planes, padding, mode="replicate")
    rows, columns = planes.shape[-2] // 8, planes.shape[-1] // 8
    tiles = planes.reshape(-1, 3, rows, 8, columns, 8)
    k = torch.arange(8, device=images.device, dtype=images.dtype)
    basis = 0.5 * torch.cos((2 * k + 1) * k[:, None] * (math.pi / 16))
    basis[0] *= math.sqrt(0.5)
    coefficients = torch.einsum("vy,ncrysx,ux->ncrvsu", basis, tiles, basis)
    growth = 1 + k[:, None, None] + k  # (v, 1, u)
    colour = torch.tensor([1.0, 2.0, 2.0], device=images.device).view(3, 1, 1, 1, 1)
    step = quantum.view(-1, 1, 1, 1, 1, 1) * colour * growth
    kept = torch.round(coefficients / step.clamp_min(1e-9)) * step
    back = torch.einsum("vy,ncrvsu,ux->ncrysx", basis, kept, basis)
    luma, to_blue, to_red = back.flatten(-2).flatten(2, 3)[..., :height, :width].unbind(1)
    blue, red = luma + 1.772 * to_blue, luma + 1.402 * to_red
    green = (luma - 0.299 * red - 0.114 * blue) / 0.587
    coded = torch.stack((blue, green, red), 1).clamp(0, 1)
    result = images.clone()
    result[:, :3] = torch.where(quantum.view(-1, 1, 1, 1) > 0, coded, images[:, :3])
    return result
