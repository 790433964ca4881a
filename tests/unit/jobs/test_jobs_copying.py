"""Snapshots and new folders: whole or not at all, and never over what is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainsmith.errors import UserError
from trainsmith.jobs import JobError, init, load, snapshot, start_files
from trainsmith.records import Task

MakeJob = Callable[..., Path]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_snapshot_is_the_job(make_job: MakeJob, task: Task, tmp_path: Path) -> None:
    """Fault: the copy that is trained is another job than the folder that was written."""
    folder = make_job({"environment/last_word/__pycache__/x.pyc": "", "GUIDE.md": "", "README.md": "x"})
    digests = snapshot(folder, tmp_path / "runs" / "copy")
    assert load(tmp_path / "runs" / "copy", task) == load(folder, task)
    assert digests == load(folder, task).files
    assert sorted(_files(tmp_path / "runs" / "copy")) == [
        "README.md",
        "environment/last_word/__init__.py",
        "rl.toml",
    ]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["copy"]


def test_a_snapshot_does_not_follow_its_origin(make_job: MakeJob, tmp_path: Path) -> None:
    """Fault: the copy shares files with a folder that its author still writes to."""
    folder = make_job()
    snapshot(folder, tmp_path / "copy")
    before = _files(tmp_path / "copy")
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("r+b") as file:
                file.write(b"####")
    assert _files(tmp_path / "copy") == before


def test_copied_files_cannot_be_run(make_job: MakeJob, tmp_path: Path) -> None:
    """Fault: set-uid or executable bits of the author's files survive."""
    folder = make_job()
    (folder / "rl.toml").chmod(0o6777)
    snapshot(folder, tmp_path / "copy")
    assert (tmp_path / "copy" / "rl.toml").stat().st_mode & 0o7111 == 0


def test_a_snapshot_of_a_bad_folder_leaves_nothing(make_job: MakeJob, tmp_path: Path) -> None:
    """Fault: a link is copied, or half a folder stays behind."""
    folder = make_job()
    (folder / "environment/last_word/passwd").symlink_to("/etc/passwd")
    with pytest.raises(JobError, match="is a symbolic link"):
        snapshot(folder, tmp_path / "runs" / "copy")
    assert not (tmp_path / "runs").exists()


def test_a_snapshot_never_replaces(make_job: MakeJob, tmp_path: Path) -> None:
    """Fault: a second snapshot changes the files of a job that is being trained."""
    folder = make_job()
    snapshot(folder, tmp_path / "copy")
    (folder / "rl.toml").write_text("changed")
    with pytest.raises(UserError, match="exists already"):
        snapshot(folder, tmp_path / "copy")
    assert (tmp_path / "copy" / "rl.toml").read_text() != "changed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "job"]


def test_empty_starts_with_nothing(task: Task, tmp_path: Path) -> None:
    """Fault: `empty` leaves files that an agent has to understand first."""
    assert init(tmp_path / "new" / "job", task, "empty") == ()
    assert list((tmp_path / "new" / "job").iterdir()) == []


def test_the_skeleton_does_not_pass_and_says_why(task: Task, tmp_path: Path) -> None:
    """Fault: a skeleton that passes earns reward for nothing; one with a syntax error teaches nothing."""
    assert init(tmp_path / "job", task, "skeleton") == ("environment/last_word/__init__.py", "rl.toml")
    with pytest.raises(JobError) as caught:
        load(tmp_path / "job", task)
    assert [problem.where for problem in caught.value.problems] == [
        "rl.toml: max_steps",
        "rl.toml: model.name",
        "rl.toml: orchestrator.group_size",
    ]
    compile((tmp_path / "job/environment/last_word/__init__.py").read_text(), "skeleton", "exec")


def test_the_skeleton_passes_when_its_gaps_are_filled(task: Task, tmp_path: Path) -> None:
    """Fault: what the skeleton suggests is refused once its lines are filled in."""
    init(tmp_path / "job", task, "skeleton")
    path = tmp_path / "job" / "rl.toml"
    text = path.read_text()
    for gap, filled in {
        "# max_steps = ": "max_steps = 20",
        "# name = ": 'name = "smollm2-135m"',
        "# group_size = ": "group_size = 8",
        "# lr = ": "lr = 1e-5",
    }.items():
        assert gap in text
        text = text.replace(gap, f"{filled}  # ", 1)
    path.write_text(text)
    assert load(tmp_path / "job", task).config.trainer.optim.lr == 1e-5


@pytest.mark.parametrize("kind", ["class", "9 Lives!", "json"])
def test_the_skeletons_package_can_always_be_imported(task: Task, kind: str) -> None:
    """Fault: the kind's name gives a package that is no identifier or hides a module."""
    files = start_files(task.model_copy(update={"kind": kind}), "skeleton")
    package = files[1].path.split("/")[1]
    assert package.isidentifier()


def test_an_existing_empty_folder_is_filled(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: `job init .` replaces the folder that the user's shell stands in."""
    monkeypatch.chdir(tmp_path)
    inode = tmp_path.stat().st_ino
    init(Path(), task, "skeleton")
    assert (tmp_path / "rl.toml").exists()
    assert tmp_path.stat().st_ino == inode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["environment", "rl.toml"]


@pytest.mark.parametrize("start", ["empty", "skeleton"])
def test_a_used_folder_is_refused_untouched(task: Task, tmp_path: Path, start: str) -> None:
    """Fault: `job init` writes over a job."""
    (tmp_path / "rl.toml").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        init(tmp_path, task, start)
    assert _files(tmp_path) == {"rl.toml": b"mine"}


def test_a_file_in_the_way_is_refused(task: Task, tmp_path: Path) -> None:
    """Fault: a file of that name ends in a traceback."""
    (tmp_path / "job").write_text("x")
    with pytest.raises(UserError, match="is a file"):
        init(tmp_path / "job", task, "skeleton")
    with pytest.raises(UserError, match="cannot be written"):
        init(tmp_path / "job" / "deeper", task, "skeleton")


def test_an_unknown_start_is_refused(task: Task, tmp_path: Path) -> None:
    """Fault: a slip in --start makes an empty folder."""
    with pytest.raises(UserError, match="there is no start 'skelton'"):
        init(tmp_path / "job", task, "skelton")
    assert not (tmp_path / "job").exists()


def test_nothing_stays_when_the_last_step_fails(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: Ctrl-C in the middle leaves half a job in the user's folder."""
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == "rl.toml":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    (tmp_path / "job").mkdir()
    with pytest.raises(KeyboardInterrupt):
        init(tmp_path / "job", task, "skeleton")
    assert list((tmp_path / "job").iterdir()) == []
