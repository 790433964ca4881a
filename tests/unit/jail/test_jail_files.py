"""Files that go into a jail: read once, without links, and never written outside their folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.errors import AgentError
from trainsmith.jail import snapshot
from trainsmith.jail.inside.unpack import pack, unpack
from trainsmith.jail.snapshot import File

NAMES = st.text(st.characters(whitelist_categories=["L", "N"]), min_size=1, max_size=8)


def test_a_snapshot_leaves_out_links_pipes_and_caches(tmp_path):
    """Guards against a link that brings a secret along, and a pipe that blocks the reader."""
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "environment"
    (folder / "pkg" / "__pycache__").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("x = 1\n")
    (folder / "pkg" / "__pycache__" / "a.pyc").write_text("cache")
    (folder / "link.py").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    assert snapshot.read(folder).files == (File("pkg/__init__.py", b"x = 1\n"),)


def test_a_folder_that_is_too_large_is_the_authors_mistake(tmp_path):
    """Guards against a job that fills the memory of the trusted side."""
    (tmp_path / "data").write_bytes(bytes(11))
    with pytest.raises(AgentError, match="MiB"):
        snapshot.read(tmp_path, max_bytes=10)


def test_too_many_files_are_the_authors_mistake(tmp_path):
    """Guards against ten thousand small files."""
    for place in range(4):
        (tmp_path / str(place)).write_text("")
    with pytest.raises(AgentError, match="3 files"):
        snapshot.read(tmp_path, max_files=3)


@given(
    st.dictionaries(st.lists(NAMES, min_size=1, max_size=2).map("/".join), st.binary(max_size=50), max_size=5)
)
def test_packed_files_come_out_as_they_went_in(tmp_path_factory, files):
    """Guards against contents that are cut or swapped on the way."""
    if any(f"{one}/" in other + "/" for one in files for other in files if one != other):
        return  # a file and a folder of one name
    folder = tmp_path_factory.mktemp("unpacked")
    unpack(pack(files.items()), folder)
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    assert found == files


@pytest.mark.parametrize("path", ["../planted", "/tmp/planted", "a/../../planted"])
def test_a_path_outside_is_refused(tmp_path, path):
    """Guards against a packed path that leaves its folder."""
    with pytest.raises(ValueError, match="leaves"):
        unpack(pack([(path, b"x")]), tmp_path / "inside")
    assert not Path(tmp_path, "planted").exists()
