"""A Llama-type GGUF file to a Hugging Face model directory with float16 weights.

The values of a 4-bit file need about 12 bits each; float16 keeps them to one part in 4,096. bfloat16 would
be no smaller, and would put every weight on its own coarse grid: a model that then computes in bfloat16 sees
no training step until a weight has moved half a grid step, which at a learning rate of 3e-5 takes several
steps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from trainsmith.bases.gguf_metadata import Metadata
from trainsmith.bases.gguf_tokenizer import write_tokenizer
from trainsmith.bases.safetensors_file import RawTensor, write_safetensors
from trainsmith.errors import MachineError

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def convert_gguf(gguf_file: Path, directory: Path) -> None:
    """Write config, tokenizer, chat template and `model.safetensors` of a Llama-type GGUF file.

    Raises MachineError for another architecture.
    """
    reader = gguf.GGUFReader(gguf_file)
    metadata = Metadata(reader)
    if metadata.text("general.architecture") != "llama":
        raise MachineError("not a Llama-type GGUF file", where=str(gguf_file))
    tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    _write_json(directory / "config.json", _config(metadata, tied))
    _write_json(directory / "generation_config.json", _generation_config(metadata))
    write_tokenizer(metadata, directory)
    _write_weights(reader, metadata, directory / "model.safetensors")


def _config(metadata: Metadata, tied: bool) -> dict[str, Any]:
    heads = metadata.integer("llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "dtype": "float16",
        "vocab_size": metadata.integer("llama.vocab_size"),
        "hidden_size": metadata.integer("llama.embedding_length"),
        "intermediate_size": metadata.integer("llama.feed_forward_length"),
        "num_hidden_layers": metadata.integer("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.integer("llama.attention.head_count_kv"),
        "head_dim": metadata.integer("llama.embedding_length") // heads,
        "max_position_embeddings": metadata.integer("llama.context_length"),
        "rms_norm_eps": metadata.real("llama.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": metadata.real("llama.rope.freq_base")},
        "rope_theta": metadata.real("llama.rope.freq_base"),
        "tie_word_embeddings": tied,
        "use_cache": True,
        **_special_ids(metadata),
    }


def _special_ids(metadata: Metadata) -> dict[str, int]:
    return {
        "bos_token_id": metadata.integer("tokenizer.ggml.bos_token_id"),
        "eos_token_id": metadata.integer("tokenizer.ggml.eos_token_id"),
        "pad_token_id": metadata.integer("tokenizer.ggml.padding_token_id"),
    }


def _generation_config(metadata: Metadata) -> dict[str, Any]:
    return {"_from_model_config": True, **_special_ids(metadata)}


def _write_weights(reader: gguf.GGUFReader, metadata: Metadata, path: Path) -> None:
    heads = metadata.integer("llama.attention.head_count")
    kv_heads = metadata.integer("llama.attention.head_count_kv")
    tensors = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if ".attn_q." in tensor.name or ".attn_k." in tensor.name:
            values = _unpermute(values, heads if ".attn_q." in tensor.name else kv_heads)
        data = values.astype("<f2")
        if not np.isfinite(data).all():
            raise MachineError(f"{tensor.name} exceeds float16", where="GGUF conversion")
        tensors[_name(tensor.name)] = RawTensor(data.shape, "F16", data.tobytes())
    write_safetensors(path, tensors)


def _name(gguf_name: str) -> str:
    stem = gguf_name.removesuffix(".weight")
    if stem.startswith("blk."):
        _, index, part = stem.split(".", 2)
        return f"model.layers.{index}.{_LAYER_NAMES[part]}.weight"
    return f"{_TOP_NAMES[stem]}.weight"


def _unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """GGUF interleaves the two halves that rotary positions pair; Hugging Face keeps them apart."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
