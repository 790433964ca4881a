"""One decode step on the device, from the rows' newest tokens to their next ones, without the host.

Shapes: B rows (padding included), J jobs, Z parts of a row's prompt attention.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.cuda.arena import Arena
from trainsmith.engine.cuda.kernels.choose import choose
from trainsmith.engine.cuda.kernels.decode_attention import AttentionShape, Parts, decode_attention
from trainsmith.engine.cuda.kernels.normalise import add_norm, gated_silu
from trainsmith.engine.cuda.row_table import RowTable
from trainsmith.engine.decoder import logits_of
from trainsmith.engine.network import Network, NetworkLayer
from trainsmith.engine.projections import Plain, Projection


@dataclass(frozen=True, slots=True)
class StepSize:
    """What a captured step is captured for."""

    rows: int
    jobs: int
    parts: int


class DecodeStep:
    """The decoder over static tables and caches."""

    def __init__(self, network: Network, a: Architecture, angles: tuple[Tensor, Tensor]) -> None:
        self._network, self._a, self._angles = network, a, angles
        self.shape = AttentionShape(a.heads, a.kv_heads, a.head_dim, a.norm_epsilon)

    @torch.no_grad()
    def run(self, table: RowTable, arena: Arena, size: StepSize) -> None:
        """Cache the newest token of the first rows of the table and sample the next."""
        network, a = self._network, self._a
        rows = table.decode_rows(size.rows, size.jobs)
        x = F.embedding(table.tokens(size.rows), network.embedding)
        parts = Parts(
            x.new_empty(size.parts, size.rows, a.heads, a.head_dim),
            x.new_empty(size.parts, size.rows, a.heads),
        )
        y = None
        for layer, keys, values in zip(network.layers, arena.keys, arena.values, strict=True):
            normed = add_norm(x, y, layer.input_norm, a.norm_epsilon, _input_type(layer.qkv))
            attended = decode_attention(
                layer.qkv(normed),
                _head_norms(layer),
                self._angles,
                rows,
                (keys, values),
                parts,
                self.shape,
                _input_type(layer.output),
            )
            normed = add_norm(
                x, layer.output(attended), layer.mlp_norm, a.norm_epsilon, _input_type(layer.gate_up)
            )
            y = layer.down(gated_silu(layer.gate_up(normed), _input_type(layer.down)))
        normed = add_norm(x, y, network.norm, a.norm_epsilon, torch.float32)
        everyone = table.everyone(size.rows)
        choose(logits_of(network, normed), everyone, everyone, table.drawing())


def _head_norms(layer: NetworkLayer) -> tuple[Tensor, Tensor] | None:
    if layer.query_norm is None or layer.key_norm is None:
        return None
    return layer.query_norm, layer.key_norm


def _input_type(projection: Projection) -> torch.dtype:
    """The type that the projection's product rounds its input to anyway."""
    return projection.matrix.dtype if isinstance(projection, Plain) else torch.float32
