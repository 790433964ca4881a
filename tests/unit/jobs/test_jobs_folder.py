"""The folder itself: layout, limits, links, special files, and what is left out."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from trainsmith.errors import UserError
from trainsmith.jobs import JobError, load
from trainsmith.jobs.limits import MAX_BYTES, MAX_DEPTH, MAX_FILES
from trainsmith.jobs.tree import read_tree
from trainsmith.records import Task

MakeJob = Callable[..., Path]
PACKAGE = "environment/last_word"


def _problem(folder: Path, task: Task) -> str:
    with pytest.raises(JobError) as caught:
        load(folder, task)
    assert len(caught.value.problems) == 1, str(caught.value)
    return str(caught.value)


def test_a_valid_job_loads(make_job: MakeJob, task: Task) -> None:
    """Fault: a correct job is refused, or its package, base or files are read wrongly."""
    job = load(make_job({f"{PACKAGE}/data/words.txt": "a\n"}), task)
    assert (job.package, job.base) == ("last_word", "smollm2-135m")
    assert [file.path for file in job.files] == [
        f"{PACKAGE}/__init__.py",
        f"{PACKAGE}/data/words.txt",
        "rl.toml",
    ]
    assert type(job).model_validate_json(job.model_dump_json()) == job


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"rl.toml": None}, "rl.toml: is missing. Fix: write it: "),
        (
            {f"{PACKAGE}/__init__.py": None},
            "environment: there is no package. Fix: write environment/<package>/",
        ),
        ({f"{PACKAGE}/__init__.py": None, f"{PACKAGE}/a.py": ""}, f"{PACKAGE}/__init__.py: is missing"),
        ({"environment/other/__init__.py": ""}, "environment: holds 2 folders (last_word, other)"),
        (
            {"environment/helper.py": ""},
            "environment/helper.py: stands beside the package. Fix: move it into",
        ),
        (
            {"data/train.jsonl": ""},
            "data/train.jsonl: is outside environment/, where no environment can read it",
        ),
        ({"train.py": ""}, "train.py: is outside environment/"),
        (
            {f"{PACKAGE}/.secret": ""},
            f"{PACKAGE}/.secret: the name is hidden (begins with a dot). Fix: rename it",
        ),
        ({f"{PACKAGE}/a\nb.py": ""}, "'environment/last_word/a\\nb.py': the name has control characters"),
        ({f"{PACKAGE}/a ": ""}, "the name has control characters or outer spaces"),
        ({f"{PACKAGE}/{'n' * 101}": ""}, "is longer than 100 characters"),
        (
            {f"{PACKAGE}/" + "d/" * MAX_DEPTH + "f": ""},
            f"is deeper than {MAX_DEPTH} names. Fix: use fewer levels",
        ),
        (
            {f"{PACKAGE}/big.bin": b"x" * (MAX_BYTES + 1)},
            f"big.bin: has {MAX_BYTES + 1} bytes; a job may have",
        ),
    ],
)
def test_one_mistake_of_layout_gives_one_line(
    make_job: MakeJob, task: Task, changed: dict[str, str | None], line: str
) -> None:
    """Fault: a file that the environment will not find, or that hides another, is found out at training."""
    assert line in _problem(make_job(changed), task)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("my-env", "is not a Python identifier"),
        ("1env", "is not a Python identifier"),
        ("class", "is not a Python identifier"),
        ("MyEnv", "has capitals"),
        ("json", "hides the Python module"),
        ("verifiers", "hides the Python module"),
        ("trainsmith", "hides the Python module"),
        ("textarena", "is the name of a taskset that verifiers brings itself"),
    ],
)
def test_a_package_may_not_hide_a_module(
    make_job: MakeJob, task: Task, rl_toml: str, name: str, why: str
) -> None:
    """Fault: environment/json breaks every import of the worker; environment/textarena is never loaded."""
    changed = {
        f"{PACKAGE}/__init__.py": None,
        f"environment/{name}/__init__.py": "",
        "rl.toml": rl_toml.replace("last_word", name),
    }
    assert f"environment/{name}: the name {why}" in _problem(make_job(changed), task)


def test_links_and_special_files_are_refused(make_job: MakeJob, task: Task) -> None:
    """Fault: a link takes a file of the machine into the job, or a fifo blocks the controller for ever."""
    folder = make_job()
    package = folder / PACKAGE
    (package / "passwd").symlink_to("/etc/passwd")
    (package / "root").symlink_to("/", target_is_directory=True)
    (package / "dangling").symlink_to("nowhere")
    os.mkfifo(package / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(package / "socket"))
        with pytest.raises(JobError) as caught:
            load(folder, task)
    lines = [str(problem) for problem in caught.value.problems]
    assert lines == [
        f"{PACKAGE}/dangling: is a symbolic link. Fix: put the file itself there",
        f"{PACKAGE}/passwd: is a symbolic link. Fix: put the file itself there",
        f"{PACKAGE}/pipe: is not a regular file. Fix: remove it",
        f"{PACKAGE}/root: is a symbolic link. Fix: put the file itself there",
        f"{PACKAGE}/socket: is not a regular file. Fix: remove it",
    ]


@pytest.mark.parametrize("path", ["rl.toml", "environment"])
def test_linked_parts_are_refused_without_more_ado(
    make_job: MakeJob, task: Task, tmp_path: Path, path: str
) -> None:
    """Fault: rl.toml or environment/ itself is a link, and "is missing" sends the author astray."""
    folder = make_job()
    (folder / path).rename(tmp_path / "elsewhere")
    (folder / path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JobError) as caught:
        load(folder, task)
    assert str(caught.value.problems[0]) == f"{path}: is a symbolic link. Fix: put the file itself there"


def test_too_many_files_are_not_read(make_job: MakeJob, task: Task) -> None:
    """Fault: ten thousand files are read, hashed and listed one by one in the report."""
    folder = make_job()
    for index in range(10_000):
        (folder / PACKAGE / f"{index}.txt").touch()
    assert _problem(folder, task).startswith(f"the job folder: has more than {MAX_FILES} files. Fix: ")


def test_too_many_files_do_not_hide_other_mistakes(make_job: MakeJob, task: Task, rl_toml: str) -> None:
    """Fault: rl.toml is not looked at, or is called missing, once the folder is too full."""
    spread = {f"{PACKAGE}/{index}.txt": "" for index in range(MAX_FILES)}
    with pytest.raises(JobError) as caught:
        load(make_job({**spread, "rl.toml": rl_toml.replace("= 40", "= 400")}), task)
    assert [problem.where for problem in caught.value.problems] == ["the job folder", "rl.toml: max_steps"]


def test_the_file_limit_counts_all_folders(make_job: MakeJob, task: Task) -> None:
    """Fault: files spread over folders pass, though there are more than the limit."""
    spread = {f"{PACKAGE}/{index % 7}/{index}.txt": "" for index in range(MAX_FILES - 1)}
    assert f"has more than {MAX_FILES} files" in _problem(make_job(spread), task)


def test_exactly_the_limits_pass(make_job: MakeJob, task: Task, rl_toml: str) -> None:
    """Fault: an off-by-one in the limits, which the workspace also holds to."""
    changed: dict[str, str | bytes] = {f"{PACKAGE}/{index}.txt": "" for index in range(MAX_FILES - 3)}
    rest = len(rl_toml) + len("from last_word.rewards import best\n")
    job = load(make_job({**changed, f"{PACKAGE}/data.bin": b"x" * (MAX_BYTES - rest)}), task)
    assert len(job.files) == MAX_FILES
    assert sum(file.size for file in job.files) == MAX_BYTES


def test_a_huge_file_is_not_read(make_job: MakeJob, task: Task) -> None:
    """Fault: a 200 MB (here: sparse, 200 GB) file is read into the controller."""
    folder = make_job()
    with (folder / PACKAGE / "data.bin").open("wb") as file:
        file.truncate(200 * 10**9)
    assert "data.bin: has 200000000000 bytes" in _problem(folder, task)


def test_many_middling_files_are_too_much_together(make_job: MakeJob, task: Task) -> None:
    """Fault: only single files are limited."""
    data = {f"{PACKAGE}/{index}.bin": b"x" * (MAX_BYTES // 4) for index in range(5)}
    assert f"the job folder: has more than {MAX_BYTES} bytes" in _problem(make_job(data), task)


def test_what_tools_drop_is_no_part_of_the_job(make_job: MakeJob, task: Task) -> None:
    """Fault: importing the package once, or the guide of another version, changes the job's identity."""
    before = load(make_job(), task)
    droppings = {
        f"{PACKAGE}/__pycache__/x.pyc": b"\x00" * (MAX_BYTES + 1),
        ".git/config": "",
        "GUIDE.md": "the guide",
        f"{PACKAGE}/.DS_Store": "",
    }
    assert load(make_job(droppings), task) == before


def test_notes_are_a_part_of_the_job(make_job: MakeJob, task: Task) -> None:
    """Fault: an author's README is refused, or is dropped in silence."""
    assert "README.md" in {file.path for file in load(make_job({"README.md": "x"}), task).files}


@pytest.mark.parametrize(("make", "what"), [("missing", "no such folder"), ("file", "is a file")])
def test_no_folder_is_the_users_mistake(tmp_path: Path, task: Task, make: str, what: str) -> None:
    """Fault: `job run TYPO` ends in a traceback, or is scored as an author's failure."""
    path = tmp_path / "x"
    if make == "file":
        path.write_text("")
    with pytest.raises(UserError, match=what):
        load(path, task)


def test_a_file_that_vanishes_is_told(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a file removed between the listing and the look voids the episode as a fault of the machine."""
    folder = make_job({f"{PACKAGE}/gone.txt": ""})
    scandir = os.scandir

    def listed_then_removed(descriptor: int) -> object:
        entries = list(scandir(descriptor))
        if any(entry.name == "gone.txt" for entry in entries):
            (folder / PACKAGE / "gone.txt").unlink()
        return _Entries(entries)

    monkeypatch.setattr(os, "scandir", listed_then_removed)
    problems = read_tree(folder).problems
    assert [str(problem) for problem in problems if "gone" in problem.where] == [
        f"{PACKAGE}/gone.txt: changed while it was read. Fix: try again when nothing writes to the folder"
    ]


class _Entries(list):  # type: ignore[type-arg]
    """A list that can be used as os.scandir's context manager."""

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        return None
