"""The architecture that a Hugging Face `config.json` describes, as far as the engine can run it.

Covers decoder-only Llama, Qwen2 and Qwen3 with full attention and plain rotary positions. Anything else
(mixtures of experts, sliding windows, scaled rotary positions, quantised weights) is refused by name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from trainsmith.errors import UserError
from trainsmith.records.base import Record

Family = Literal["llama", "qwen2", "qwen3"]


class Architecture(Record):
    """Sizes and switches of a decoder-only transformer."""

    family: Family
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    rope_theta: float
    norm_epsilon: float
    tied_head: bool
    """The output head is the embedding."""
    qkv_bias: bool
    """Bias on the query, key and value projections (Qwen2)."""
    output_bias: bool
    """Bias on the attention output projection as well (Llama's `attention_bias`)."""
    mlp_bias: bool
    query_key_norm: bool
    """RMS norm on each head's queries and keys (Qwen3)."""

    @property
    def cache_bytes(self) -> int:
        """Size of one token's keys and values in float32."""
        return self.layers * self.kv_heads * self.head_dim * 2 * 4


def read_architecture(directory: Path) -> Architecture:
    """The architecture of a Hugging Face model directory. Raises UserError where it is not supported."""
    file = directory / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            "no config.json", where=str(directory), fix="name a Hugging Face model directory"
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"unreadable config: {error}", where=str(file)) from error
    try:
        return _parse(config)
    except UserError as error:
        raise UserError(error.what, where=str(file), fix=error.fix) from error
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"not a decoder config: {error!r}", where=str(file), fix=_SUPPORTED) from error


_SUPPORTED = "use a Llama, Qwen2 or Qwen3 model with full attention and plain rotary positions"


def _parse(config: dict[str, Any]) -> Architecture:
    family = config.get("model_type")
    if family not in ("llama", "qwen2", "qwen3"):
        raise UserError(f"model type {family!r} is not supported", fix=_SUPPORTED)
    _refuse_variants(config)
    heads = int(config["num_attention_heads"])
    hidden = int(config["hidden_size"])
    attention_bias = bool(config.get("attention_bias", False))
    return Architecture(
        family=family,
        layers=int(config["num_hidden_layers"]),
        hidden=hidden,
        intermediate=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        vocabulary=int(config["vocab_size"]),
        context=int(config["max_position_embeddings"]),
        rope_theta=_rope_theta(config),
        norm_epsilon=float(config["rms_norm_eps"]),
        tied_head=bool(config.get("tie_word_embeddings", family == "qwen2")),
        qkv_bias=family == "qwen2" or attention_bias,
        output_bias=family != "qwen2" and attention_bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
        query_key_norm=family == "qwen3",
    )


def _rope_theta(config: dict[str, Any]) -> float:
    """Either form of the key: `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (4)."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise UserError(f"rotary positions of type {kind!r} are not supported", fix=_SUPPORTED)
    return float(rope.get("rope_theta", config.get("rope_theta", 10_000.0)))


def _refuse_variants(config: dict[str, Any]) -> None:
    if config.get("hidden_act", "silu") != "silu":
        raise UserError(f"activation {config['hidden_act']!r} is not supported", fix=_SUPPORTED)
    if config.get("use_sliding_window"):
        raise UserError("sliding-window attention is not supported", fix=_SUPPORTED)
    if config.get("quantization_config"):
        raise UserError("quantised weights are not supported", fix="name the unquantised model")
