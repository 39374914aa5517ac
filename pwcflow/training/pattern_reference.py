"""Computed surfaces in plain PyTorch: what `pattern` in pattern.cuh computes, with the same names.

Coordinates are in wavelengths of the surface, (N, H, W); a seed is (N, 1, 1), int64 below 2^32.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from pwcflow.training.scene import SURFACES

_UINT32 = 0xFFFFFFFF
_TURN = 6.2831853


def pattern(surface: Tensor, wavelength: Tensor, seed: Tensor, t: Tensor) -> Tensor:
    """Return how much of computed surfaces is their second colour, (N, H, W) in 0..1.

    Args:
        surface: numbers from SURFACES, (N, 1, 1); 0 comes out for those that are not computed.
        wavelength: texture px, (N, 1, 1).
        seed: of the random ones, (N, 1, 1).
        t: texture coordinates in px, (N, H, W, 2).
    """
    x, y = (t / wavelength.clamp_min(1e-6).unsqueeze(-1)).unbind(-1)
    k = torch.zeros_like(x)
    for number in set(surface.flatten().tolist()):
        compute = _PATTERNS.get(SURFACES[number])
        if compute:
            these = (surface.flatten() == number).nonzero().flatten()
            k[these] = compute(x[these], y[these], wavelength[these], seed[these])
    return k


def _gradient(x: Tensor, y: Tensor, _: Tensor, __: Tensor) -> Tensor:
    return 0.5 + 0.25 * (torch.sin(_TURN * x) + torch.sin(_TURN * y))


def _stripes(x: Tensor, _: Tensor, __: Tensor, ___: Tensor) -> Tensor:
    return torch.sigmoid(4 * torch.sin(_TURN * x))


def _checks(x: Tensor, y: Tensor, _: Tensor, __: Tensor) -> Tensor:
    return torch.sigmoid(8 * torch.sin(_TURN * x) * torch.sin(_TURN * y))


def _noise(x: Tensor, y: Tensor, _: Tensor, seed: Tensor) -> Tensor:
    total, weight, scale = torch.zeros_like(x), 0.5, 1.0
    for octave in range(3):
        u, v = x * scale, y * scale
        i, j = u.floor(), v.floor()
        fu, fv = u - i, v - j
        su, sv = fu * fu * (3 - 2 * fu), fv * fv * (3 - 2 * fv)
        i, j = i.long(), j.long()
        top = lattice(i, j, seed + octave) * (1 - su) + lattice(i + 1, j, seed + octave) * su
        low = (
            lattice(i, j + 1, seed + octave) * (1 - su) + lattice(i + 1, j + 1, seed + octave) * su
        )
        total = total + weight * (top * (1 - sv) + low * sv)
        weight, scale = weight * 0.5, scale * 2
    return total / 0.875


def _particles(x: Tensor, y: Tensor, _: Tensor, seed: Tensor) -> Tensor:
    brightest = torch.zeros_like(x)
    u, v = x.floor().long(), y.floor().long()
    for dj in (-1, 0, 1):
        for di in (-1, 0, 1):
            i, j = u + di, v + dj
            size = 0.08 + 0.22 * lattice(i, j, seed + 2)
            dx = (x - (i + lattice(i, j, seed))) / size
            dy = (y - (j + lattice(i, j, seed + 1))) / size
            brightest = torch.maximum(brightest, torch.exp(-0.5 * (dx * dx + dy * dy)))
    return brightest


def _cells(x: Tensor, y: Tensor, _: Tensor, seed: Tensor) -> Tensor:
    """Cells about random points, each of one shade, dark where two meet (Worley 1996)."""
    u, v = x.floor().long(), y.floor().long()
    nearest, next_nearest = torch.full_like(x, 9.0), torch.full_like(x, 9.0)
    shade = torch.zeros_like(x)
    for dj in (-1, 0, 1):
        for di in (-1, 0, 1):
            i, j = u + di, v + dj
            dx = x - (i + 0.15 + 0.7 * lattice(i, j, seed))
            dy = y - (j + 0.15 + 0.7 * lattice(i, j, seed + 1))
            distance = (dx * dx + dy * dy).sqrt()
            nearer = distance < nearest
            next_nearest = torch.where(nearer, nearest, torch.minimum(next_nearest, distance))
            shade = torch.where(nearer, lattice(i, j, seed + 2), shade)
            nearest = torch.where(nearer, distance, nearest)
    gap = 8 * (next_nearest - nearest)
    return (0.4 + 0.6 * shade) * (1 - torch.exp(-gap * gap))


def _text(x: Tensor, y: Tensor, wavelength: Tensor, seed: Tensor) -> Tensor:
    """Lines of glyphs: blocks of 1/8 line, smoothed over one texture pixel."""
    u, v = 8 * x - 0.5, 8 * y - 0.5
    i, j = u.floor(), v.floor()
    sharpness = (wavelength / 8).clamp_min(1)
    fu = ((u - i - 0.5) * sharpness + 0.5).clamp(0, 1)
    fv = ((v - j - 0.5) * sharpness + 0.5).clamp(0, 1)
    i, j = i.long(), j.long()
    top = _inked(i, j, seed) * (1 - fu) + _inked(i + 1, j, seed) * fu
    low = _inked(i, j + 1, seed) * (1 - fu) + _inked(i + 1, j + 1, seed) * fu
    return top * (1 - fv) + low * fv


_PATTERNS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "gradient": _gradient,
    "stripes": _stripes,
    "checks": _checks,
    "noise": _noise,
    "particles": _particles,
    "cells": _cells,
    "text": _text,
}


def _inked(i: Tensor, j: Tensor, seed: Tensor) -> Tensor:
    """Whether blocks (i, j) are inked: glyphs of 3 x 5 random ones, each in 4 x 8, some blank."""
    glyph = hashed((i >> 2) + hashed((j >> 3) + hashed(seed)))
    column, row = i & 3, j & 7
    bit = (glyph >> (row * 3 + column)) & 1
    return (bit * ((column < 3) & (row < 5) & ((glyph >> 24) % 6 > 0))).float()


def hashed(value: Tensor) -> Tensor:
    """Return a hash after PCG (O'Neill 2014), int64 holding 0..2^32 - 1."""
    state = ((value & _UINT32) * 747796405 + 2891336453) & _UINT32
    word = (((state >> ((state >> 28) + 4)) ^ state) * 277803737) & _UINT32
    return (word >> 22) ^ word


def lattice(i: Tensor, j: Tensor, seed: Tensor) -> Tensor:
    """Return a random number in 0..1 for each lattice point (i, j) of whole numbers."""
    return hashed(i + hashed(j + hashed(seed))).float() * (1.0 / 4294967296.0)
