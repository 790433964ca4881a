"""The workspace: reading, writing, editing, freezing within its limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.episode import names
from trainsmith.episode.edits import replace_once
from trainsmith.episode.names import WorkspaceError
from trainsmith.episode.nearest import nearest_line
from trainsmith.episode.workspace import MAX_FILE_BYTES, Workspace
from trainsmith.errors import MachineError
from trainsmith.jobs.limits import MAX_BYTES, MAX_DIRECTORIES, MAX_FILES

TOML = "max_steps = 40\nseq_len = 192\n\n[trainer.optim]\nlr = 1e-6\nweight_decay = 0.01\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.create(tmp_path / "workspace", "# Guide\n") as opened:
        yield opened


def test_write_read_list_freeze(workspace: Workspace) -> None:
    """Fault: what an agent writes is not what is listed, read back or probed."""
    workspace.write("./environment/my_env/__init__.py", "x = 'ä'\r\n")
    workspace.write("rl.toml", TOML)
    listed = {entry.path: (entry.size, entry.read_only) for entry in workspace.files()}
    assert listed == {
        "GUIDE.md": (8, True),
        "environment/my_env/__init__.py": (10, False),
        "rl.toml": (len(TOML), False),
    }
    assert workspace.read("environment/my_env/__init__.py") == "x = 'ä'\r\n"
    assert dict(workspace.freeze().files) == {
        "environment/my_env/__init__.py": "x = 'ä'\r\n".encode(),
        "rl.toml": TOML.encode(),
    }


def test_drafts_never_show(workspace: Workspace, tmp_path: Path) -> None:
    """Fault: an interrupted write leaves a half file in the job or litter beside it."""
    workspace.write("rl.toml", TOML)
    workspace.write("rl.toml", "max_steps = 1\n")
    assert [path.name for path in tmp_path.iterdir()] == ["workspace"]
    assert sorted(path.name for path in (tmp_path / "workspace").iterdir()) == ["GUIDE.md", "rl.toml"]


def test_fingerprint_is_of_paths_and_contents_alone(workspace: Workspace, tmp_path: Path) -> None:
    """Fault: the same files get another fingerprint (a probe is lost), or other files the same one."""
    workspace.write("rl.toml", "a")
    first = workspace.freeze().fingerprint
    workspace.write("rl.toml", "b")
    assert workspace.freeze().fingerprint != first
    workspace.edit("rl.toml", "b", "a")
    assert workspace.freeze().fingerprint == first
    with Workspace.create(tmp_path / "other", "another guide") as other:
        other.write("rl.toml", "a")
        assert other.freeze().fingerprint == first
        other.write("notes.md", "")
        assert other.freeze().fingerprint != first


def test_frozen_job_replaces_what_an_interrupted_try_left(workspace: Workspace, tmp_path: Path) -> None:
    """Fault: a stale file of a killed try is probed with the job."""
    stale = tmp_path / "validations" / "1" / "environment" / "old"
    stale.mkdir(parents=True)
    workspace.write("rl.toml", TOML)
    workspace.freeze().write(tmp_path / "validations" / "1")
    assert [path.name for path in (tmp_path / "validations" / "1").iterdir()] == ["rl.toml"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "/etc/passwd",
        "../rl.toml",
        "environment/../../rl.toml",
        "environment/my_env/..",
        "environment//x.py",
        "environment/my_env/",
        "environment\\my_env\\x.py",
        "-rf.md",
        ".hidden.md",
        "a\nb.md",
        "a\0b.md",
        "a\x7fb.md",
        "a\u202eb.md",
        "a b.md",
        "ä.md",
        "\ud800.md",
        "n" * 101 + ".md",
        "environment/a/b/c/d/e/f.py",
        "environment/my_env/__pycache__/x.py",
        "environment/my_env/GUIDE.md",
        "~/x.md",
    ],
)
def test_odd_paths_are_refused(workspace: Workspace, tmp_path: Path, path: str) -> None:
    """Fault: a path leads outside, hides a file from the job's hash, or breaks what reads the folder."""
    for action in (lambda: workspace.write(path, "x"), lambda: workspace.read(path)):
        with pytest.raises(WorkspaceError) as caught:
            action()
        assert str(caught.value).isprintable()
        assert caught.value.fix
    assert [path.name for path in tmp_path.iterdir()] == ["workspace"]
    assert [entry.path for entry in workspace.files()] == ["GUIDE.md"]


@given(st.text(max_size=30) | st.from_regex(r"[a-z./\\-]{1,20}", fullmatch=True))
def test_split_gives_plain_names_or_refuses(path: str) -> None:
    """Fault: some text gets through as a path with a parent, an empty or an unprintable part."""
    try:
        parts = names.split(path)
    except WorkspaceError:
        return
    assert 1 <= len(parts) <= names.MAX_DEPTH
    assert "/".join(parts) == path.removeprefix("./")
    assert all(
        part.isascii() and part.isprintable() and part[0] not in ".-" and "/" not in part for part in parts
    )


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("GUIDE.md", "read-only"),
        ("train.py", "no place"),
        ("data/items.json", "no place"),
        ("environment/my_env.py", "one package and nothing else"),
        ("environment/json/__init__.py", "hides the Python module"),
        ("environment/My_Env/__init__.py", "capitals"),
    ],
)
def test_files_that_no_job_can_hold_are_refused(workspace: Workspace, path: str, what: str) -> None:
    """Fault: a misplaced file fails every validation, and no tool can remove it again."""
    with pytest.raises(WorkspaceError, match=what):
        workspace.write(path, "x")


def test_second_package_is_refused(workspace: Workspace) -> None:
    """Fault: two packages fail every validation, and no tool can remove one again."""
    workspace.write("environment/my_env/__init__.py", "")
    with pytest.raises(WorkspaceError, match="environment/my_env/ is there"):
        workspace.write("environment/other/__init__.py", "")


def test_limits_of_size_and_count(workspace: Workspace) -> None:
    """Fault: an agent fills the disk, or a full workspace cannot even be mended."""
    with pytest.raises(WorkspaceError, match="1000001 bytes"):
        workspace.write("notes.md", "x" * (MAX_FILE_BYTES + 1))
    for number in range(MAX_BYTES // MAX_FILE_BYTES):
        workspace.write(f"notes{number}.md", "x" * MAX_FILE_BYTES)
    with pytest.raises(WorkspaceError, match="at most 100 of 5000000"):
        workspace.write("rl.toml", "x")
    for number in range(MAX_BYTES // MAX_FILE_BYTES):
        workspace.write(f"notes{number}.md", "")
    for number in range(MAX_FILES - MAX_BYTES // MAX_FILE_BYTES):
        workspace.write(f"environment/my_env/m{number}.py", "")
    with pytest.raises(WorkspaceError, match="at most 100 files"):
        workspace.write("rl.toml", "x")
    workspace.write("notes0.md", "still writable")
    assert len(workspace.files()) == MAX_FILES + 1


def test_folders_are_counted_too(workspace: Workspace) -> None:
    """Fault: an agent makes so many folders that its workspace can be neither listed nor mended."""
    package = "environment/my_env"
    for number in range(MAX_DIRECTORIES - 2):
        workspace.write(f"{package}/d{number}/x.py", "")
    with pytest.raises(WorkspaceError, match="at most 100 folders"):
        workspace.write(f"{package}/more/x.py", "")
    for number in range(2):
        workspace.write(f"{package}/m{number}.py", "")
    assert len(workspace.files()) == MAX_FILES + 1
    assert len(workspace.freeze().files) == MAX_FILES


def test_large_files_are_measured_in_bytes(workspace: Workspace) -> None:
    """Fault: characters are counted, so that four times the limit gets in."""
    with pytest.raises(WorkspaceError, match="1200000 bytes"):
        workspace.write("notes.md", "😀" * 300_000)


@pytest.mark.parametrize("content", ["\ud800", "a\0b"])
def test_content_must_be_text(workspace: Workspace, content: str) -> None:
    """Fault: a lone surrogate of a model's JSON raises UnicodeEncodeError in the run."""
    with pytest.raises(WorkspaceError):
        workspace.write("rl.toml", content)


def test_missing_file_names_the_nearest(workspace: Workspace) -> None:
    """Fault: an agent that misspells a path is not told the right one."""
    workspace.write("environment/my_env/__init__.py", "")
    with pytest.raises(WorkspaceError, match=r"did you mean environment/my_env/__init__\.py"):
        workspace.read("environment/myenv/__init__.py")


def test_folder_is_no_file(workspace: Workspace) -> None:
    """Fault: reading or writing a folder is a machine's fault and voids the episode."""
    workspace.write("environment/my_env/data.md/x.py", "")
    with pytest.raises(WorkspaceError, match="folder"):
        workspace.read("environment/my_env/data.md")
    with pytest.raises(WorkspaceError, match="folder"):
        workspace.write("environment/my_env/data.md", "x")
    with pytest.raises(WorkspaceError, match="no plain file or folder"):
        workspace.write("environment/my_env/data.md/x.py/y.py", "x")


def test_edit_reports_its_line(workspace: Workspace) -> None:
    """Fault: an edit lands elsewhere than told."""
    workspace.write("rl.toml", TOML)
    assert workspace.edit("rl.toml", "lr = 1e-6", "lr = 3e-5")[1] == 5
    assert workspace.read("rl.toml") == TOML.replace("1e-6", "3e-5")


@pytest.mark.parametrize(
    ("old", "what", "fix"),
    [
        ("lr = 1e-5", "not in the file", "nearest line is 5: `lr = 1e-6`"),
        ("[trainer.optim]\nlr = 1e-4\n", "not in the file", "nearest line is 5: `lr = 1e-6`"),
        ("learning_rate", "not in the file", "nearest line is"),
        (" = ", "stands in 4 places (lines 1, 2, 5, 6)", "more of the text"),
        ("", "empty", "write_file"),
        ("seq_len = 192", "same", "change"),
    ],
)
def test_edits_that_cannot_be_made(workspace: Workspace, old: str, what: str, fix: str) -> None:
    """Fault: "old text not found" leaves the agent in the dark (54 of 240 episodes in the facts)."""
    workspace.write("rl.toml", TOML)
    with pytest.raises(WorkspaceError) as caught:
        workspace.edit("rl.toml", old, "seq_len = 192")
    assert what in caught.value.what
    assert fix in caught.value.fix
    assert workspace.read("rl.toml") == TOML


def test_guide_cannot_be_edited(workspace: Workspace) -> None:
    """Fault: an agent changes what it is told."""
    with pytest.raises(WorkspaceError, match="read-only"):
        workspace.edit("GUIDE.md", "Guide", "Lie")


def test_overlapping_places_are_ambiguous() -> None:
    """Fault: "aa" in "aaa" is taken for one place."""
    with pytest.raises(WorkspaceError, match="2 places"):
        replace_once("a.md", "aaa", "aa", "b")


def test_nearest_line_is_bounded() -> None:
    """Fault: a megabyte of look-alike lines blocks the run for minutes."""
    content = "\n".join("a" * 300 + str(number) for number in range(3_000))
    assert nearest_line(content, "a" * 1_000) is not None
    assert nearest_line("", "x") is None


@given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=4), st.text("abc", max_size=3))
def test_replace_once_replaces_the_only_place(content: str, old: str, new: str) -> None:
    """Fault: an edit changes more or less than the one place."""
    starts = [at for at in range(len(content) + 1) if old and content.startswith(old, at)]
    if len(starts) == 1 and old != new:
        edit = replace_once("a.md", content, old, new)
        assert edit.content == content[: starts[0]] + new + content[starts[0] + len(old) :]
        assert edit.line == content[: starts[0]].count("\n") + 1
    else:
        with pytest.raises(WorkspaceError):
            replace_once("a.md", content, old, new)


def test_directory_must_be_new(tmp_path: Path) -> None:
    """Fault: an episode writes into the files of another."""
    Workspace.create(tmp_path / "w", "x").close()
    with pytest.raises(MachineError):
        Workspace.create(tmp_path / "w", "x")
