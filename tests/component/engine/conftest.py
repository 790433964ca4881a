"""Tiny random models of every supported family, written as Hugging Face directories."""

import json

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"head_dim": 16}),
    "llama-biases": (
        LlamaConfig,
        LlamaForCausalLM,
        {"head_dim": 16, "attention_bias": True, "mlp_bias": True},
    ),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 24}),
}
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rope_theta": 5000.0,
    "bos_token_id": 257,
    "eos_token_id": 258,
    "pad_token_id": 258,
}
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] }}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_tokenizer(directory):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"})
    )


def write_model(directory, kind="llama", tied=True, seed=0, vocabulary=300, shards="5GB", context=None):
    """The transformers model in float32, as written to the directory."""
    config_class, model_class, extra = KINDS[kind]
    torch.manual_seed(seed)
    sizes = SIZES if context is None else SIZES | {"max_position_embeddings": context}
    config = config_class(**sizes, **extra, vocab_size=vocabulary, tie_word_embeddings=tied)
    model = model_class(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Large enough for peaked distributions; norms and biases off their defaults.
            parameter.add_(torch.randn_like(parameter) * (0.15 if "norm" in name or "bias" in name else 0.08))
    model.save_pretrained(directory, max_shard_size=shards)
    write_tokenizer(directory)
    return model


@pytest.fixture
def tiny(tmp_path):
    """Call with a kind, tied or not, and a seed: (directory, the transformers model in float32)."""

    def make(kind="llama", tied=True, seed=0, vocabulary=300, shards="5GB"):
        directory = tmp_path / f"{kind}-{tied}-{seed}"
        return directory, write_model(directory, kind, tied, seed, vocabulary, shards)

    return make


@pytest.fixture(scope="session")
def write_tiny():
    """Call with a directory and what `write_model` takes."""
    return write_model
