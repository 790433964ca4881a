"""Bases must be named, pinned and refused by what they are."""

import json
import subprocess
import sys

import pytest

from trainsmith import bases
from trainsmith.bases.base_model import Hf, PypiGguf
from trainsmith.errors import UserError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
    "tie_word_embeddings": True,
}


def write_config(directory, **changes):
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps({**LLAMA, **changes}))
    return directory


def test_built_in_bases_are_pinned_and_differ():
    """Guards against a base whose weights may change under the same revision."""
    assert bases.names() == ("smollm2-135m", "smollm2-135m-28l")
    revisions = {bases.get(name).revision for name in bases.names()}
    assert len(revisions) == 2 and all(len(revision) == 12 for revision in revisions)
    for name in bases.names():
        source = bases.get(name).source
        assert isinstance(source, PypiGguf) and "==" in source.requirement and len(source.sha256) == 64


def test_an_unknown_base_names_the_nearest():
    """Guards against a typo that ends in a download or a bare KeyError."""
    with pytest.raises(UserError, match="smollm2-135m"):
        bases.get("smolm2-135")


def test_hub_bases_carry_their_revision():
    """Guards against two revisions of a hub model sharing one cache entry."""
    base = bases.get("hf:Qwen/Qwen3-0.6B@abc123")
    assert base.source == Hf(repo="Qwen/Qwen3-0.6B", revision="abc123")
    assert base.revision != bases.get("hf:Qwen/Qwen3-0.6B").revision


def test_a_directory_is_a_base_and_its_revision_follows_its_files(tmp_path):
    """Guards against a result being reused after the weights in a directory were replaced."""
    directory = write_config(tmp_path / "model")
    base = bases.get(f"path:{directory}")
    assert base.context == 128
    assert bases.fetch(base.id) == directory
    before = base.revision
    (directory / "model.safetensors").write_bytes(b"other weights")
    assert bases.get(base.id).revision != before


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"model_type": "mixtral"}, "mixtral"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "yarn"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2}}, "linear"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"use_sliding_window": True}, "sliding"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"hidden_size": None}, "not a decoder config"),
    ],
)
def test_unsupported_architectures_are_refused_by_name(tmp_path, changes, fault):
    """Guards against running a model that the engine computes wrongly."""
    with pytest.raises(UserError, match=fault):
        bases.read_architecture(write_config(tmp_path / "model", **changes))


def test_a_directory_without_config_is_refused(tmp_path):
    """Guards against a traceback for a mistyped path."""
    with pytest.raises(UserError, match=r"config\.json"):
        bases.get(f"path:{tmp_path}")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="unreadable"):
        bases.get(f"path:{tmp_path}")


def test_older_configs_mean_the_same(tmp_path):
    """Guards against a wrong rotary base for configs written before transformers 5."""
    old = write_config(tmp_path / "old", rope_parameters=None, rope_theta=5000.0)
    new = write_config(tmp_path / "new")
    assert bases.read_architecture(old) == bases.read_architecture(new)


def test_bases_and_the_engines_records_import_without_torch():
    """Guards against a command line that loads torch to list bases."""
    code = (
        "import sys, trainsmith.bases, trainsmith.engine.records, trainsmith.engine.schedule;"
        "assert not {'torch', 'transformers', 'gguf', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
