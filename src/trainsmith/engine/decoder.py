"""The forward pass over a packed tree of tokens: for prefill and for training.

Shapes: T packed tokens, D hidden, H query heads, G key-value heads, K head dimension.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.device import reduced_factors
from trainsmith.engine.network import Network, NetworkLayer
from trainsmith.engine.packed_input import PackedInput
from trainsmith.engine.rotary import rotate

RECOMPUTE_TOKENS = 1536
"""A longer training row keeps one hidden state a layer and recomputes the rest, 1.3 MB a token in float32."""
GPU_RECOMPUTE_TOKENS = 4096
"""The same on a GPU."""

Cache = tuple[Tensor, Tensor]
"""Keys and values, [L, T, G, K] each, or one layer of them."""


def forward_packed(
    network: Network,
    a: Architecture,
    packed: PackedInput,
    x: Tensor,
    cache: Cache | None = None,
    past: Cache | None = None,
) -> Tensor:
    """Hidden states [T, D] before the final norm, from embedded tokens x [T, D].

    Fills the cache if given. `past` are the keys and values [L, C, G, K] of the tokens before the tree.
    """
    most = RECOMPUTE_TOKENS if x.device.type == "cpu" else GPU_RECOMPUTE_TOKENS
    recompute = x.requires_grad and len(x) > most
    for index, layer in enumerate(network.layers):
        if recompute:
            x = checkpoint(_layer, layer, a, packed, x, None, None, network.reduced, use_reentrant=False)
        else:
            kept = (_of_layer(cache, index), _of_layer(past, index))
            x = _layer(layer, a, packed, x, *kept, network.reduced)
    return x


def _of_layer(cache: Cache | None, layer: int) -> Cache | None:
    return None if cache is None else (cache[0][layer], cache[1][layer])


def _layer(
    layer: NetworkLayer,
    a: Architecture,
    packed: PackedInput,
    x: Tensor,
    cache: Cache | None,
    past: Cache | None,
    reduced: bool,
) -> Tensor:
    q, k, v = project_qkv(layer, a, x, packed.cos_T1K, packed.sin_T1K)
    if cache is not None:
        cache[0].copy_(k)
        cache[1].copy_(v)
    if past is not None:
        k, v = torch.cat((past[0], k)), torch.cat((past[1], v))
    attended = (
        _attend(q, k, v, packed) if packed.end_T is None else _attend_tree(q, k, v, packed.end_T, reduced)
    )
    x = x + layer.output(attended)
    return x + mlp(layer, a, x)


def project_qkv(
    layer: NetworkLayer, a: Architecture, x: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries [T, H, K], rotated keys [T, G, K] and values [T, G, K], all float32."""
    normed = F.rms_norm(x, (a.hidden,), layer.input_norm, a.norm_epsilon)
    qkv = layer.qkv(normed).float().view(len(x), a.heads + 2 * a.kv_heads, a.head_dim)
    if layer.query_norm is not None and layer.key_norm is not None:
        q, k, v = torch.split(qkv, [a.heads, a.kv_heads, a.kv_heads], dim=1)
        q = F.rms_norm(q, (a.head_dim,), layer.query_norm, a.norm_epsilon)
        k = F.rms_norm(k, (a.head_dim,), layer.key_norm, a.norm_epsilon)
        return rotate(q, cos, sin), rotate(k, cos, sin), v
    qk, v = torch.split(qkv, [a.heads + a.kv_heads, a.kv_heads], dim=1)
    q, k = torch.split(rotate(qk, cos, sin), [a.heads, a.kv_heads], dim=1)
    return q, k, v


def mlp(layer: NetworkLayer, a: Architecture, x: Tensor) -> Tensor:
    """The gated MLP of the normed input, [T, D]."""
    normed = F.rms_norm(x, (a.hidden,), layer.mlp_norm, a.norm_epsilon)
    gated: Tensor = _GatedSilu.apply(layer.gate_up(normed))  # type: ignore[no-untyped-call]
    return layer.down(gated)


class _GatedSilu(torch.autograd.Function):
    """silu(gate) * up of a stacked [T, 2 I]. Keeps its input alone, and builds the gradient in one piece."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        gate, up = gate_up.chunk(2, dim=-1)
        gradient = torch.empty_like(gate_up)
        by_gate, by_up = gradient.chunk(2, dim=-1)
        torch.mul(gradients[0], F.silu(gate), out=by_up)
        by_gate.copy_(torch.ops.aten.silu_backward(gradients[0] * up, gate))
        return gradient


def final_norm(network: Network, a: Architecture, hidden: Tensor) -> Tensor:
    """What the head reads, from hidden states [N, D]."""
    return F.rms_norm(hidden, (a.hidden,), network.norm, a.norm_epsilon)


def logits_of(network: Network, normed: Tensor) -> Tensor:
    """Logits [N, V] of normed hidden states [N, D], accumulated and kept in float32.

    Logits rounded to bfloat16 would tie the best tokens with each other, so the head never is; only the
    factors of its product may be, when the layers' are.
    """
    if not network.reduced:
        return F.linear(normed, network.head)
    with reduced_factors(network.head.device):
        return F.linear(normed, network.head)


def _attend(q_THK: Tensor, k_TGK: Tensor, v_TGK: Tensor, packed: PackedInput) -> Tensor:
    """Attention of every block, concatenated to [T, H * K].

    Keys are gathered once and split, since the gradient of many slices would be as many tensors of full size.
    """
    q = torch.split(q_THK.transpose(0, 1)[None], packed.query_sizes, dim=2)
    k, v = (
        torch.split(x.index_select(0, packed.keys_S).transpose(0, 1)[None], packed.key_sizes, dim=2)
        for x in (k_TGK, v_TGK)
    )
    outputs = [
        F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )
        for queries, keys, values, mask in zip(q, k, v, packed.masks, strict=True)
    ]
    return torch.cat(outputs, dim=2)[0].transpose(0, 1).flatten(1)


def _attend_tree(q_THK: Tensor, k_TGK: Tensor, v_TGK: Tensor, end_T: Tensor, reduced: bool) -> Tensor:
    """Attention [T, H * K] by one kernel; where matrices are in bfloat16, so are its factors."""
    from trainsmith.engine.cuda.kernels.tree_attention import tree_attention

    if reduced:
        q_THK, k_TGK, v_TGK = q_THK.bfloat16(), k_TGK.bfloat16(), v_TGK.bfloat16()
    return tree_attention(q_THK, k_TGK, v_TGK, end_T)
