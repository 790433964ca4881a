"""The allow-list of weights: every way in which a file is not just trained weights of its base."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from trainsmith.errors import MachineError
from trainsmith.grading.weights import MAX_HEADER_BYTES, Reason, WeightsRejected, check_weights

Tensors = dict[str, np.ndarray]


def tensors() -> Tensors:
    rng = np.random.default_rng(0)
    return {
        "model.embed_tokens.weight": rng.normal(size=(7, 4)).astype(np.float32),
        "model.norm.weight": np.ones(4, dtype=np.float32),
    }


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base directory in two shards."""
    folder = tmp_path / "base"
    folder.mkdir()
    for number, (name, value) in enumerate(tensors().items()):
        save_file({name: value}, folder / f"model-{number}.safetensors")
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trained.safetensors"


def raw_file(header: dict[str, object], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def bf16_file(word: int = 0x3F80) -> bytes:
    """The base's tensors as bfloat16, every number being `word`."""
    header: dict[str, object] = {}
    start = 0
    for name, value in tensors().items():
        end = start + 2 * value.size
        header[name] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [start, end]}
        start = end
    return raw_file(header, word.to_bytes(2, "little") * (start // 2))


def reason(path: Path, base: Path) -> Reason:
    with pytest.raises(WeightsRejected) as caught:
        check_weights(path, base)
    assert "\n" not in str(caught.value)
    assert caught.value.fix
    return caught.value.reason


def test_accepts_trained_weights(path: Path, base: Path) -> None:
    """Guards against refusing honest weights: another precision, other values, other order."""
    save_file(dict(reversed(tensors().items())), path)
    info = check_weights(path, base)
    assert (info.tensors, info.bytes) == (2, path.stat().st_size)
    path.write_bytes(bf16_file())
    assert check_weights(path, base).sha256 != info.sha256


def test_hash_is_of_the_whole_file(path: Path, base: Path) -> None:
    """Guards against two different files that share a hash: it names the model in the records."""
    import hashlib

    save_file(tensors(), path)
    assert check_weights(path, base).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def without(name: str) -> Callable[[Tensors], Tensors]:
    return lambda given_tensors: {key: value for key, value in given_tensors.items() if key != name}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without("model.norm.weight"), Reason.NAMES),
        (lambda t: t | {"lm_head.weight": t["model.norm.weight"]}, Reason.NAMES),
        (lambda t: t | {"model.norm.weight": np.ones(5, dtype=np.float32)}, Reason.SHAPES),
        (lambda t: t | {"model.norm.weight": np.ones((4, 1), dtype=np.float32)}, Reason.SHAPES),
        (lambda t: t | {"model.norm.weight": np.ones(4, dtype=np.float64)}, Reason.DTYPES),
        (lambda t: t | {"model.norm.weight": np.ones(4, dtype=np.int32)}, Reason.DTYPES),
        (
            lambda t: t | {"model.norm.weight": np.array([1, np.nan, 1, 1], dtype=np.float32)},
            Reason.NOT_FINITE,
        ),
        (
            lambda t: t | {"model.norm.weight": np.array([1, 1, 1, -np.inf], dtype=np.float32)},
            Reason.NOT_FINITE,
        ),
    ],
)
def test_refuses_other_tensors(
    path: Path, base: Path, change: Callable[[Tensors], Tensors], expected: Reason
) -> None:
    """Guards against a swapped model, smuggled tensors, and diverged training."""
    save_file(change(tensors()), path)
    assert reason(path, base) is expected


@pytest.mark.parametrize("word", [0x7F80, 0xFF80, 0x7FC0, 0x7F81])
def test_refuses_non_finite_bfloat16(path: Path, base: Path, word: int) -> None:
    """Guards against numpy not knowing bfloat16: infinities and both kinds of NaN are seen in the bits."""
    path.write_bytes(bf16_file(word))
    assert reason(path, base) is Reason.NOT_FINITE


@pytest.mark.parametrize("word", [0x7F7F, 0xFF7F, 0x0001, 0x8000])
def test_accepts_extreme_bfloat16(path: Path, base: Path, word: int) -> None:
    """Guards against taking the largest, a denormal or minus zero for infinity."""
    path.write_bytes(bf16_file(word))
    check_weights(path, base)


def test_refuses_what_is_no_regular_file(path: Path, base: Path, tmp_path: Path) -> None:
    """Guards against reading through a link, and against hanging on a pipe."""
    assert reason(path, base) is Reason.NOT_A_FILE
    real = tmp_path / "real.safetensors"
    save_file(tensors(), real)
    path.symlink_to(real)
    assert reason(path, base) is Reason.NOT_A_FILE
    path.unlink()
    os.mkfifo(path)
    assert reason(path, base) is Reason.NOT_A_FILE
    path.unlink()
    path.mkdir()
    assert reason(path, base) is Reason.NOT_A_FILE


class _Trap:
    """Runs code when unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch trapped",)


def test_never_unpickles(path: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against code execution by a pickle with the right file name."""
    monkeypatch.chdir(tmp_path)
    path.write_bytes(pickle.dumps(_Trap()))
    assert reason(path, base) is Reason.MALFORMED
    assert not (tmp_path / "trapped").exists()


def test_refuses_malformed_files(path: Path, base: Path) -> None:
    """Guards against trailing data, holes, overlaps, truncation, a huge header and an empty file."""
    good = save(tensors())
    hole = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}
    for bad in (b"", good[:-1], good + b"x", (MAX_HEADER_BYTES + 1).to_bytes(8, "little") + good[8:],
                raw_file(hole, bytes(8)), b"\xff" * 64):  # fmt: skip
        path.write_bytes(bad)
        assert reason(path, base) is Reason.MALFORMED


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_are_typed_failures(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Guards against any other exception, whatever bytes of the file are changed."""
    folder = tmp_path_factory.mktemp("fuzz")
    save_file(tensors(), folder / "model.safetensors")
    bytes_ = bytearray(save(tensors()))
    for _ in range(data.draw(st.integers(1, 4))):
        bytes_[data.draw(st.integers(0, len(bytes_) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "trained"
    path.write_bytes(bytes_)
    try:
        check_weights(path, folder)
    except WeightsRejected as error:
        assert error.reason


def test_a_broken_base_is_the_machines_fault(path: Path, tmp_path: Path) -> None:
    """Guards against blaming the author for a damaged cache."""
    save_file(tensors(), path)
    with pytest.raises(MachineError, match="fetch the base model anew"):
        check_weights(path, tmp_path / "absent")
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(MachineError):
        check_weights(path, tmp_path)
