"""The byte-level BPE tokenizer of a GGUF file as Hugging Face's tokenizer.json.

Covers the `smollm` pre-tokeniser: every digit alone, then GPT-2's split.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from trainsmith.bases.gguf_metadata import Metadata
from trainsmith.errors import MachineError

_CONTROL = 3
"""llama.cpp's token type of control tokens."""


def write_tokenizer(metadata: Metadata, directory: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    kind = (metadata.text("tokenizer.ggml.model"), metadata.text("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise MachineError(f"tokenizer {kind} is not supported", where="GGUF conversion")
    tokens = metadata.texts("tokenizer.ggml.tokens")
    types = metadata.integers("tokenizer.ggml.token_type")
    control = [token for token, type_ in zip(tokens, types, strict=True) if type_ == _CONTROL]
    _tokenizer(tokens, metadata.texts("tokenizer.ggml.merges"), control).save(
        str(directory / "tokenizer.json")
    )
    template = metadata.text("tokenizer.chat_template")
    (directory / "chat_template.jinja").write_text(template, encoding="utf-8")
    special = {
        f"{name}_token": tokens[metadata.integer(f"tokenizer.ggml.{key}_token_id")]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
    }
    config = {
        **special,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata.integer("llama.context_length"),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def _tokenizer(tokens: list[str], merges: list[str], control: list[str]) -> Tokenizer:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    pairs = [(left, right) for left, right in (merge.split(" ", 1) for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    split = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer
