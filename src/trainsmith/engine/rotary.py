"""Rotary positions, rotate-half form (RoFormer, arXiv 2104.09864). Plain frequencies only."""

from __future__ import annotations

import torch
from torch import Tensor

from trainsmith.bases.architecture import Architecture


class Rotary:
    """Cosines and sines of every position of the context."""

    def __init__(self, architecture: Architecture, device: str) -> None:
        half = torch.arange(0, architecture.head_dim, 2, dtype=torch.float32)
        inverse = 1.0 / architecture.rope_theta ** (half / architecture.head_dim)
        angles = torch.outer(torch.arange(architecture.context, dtype=torch.float32), inverse)
        cos, sin = angles.cos(), angles.sin()
        self._cos = torch.cat((cos, cos), dim=-1).to(device)
        # The sign of the rotated half is in the sine.
        self._sin = torch.cat((-sin, sin), dim=-1).to(device)

    @property
    def tables(self) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines [context, K] of every position."""
        return self._cos, self._sin

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines [T, 1, K] of positions [T]."""
        return self._cos[positions][:, None], self._sin[positions][:, None]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to x [T, heads, K]."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)
