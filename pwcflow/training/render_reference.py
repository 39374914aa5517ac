"""The renderer in plain PyTorch: what render.cu computes, with the same names, on any device.

Everything is (N, H, W) at once, one layer after the other; colours are (N, H, W, 3).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pwcflow.training.codec_reference import compress
from pwcflow.training.pattern_reference import hashed, lattice, pattern
from pwcflow.training.scene import HARMONICS, SHAPES, STRUTS, SURFACES, WAVES, Array, Scenes

SEEN_THROUGH = 0.002
BLUR_TAPS = 7
LONGEST_BLUR_PX = 25.0


@dataclass(frozen=True)
class Textures:
    """Photographs (K, H, W, 4) and square cut-outs (S, size, size, 4), uint8 RGBA.

    The cut-outs' colours are multiplied by their alpha already.
    """

    photos: Tensor
    sprites: Tensor


@dataclass(frozen=True)
class Composed:
    """Two frames before the camera, and how the first moves onto the second."""

    frames: Tensor
    """(2, N, H, W, 3), RGB in 0..1."""
    flow: Tensor
    """(N, 2, H, W), pixels."""
    visible: Tensor
    """(N, H, W), 1 where a point of frame 1 is seen in frame 2 too, else 0."""


class _Fields:
    """The fields of one layer of every scene as tensors (N, 1, 1, ...)."""

    def __init__(self, table: Array, device: torch.device) -> None:
        self._table = table
        for name in table.dtype.names or ():
            values = np.ascontiguousarray(table[name])
            if values.dtype == np.uint32:
                values = values.astype(np.int64)
            tensor = torch.from_numpy(values).to(device)
            setattr(self, name, tensor.view(len(table), 1, 1, *tensor.shape[1:]))

    def __getattr__(self, name: str) -> Tensor:
        raise AttributeError(name)

    def has(self, field: str, names: tuple[str, ...], name: str) -> bool:
        """Return whether any scene has a shape or surface of that name here."""
        return bool((self._table[field] == names.index(name)).any())


def compose(scenes: Scenes, textures: Textures, height: int, width: int) -> Composed:
    """Return the two frames of each scene with their exact flow; see `scene`."""
    device = textures.photos.device
    n, count = scenes.layers.shape
    y, x = torch.meshgrid(
        torch.arange(height, device=device, dtype=torch.float32) - 0.5 * (height - 1),
        torch.arange(width, device=device, dtype=torch.float32) - 0.5 * (width - 1),
        indexing="ij",
    )
    p = torch.stack((x, y), -1).expand(n, height, width, 2)
    stack = [_Fields(scenes.layers[:, i], device) for i in range(count)]
    first = torch.zeros(n, height, width, 3, device=device)
    second = torch.zeros_like(first)
    first_left = torch.ones(n, height, width, device=device)
    second_left = torch.ones_like(first_left)
    seen = torch.full((n, height, width), -1, device=device)
    target = p.clone()
    for i in reversed(range(count)):
        if not (scenes.layers["radius"][:, i] > 0).any():
            continue
        layer = stack[i]
        q = _moved(layer, p)
        colour, alpha = _sample(textures, layer, _in_object(layer, q), p, 0)
        alpha = alpha * ((seen < 0) | (first_left > SEEN_THROUGH))
        first += colour * (alpha * first_left).unsqueeze(-1)
        first_left *= 1 - alpha
        hit = (seen < 0) & (layer.shade == 0) & (alpha > 0.5)
        seen = torch.where(hit, i, seen)
        target = torch.where(hit.unsqueeze(-1), q, target)
        colour, alpha = _sample(textures, layer, _in_object(layer, p), p, 1)
        alpha = alpha * (second_left > SEEN_THROUGH)
        second += colour * (alpha * second_left).unsqueeze(-1)
        second_left *= 1 - alpha
    clear = (target[..., 0].abs() <= 0.5 * (width - 1)) & (
        target[..., 1].abs() <= 0.5 * (height - 1)
    )
    for i in range(count):
        hides = _alpha(textures, stack[i], _in_object(stack[i], target)) > 0.5
        clear &= ~(hides & (stack[i].shade == 0) & (seen < i))
    flow = (target - p).permute(0, 3, 1, 2).contiguous()
    return Composed(torch.stack((first, second)), flow, clear.float())


def photograph(composed: Composed, scenes: Scenes) -> Tensor:
    """Return what a camera makes of the frames: images (2N, 8, H, W), first frames first.

    Channels are blue, green and red in 0..1, then zeros.
    """
    optics = _Fields(scenes.optics, composed.flow.device)
    images = [_expose(optics, _blur(optics, composed, k), k) for k in range(2)]
    rgb = torch.cat(images)
    n, height, width, _ = rgb.shape
    padded = rgb.new_zeros(n, height, width, 8)
    padded[..., :3] = rgb.flip(-1).clamp(0, 1)
    quantum = optics.quantum.flatten().repeat(2)
    return compress(padded.permute(0, 3, 1, 2), quantum)


def _moved(layer: _Fields, p: Tensor) -> Tensor:
    q = p
    for i in range(WAVES):
        kx, ky, phase, ax, ay = layer.waves[..., i, :].unbind(-1)
        s = torch.sin(kx * p[..., 0] + ky * p[..., 1] + phase)
        q = q + torch.stack((ax * s, ay * s), -1)
    m = layer.motion.unbind(-1)
    x, y = q.unbind(-1)
    w = 1 / (m[6] * x + m[7] * y + m[8])
    return torch.stack(((m[0] * x + m[1] * y + m[2]) * w, (m[3] * x + m[4] * y + m[5]) * w), -1)


def _in_object(layer: _Fields, q: Tensor) -> Tensor:
    px, py, cosine, sine = layer.pose.unbind(-1)
    x, y = q[..., 0] - px, q[..., 1] - py
    return torch.stack((cosine * x + sine * y, cosine * y - sine * x), -1)


def _sample(
    textures: Textures, layer: _Fields, at: Tensor, p: Tensor, which: int
) -> tuple[Tensor, Tensor]:
    """Return the layer's colour (N, H, W, 3) and alpha (N, H, W) at object coordinates `at`.

    It is seen at `p` in the first frame, or in the second: `which` is 0 or 1.
    """
    alpha = _alpha(textures, layer, at)
    alpha = torch.where(alpha < SEEN_THROUGH, 0, alpha)
    t = _mapped(layer.texture, at)
    k = pattern(layer.surface, layer.wavelength, layer.seed, t).unsqueeze(-1)
    colour = layer.colours[..., 0, :] * (1 - k) + layer.colours[..., 1, :] * k
    for name in ("photo", "tiles"):
        if layer.has("surface", SURFACES, name):
            here = (layer.surface == SURFACES.index(name)).unsqueeze(-1)
            there = t if name == "photo" else _tiled(textures, layer, t)
            colour = torch.where(here, _photo(textures, layer.photo, there), colour)
    if layer.has("surface", SURFACES, "sprite"):
        sprite = _sprite(textures, layer, at)
        own = sprite[..., :3] / sprite[..., 3:].clamp_min(1 / 255)
        is_sprite = (layer.surface == SURFACES.index("sprite")).unsqueeze(-1)
        colour = torch.where(is_sprite, own, colour)
    seen = (layer.tint * colour.unsqueeze(-2)).sum(-1).clamp(0, 1)
    if (layer.gloss > 0).any():
        there = _mapped(layer.reflection[..., which, :], p)
        reflected = _photo(textures, layer.reflected, there)
        seen = seen + (reflected - seen) * layer.gloss.unsqueeze(-1)
    is_shadow = layer.shade > 0  # translucent black
    seen = torch.where(is_shadow.unsqueeze(-1), 0, seen)
    return seen, torch.where(is_shadow, alpha * layer.shade, alpha)


def _mapped(matrix: Tensor, at: Tensor) -> Tensor:
    """Return affine maps (..., 6), row by row, of points (..., 2)."""
    m = matrix.unbind(-1)
    x, y = at.unbind(-1)
    return torch.stack((m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]), -1)


def _alpha(textures: Textures, layer: _Fields, at: Tensor) -> Tensor:
    radius = layer.radius.clamp_min(1e-6)
    x, y = at.unbind(-1)
    u, v = x / radius * layer.aspect, y / (radius * layer.aspect.clamp_min(1e-6))
    hardness = 2 * radius / layer.softness.clamp_min(1e-6)
    shapes: dict[str, Callable[[], Tensor]] = {
        "everywhere": lambda: torch.ones_like(u),
        "blob": lambda: _blob(layer, u, v, hardness),
        "ring": lambda: _ring(layer, u, v, hardness),
        "superellipse": lambda: _superellipse(layer, u, v, hardness),
        "bars": lambda: _bars(layer, u, v, hardness),
        "skeleton": lambda: _skeleton(layer, x / radius, y / radius, hardness),
        "sprite": lambda: _sprite(textures, layer, at)[..., 3],
    }
    alpha = torch.zeros_like(u)
    for name, shape in shapes.items():
        if layer.has("shape", SHAPES, name):
            alpha = torch.where(layer.shape == SHAPES.index(name), shape(), alpha)
    # As far as the kernel looks: an outline of strong harmonics is cut off there.
    everywhere = layer.shape == SHAPES.index("everywhere")
    is_sprite = layer.shape == SHAPES.index("sprite")
    stretch = torch.maximum(layer.aspect, 1 / layer.aspect.clamp_min(1e-6))
    reach = layer.radius * torch.where(is_sprite, 1.5, 2.5 * stretch) + 16
    near = (x * x + y * y < reach * reach) | everywhere
    return torch.where(near & (layer.radius > 0), alpha, 0)


def _outline(layer: _Fields, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distance from the centre, and where the outline is in that direction."""
    rho, angle = (u * u + v * v).clamp_min(1e-6).sqrt(), torch.atan2(v, u)
    outline = torch.ones_like(rho)
    for i in range(HARMONICS):
        wave = torch.cos((i + 2) * angle + layer.phases[..., i])
        outline = outline + layer.amplitudes[..., i] * wave
    return rho, outline


def _blob(layer: _Fields, u: Tensor, v: Tensor, hardness: Tensor) -> Tensor:
    rho, outline = _outline(layer, u, v)
    return torch.sigmoid((outline - rho) * hardness)


def _ring(layer: _Fields, u: Tensor, v: Tensor, hardness: Tensor) -> Tensor:
    rho, outline = _outline(layer, u, v)
    hole = torch.sigmoid((rho - outline * layer.inner) * hardness)
    return torch.sigmoid((outline - rho) * hardness) * hole


def _superellipse(layer: _Fields, u: Tensor, v: Tensor, hardness: Tensor) -> Tensor:
    e = layer.exponent.clamp_min(1e-6)
    norm = (u.abs().clamp_min(1e-4) ** e + v.abs().clamp_min(1e-4) ** e) ** (1 / e)
    return torch.sigmoid((1 - norm) * hardness)


def _bars(layer: _Fields, u: Tensor, v: Tensor, hardness: Tensor) -> Tensor:
    bars = layer.bars.clamp_min(1e-6)
    phase = u * bars - torch.floor(u * bars) - 0.5
    stripe = torch.sigmoid((0.5 * layer.duty - phase.abs()) * hardness / bars)
    return _superellipse(layer, u, v, hardness) * stripe


def _skeleton(layer: _Fields, x: Tensor, y: Tensor, hardness: Tensor) -> Tensor:
    depth = torch.full_like(x, -1e9)
    for i in range(STRUTS):
        x0, y0, x1, y1, half_width = layer.struts[..., i, :].unbind(-1)
        dx, dy = x1 - x0, y1 - y0
        rx, ry = x - x0, y - y0
        t = ((rx * dx + ry * dy) / (dx * dx + dy * dy).clamp_min(1e-6)).clamp(0, 1)
        here = half_width - torch.sqrt((rx - t * dx) ** 2 + (ry - t * dy) ** 2)
        depth = torch.where(half_width > 0, torch.maximum(depth, here), depth)
    return torch.sigmoid(depth * hardness)


def _photo(textures: Textures, index: Tensor, t: Tensor) -> Tensor:
    height, width = textures.photos.shape[1:3]
    x, y = t[..., 0] + 0.5 * (width - 1), t[..., 1] + 0.5 * (height - 1)
    x0, y0 = x.floor(), y.floor()
    rows = [_mirrored(y0.long() + k, height) for k in range(2)]
    columns = [_mirrored(x0.long() + k, width) for k in range(2)]
    corners = [textures.photos[index, r, c].float() for r in rows for c in columns]
    return _bilinear(corners, x - x0, y - y0)[..., :3]


def _tiled(textures: Textures, layer: _Fields, t: Tensor) -> Tensor:
    """Return where in the photograph a tile that repeats has its texel of `t`, (N, H, W, 2)."""
    height, width = textures.photos.shape[1:3]
    zero = torch.zeros_like(layer.seed)
    corner = torch.stack(
        (
            (lattice(zero, zero, layer.seed) - 0.5) * width,
            (lattice(zero, zero, layer.seed + 1) - 0.5) * height,
        ),
        -1,
    )
    period = layer.wavelength.clamp_min(1e-6).unsqueeze(-1)
    turns = t / period
    return corner + (turns - turns.floor()) * period


def _sprite(textures: Textures, layer: _Fields, at: Tensor) -> Tensor:
    size = textures.sprites.shape[1]
    k = (0.5 * size / layer.radius.clamp_min(1e-6)).unsqueeze(-1)
    x, y = (at * k + 0.5 * (size - 1)).clamp(-2, size + 1).unbind(-1)
    x0, y0 = x.floor(), y.floor()
    corners = []
    for j in range(2):
        for i in range(2):
            column, row = x0.long() + i, y0.long() + j
            inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
            texel = textures.sprites[
                layer.sprite, row.clamp(0, size - 1), column.clamp(0, size - 1)
            ]
            corners.append(texel.float() * inside.unsqueeze(-1))
    return _bilinear(corners, x - x0, y - y0)


def _mirrored(index: Tensor, size: int) -> Tensor:
    index = index % (2 * size)
    return torch.where(index < size, index, 2 * size - 1 - index)


def _bilinear(corners: list[Tensor], fx: Tensor, fy: Tensor) -> Tensor:
    weights = ((1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy)
    total = torch.zeros_like(corners[0])
    for corner, weight in zip(corners, weights, strict=True):
        total = total + corner * weight.unsqueeze(-1)
    return total / 255


def _blur(optics: _Fields, composed: Composed, which: int) -> Tensor:
    frame = composed.frames[which]
    n, height, width, _ = frame.shape
    along = (composed.flow * optics.shutter.unsqueeze(-1)).clamp(-LONGEST_BLUR_PX, LONGEST_BLUR_PX)
    y, x = torch.meshgrid(
        torch.arange(height, device=frame.device),
        torch.arange(width, device=frame.device),
        indexing="ij",
    )
    scene = torch.arange(n, device=frame.device).view(n, 1, 1)
    total = torch.zeros_like(frame)
    for i in range(BLUR_TAPS):
        t = i / (BLUR_TAPS - 1) - 0.5
        sx = (x + along[:, 0] * t).clamp(0, width - 1)
        sy = (y + along[:, 1] * t).clamp(0, height - 1)
        left, top = sx.long(), sy.long()
        right, bottom = (left + 1).clamp_max(width - 1), (top + 1).clamp_max(height - 1)
        corners = [frame[scene, r, c] for r in (top, bottom) for c in (left, right)]
        total = total + _bilinear(corners, sx - left, sy - top) * 255
    still = (optics.shutter == 0).unsqueeze(-1)
    return torch.where(still, frame, total / BLUR_TAPS)


def _expose(optics: _Fields, frame: Tensor, which: int) -> Tensor:
    n, height, width, _ = frame.shape
    device = frame.device
    row = torch.tensor([1, 4, 6, 4, 1], device=device, dtype=frame.dtype) / 16
    padded = torch.nn.functional.pad(frame.permute(0, 3, 1, 2), (2, 2, 2, 2), mode="replicate")
    kernel = (row[:, None] * row).expand(3, 1, 5, 5)
    soft = torch.nn.functional.conv2d(padded, kernel, groups=3).permute(0, 2, 3, 1)
    colour = frame + (soft - frame) * optics.defocus.unsqueeze(-1)
    y, x = torch.meshgrid(
        torch.arange(height, device=device) - 0.5 * (height - 1),
        torch.arange(width, device=device) - 0.5 * (width - 1),
        indexing="ij",
    )
    light = torch.zeros(n, height, width, device=device)
    for i in range(3):
        kx, ky, phase, size = optics.light[..., which, i, :].unbind(-1)
        light = light + size * torch.sin(kx * x + ky * y + phase)
    factor, glow = light.exp(), torch.zeros_like(light)
    for i in range(2):
        sx, sy, inverse_radius, brightness = optics.spots[..., which, i, :].unbind(-1)
        dx, dy = (x - sx) * inverse_radius, (y - sy) * inverse_radius
        blob = brightness * torch.exp(-0.5 * (dx * dx + dy * dy))
        glow = glow + blob.clamp_min(0)
        factor = factor * (1 + blob.clamp_max(0))
    colour = colour * factor.unsqueeze(-1) + glow.unsqueeze(-1)
    colour = colour + (optics.fog_colour - colour) * optics.fog.unsqueeze(-1)
    contrast, brightness, gamma = (
        values[..., which].unsqueeze(-1)
        for values in (optics.contrast, optics.brightness, optics.gamma)
    )
    colour = ((colour - 0.5) * contrast + 0.5 + brightness) * optics.gain[..., which, :]
    colour = colour.clamp(1e-4, 1) ** gamma
    gray = (optics.gray > 0).unsqueeze(-1)
    colour = torch.where(gray, colour.mean(-1, keepdim=True), colour)
    index = torch.arange(height * width, device=device).view(1, height, width)
    state = hashed(index + hashed(optics.seed + which))
    noise = []
    for _ in range(3):
        state = hashed(state)
        a = ((state >> 8) + 1).float() / 16777216
        state = hashed(state)
        b = (state >> 8).float() / 16777216
        noise.append(torch.sqrt(-2 * torch.log(a)) * torch.cos(2 * math.pi * b))
    return colour + optics.noise.unsqueeze(-1) * torch.stack(noise, -1)
