"""From a job folder to a checked job, or to every problem in it. The author's code is not run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainsmith.jobs.checks import check
from trainsmith.jobs.faults import validate
from trainsmith.jobs.honours import refusals
from trainsmith.jobs.paths import CONFIG, ENVIRONMENT, belongs, package_fault
from trainsmith.jobs.problems import JobError, Problem, at, listed, quote
from trainsmith.jobs.reading import read_toml
from trainsmith.jobs.schema import AuthorConfig
from trainsmith.jobs.tree import FileDigest, Tree, read_tree
from trainsmith.records import Record, Task

_TASKSET = "orchestrator.train.source.env.taskset.id"


class Job(Record):
    """A job folder that may go to the probe."""

    files: tuple[FileDigest, ...]
    """Every file, sorted by path."""
    config: AuthorConfig
    package: str
    """The one package in environment/."""
    base: str
    """Id of the base model."""


def load(directory: Path, task: Task, *, trainer: str = "") -> Job:
    """Read and check the job in a folder; with a trainer named, also whether it can honour every key.

    Raises JobError with all problems at once, UserError if there is no such folder, MachineError if the disk
    cannot be read.
    """
    tree = read_tree(directory)
    problems = [*tree.problems]
    package = ""
    if tree.complete:
        package, found = _package(tree)
        problems += [*_layout(tree), *found]
    config, found = _config(tree, task, package)
    problems += found
    if config is not None and trainer:
        problems += refusals(config, trainer)
    if problems or config is None:
        raise JobError(tuple(dict.fromkeys(problems)))
    return Job(files=tree.digests(), config=config, package=package, base=config.model.name)


def _layout(tree: Tree) -> Iterator[Problem]:
    for path in tree.contents:
        if not belongs(path):
            yield Problem(
                where=path,
                what="is outside environment/, where no environment can read it",
                fix=f"move it into {ENVIRONMENT}/<package>/, or remove it",
            )


def _package(tree: Tree) -> tuple[str, list[Problem]]:
    """The package's name, empty if there is not exactly one."""
    inside = [
        path.removeprefix(f"{ENVIRONMENT}/") for path in tree.contents if path.startswith(f"{ENVIRONMENT}/")
    ]
    problems = [
        Problem(
            where=f"{ENVIRONMENT}/{name}",
            what="stands beside the package",
            fix=f"move it into {ENVIRONMENT}/<package>/: environment/ holds one package and nothing else",
        )
        for name in inside
        if "/" not in name
    ]
    names = sorted({name.partition("/")[0] for name in inside if "/" in name})
    if len(names) != 1:
        problems.append(_not_one(names))
        return "", problems
    return names[0], [*problems, *_package_problems(names[0], inside)]


def _not_one(names: list[str]) -> Problem:
    if names:
        shown = ", ".join(names[:5])
        return Problem(
            where=ENVIRONMENT,
            what=f"holds {len(names)} folders ({shown})",
            fix="put all code into one package",
        )
    return Problem(
        where=ENVIRONMENT,
        what="there is no package",
        fix=f"write {ENVIRONMENT}/<package>/__init__.py with a verifiers Taskset",
    )


def _package_problems(name: str, inside: list[str]) -> Iterator[Problem]:
    if fault := package_fault(name):
        yield Problem(
            where=f"{ENVIRONMENT}/{name}", what=f"the name {fault}", fix="rename the folder and taskset.id"
        )
    if f"{name}/__init__.py" not in inside:
        yield Problem(
            where=f"{ENVIRONMENT}/{name}/__init__.py",
            what="is missing",
            fix="write it, with __all__ naming the one Taskset",
        )


def _config(tree: Tree, task: Task, package: str) -> tuple[AuthorConfig | None, list[Problem]]:
    content = tree.contents.get(CONFIG)
    if content is None:
        told = not tree.complete or any(problem.where == CONFIG for problem in tree.problems)
        missing = Problem(
            where=CONFIG, what="is missing", fix="write it: max_steps, [model], [orchestrator], ..."
        )
        return None, [] if told else [missing]
    try:
        document = read_toml(content)
    except JobError as error:
        return None, list(error.problems)
    config, problems, bad = validate(document, _hints(task, package))
    if config is None:
        return None, list(problems)
    return config, [*problems, *check(config, task, bad), *_taskset(config, package, bad)]


def _hints(task: Task, package: str) -> dict[str, str]:
    hints = {
        "max_steps": f"set it, to at most {task.budget.max_steps}",
        "model.name": f"set it to {listed(task.bases)}",
    }
    return {**hints, _TASKSET: f'set it to "{package}"'} if package else hints


def _taskset(config: AuthorConfig, package: str, bad: frozenset[str]) -> Iterator[Problem]:
    """The one source must name the one package."""
    sources = config.orchestrator.train.source
    if len(sources) != 1 or not package or any(f"{_TASKSET}.".startswith(f"{path}.") for path in bad):
        return
    given = sources[0].env.taskset.id
    if given != package:
        yield at(_TASKSET, f"{quote(given)} is not the package in environment/", f'set it to "{package}"')
