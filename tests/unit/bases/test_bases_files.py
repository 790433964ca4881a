"""Model files must survive the way through the cache bit by bit, and damage must show."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from trainsmith.bases.gguf_conversion import _unpermute
from trainsmith.bases.layers import drop_layers
from trainsmith.bases.manifest import is_whole, write_manifest
from trainsmith.bases.safetensors_file import RawTensor, read_specs, read_tensors, write_safetensors
from trainsmith.errors import UserError


def test_written_files_are_read_by_safetensors_itself(tmp_path):
    """Guards against a header or an offset that other readers refuse."""
    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array([1.5], dtype=np.float16)}
    names = {"b": "F32", "a": "F16"}
    write_safetensors(
        tmp_path / "x",
        {key: RawTensor(value.shape, names[key], value.tobytes()) for key, value in arrays.items()},
    )
    for key, value in load_file(tmp_path / "x").items():
        assert (value == arrays[key]).all() and value.dtype == arrays[key].dtype


def test_safetensors_own_files_are_read(tmp_path):
    """Guards against a reader that knows only its own writer."""
    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array([1.5], dtype=np.float16)}
    save_file(arrays, tmp_path / "x")
    assert {spec.name: (spec.shape, spec.dtype) for spec in read_specs(tmp_path / "x")} == {
        "a": ((1,), "F16"),
        "b": ((2, 3), "F32"),
    }
    assert {name: tensor.data for name, tensor in read_tensors(tmp_path / "x")} == {
        name: array.tobytes() for name, array in arrays.items()
    }


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0[]", b"\x04\0\0\0\0\0\0\0null"])
def test_rubbish_is_named_as_such(tmp_path, content):
    """Guards against a struct or JSON error, or gigabytes read for a header."""
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UserError, match="not a safetensors file"):
        read_specs(tmp_path / "x")


def test_a_file_cut_short_is_named(tmp_path):
    """Guards against a tensor that is silently shorter than its shape."""
    write_safetensors(tmp_path / "x", {"a": RawTensor((4,), "F32", b"\0" * 16)})
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:-3])
    with pytest.raises(UserError, match="cut short"):
        list(read_tensors(tmp_path / "x"))


def test_unpermute_undoes_the_gguf_writers_permutation():
    """Guards against queries and keys whose rotary halves are interleaved."""
    weight = np.random.default_rng(0).random((4 * 8, 5)).astype(np.float32)
    permuted = weight.reshape(4, 2, 4, 5).swapaxes(1, 2).reshape(32, 5)
    assert (_unpermute(permuted, 4) == weight).all()


def model_directory(directory, layers=4):
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"num_hidden_layers": layers, "hidden_size": 2}))
    (directory / "tokenizer.json").write_text("{}")
    arrays = {"model.norm.weight": np.full(2, -1, dtype=np.float32)}
    arrays |= {
        f"model.layers.{i}.mlp.down_proj.weight": np.full((2, 2), i, dtype=np.float32) for i in range(layers)
    }
    save_file(arrays, directory / "model.safetensors")
    return directory


def test_dropped_layers_leave_the_others_in_order(tmp_path):
    """Guards against a dropped layer's weights under another layer's name."""
    source, target = model_directory(tmp_path / "source"), tmp_path / "target"
    target.mkdir()
    drop_layers(source, target, (1,))
    tensors = load_file(target / "model.safetensors")
    assert [float(tensors[f"model.layers.{i}.mlp.down_proj.weight"][0, 0]) for i in range(3)] == [0, 2, 3]
    assert "model.norm.weight" in tensors and len(tensors) == 4
    assert json.loads((target / "config.json").read_text())["num_hidden_layers"] == 3
    assert (target / "tokenizer.json").exists()


@pytest.mark.parametrize("dropped", [(4,), (0, 1, 2, 3), (-1,)])
def test_layers_that_are_not_there_cannot_be_dropped(tmp_path, dropped):
    """Guards against a model without layers, or one that keeps the layer it should lose."""
    (tmp_path / "target").mkdir()
    with pytest.raises(UserError, match="drop"):
        drop_layers(model_directory(tmp_path / "source"), tmp_path / "target", dropped)


def damage_same_size(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: (d / "model.safetensors").unlink(),
        lambda d: (d / "model.safetensors").write_bytes(b"short"),
        lambda d: damage_same_size(d / "model.safetensors"),
        lambda d: (d / "manifest.json").unlink(),
        lambda d: (d / "manifest.json").write_text("{"),
    ],
)
def test_damage_shows(tmp_path, damage):
    """Guards against training on a file that was cut or changed."""
    directory = model_directory(tmp_path / "model")
    write_manifest(directory)
    assert is_whole(directory)
    damage(directory)
    assert not is_whole(directory)


def test_a_touched_or_copied_model_is_still_whole(tmp_path):
    """Guards against fetching 100 MB again because a copy has new file times."""
    directory = model_directory(tmp_path / "model")
    write_manifest(directory)
    os.utime(directory / "model.safetensors", (1, 1))
    assert is_whole(directory)
    assert is_whole(directory)
