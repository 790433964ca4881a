"""Packages that cannot be opened: one clear line with its place and a fix. All are opened at once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from trainsmith.jail.border import EnvironmentFailed, Reason, TimeLimits, open_environment
from trainsmith.jail.limits import JailLimits

pytestmark = pytest.mark.component

ENVIRONMENTS = Path(__file__).parents[2] / "environments"
HEAD = "import verifiers.v1 as vf\n\n\n"
TASK = """class OneTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def fine(self, trace: vf.Trace) -> float:
        return 1.0


"""
TASKSET = """class Ones(vf.Taskset[OneTask, vf.TasksetConfig]):
    def load(self):
        yield OneTask(vf.TaskData(prompt="hi"), self.config.task)
"""
EXPORT = '\n\n__all__ = ["Ones"]\n'
TOOLSETS = """
    @classmethod
    def toolsets(cls, config):
        return [vf.Toolset(vf.ToolsetConfig())]
"""
OWN_MODEL = """

class Config(vf.EnvConfig):
    judge: vf.AgentConfig = vf.AgentConfig(model="big")


class Judged(vf.Env[Config]):
    async def run(self, task, agents):
        await agents.judge.run(task)


__all__ = ["Judged", "Ones"]
"""
SOURCES = {
    "syntax": "def broken(:\n",
    "missing_module": "import no_such_module_anywhere\n",
    "no_taskset": "__all__ = []\n",
    "tools": HEAD + TASK + TASKSET + TOOLSETS + EXPORT,
    "container": HEAD + TASK + TASKSET.replace('"hi"', '"hi", image="debian"') + EXPORT,
    "own_model": HEAD + TASK + TASKSET + OWN_MODEL,
    "hides_score": HEAD + TASK.replace("fine", "score") + TASKSET + EXPORT,
    "prints": "for _ in range(256):\n    print('x' * (1 << 20))\nraise ValueError('printed')\n",
    "numpy": "",
    "no_all": HEAD + TASK + TASKSET,
    "long_prompt": HEAD + TASK + TASKSET.replace('"hi"', '"hi" * 1_000_000') + EXPORT,
}
LOADS = ("nothing", "exit", "os_exit", "block", "bomb", "leave_child", "raise", "memory", "junk")
ENDLESS = ("block", "bomb")
EXPECTED = {
    "syntax": (Reason.IMPORT_FAILED, "SyntaxError", "environment/syntax/__init__.py:1"),
    "missing_module": (
        Reason.IMPORT_FAILED,
        "no_such_module_anywhere",
        "environment/missing_module/__init__.py:1",
    ),
    "no_taskset": (Reason.BAD_PACKAGE, "exports no Taskset", ""),
    "tools": (Reason.REFUSED, "Toolsets", ""),
    "container": (Reason.REFUSED, "container", ""),
    "own_model": (Reason.REFUSED, "judge", ""),
    "hides_score": (Reason.BAD_PACKAGE, "hides", ""),
    "prints": (Reason.IMPORT_FAILED, "printed", "environment/prints/__init__.py:3"),
    "bad_arguments": (Reason.BAD_ARGUMENTS, "no_such_key", "no_such_key"),
    "nothing": (Reason.NO_TASKS, "no task", ""),
    "exit": (Reason.EXITED, "sys.exit(3)", "environment/faults/__init__.py"),
    "os_exit": (Reason.EXITED, "ends its own process", ""),
    "block": (Reason.HUNG, "not loaded after", "while True:"),
    "bomb": (Reason.FORKED, "processes", ""),
    "leave_child": (Reason.FORKED, "leaves processes", ""),
}
MORE = {
    "numpy": (Reason.BAD_PACKAGE, "is taken", ""),
    "no_all": (Reason.BAD_PACKAGE, "__all__", ""),
    "long_prompt": (Reason.TOO_LARGE, "2000000 characters", ""),
    "raise": (Reason.LOAD_FAILED, "division by zero", "environment/faults/__init__.py"),
    "memory": (Reason.MEMORY, "memory", "environment/faults/__init__.py"),
    "junk": (Reason.PROTOCOL, "protocol", ""),
}


async def fail(folder: Path, package: str, arguments: str, jail, seconds: float = 30.0) -> EnvironmentFailed:
    times, limits = TimeLimits(open_seconds=seconds), JailLimits(processes=48)
    with pytest.raises(EnvironmentFailed) as caught:
        async with open_environment(folder, package, arguments, jail=jail, times=times, limits=limits) as env:
            await env.tasks(0, 1)
    return caught.value


def open_all(names, folder: Path, jail) -> dict[str, EnvironmentFailed]:
    """Open packages, four at a time; every one must fail."""
    room = asyncio.Semaphore(4)

    async def one(name: str) -> EnvironmentFailed:
        async with room:
            if name in SOURCES:
                (folder / name).mkdir()
                (folder / name / "__init__.py").write_text(SOURCES[name])
                return await fail(folder, name, "{}", jail)
            if name in LOADS:
                seconds = 4.0 if name in ENDLESS else 30.0
                return await fail(ENVIRONMENTS, "faults", json.dumps({"at_load": name}), jail, seconds)
            return await fail(ENVIRONMENTS, "arith", '{"no_such_key": 1}', jail)

    async def everything() -> list[EnvironmentFailed]:
        return list(await asyncio.gather(*map(one, names)))

    return dict(zip(names, asyncio.run(everything()), strict=True))


@pytest.fixture(scope="module")
def failures(bubblewrap, tmp_path_factory) -> dict[str, EnvironmentFailed]:
    return open_all(EXPECTED, tmp_path_factory.mktemp("packages"), bubblewrap)


@pytest.fixture(scope="module")
def more_failures(bubblewrap, tmp_path_factory) -> dict[str, EnvironmentFailed]:
    return open_all(MORE, tmp_path_factory.mktemp("packages"), bubblewrap)


def check(failure: EnvironmentFailed, expected: tuple[Reason, str, str]) -> None:
    reason, said, where = expected
    assert failure.reason is reason
    assert said in failure.what and where in failure.where
    assert failure.fix and "\n" not in str(failure) and len(str(failure)) < 1500


@pytest.mark.parametrize("name", EXPECTED)
def test_a_package_that_cannot_be_used_says_why(failures, name):
    """Guards against a crash, a hang or a riddle where the author needs a reason, a place and a fix."""
    check(failures[name], EXPECTED[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_more_packages_that_cannot_be_used(more_failures, name):
    """Guards against the same for rarer mistakes."""
    check(more_failures[name], MORE[name])


@pytest.mark.parametrize(
    ("package", "arguments", "reason"),
    [
        ("absent", "{}", Reason.BAD_PACKAGE),
        ("../arith", "{}", Reason.BAD_PACKAGE),
        ("arith", "[1]", Reason.BAD_ARGUMENTS),
        ("arith", "{", Reason.BAD_ARGUMENTS),
    ],
)
def test_what_needs_no_jail_is_refused_before_one_starts(bubblewrap, package, arguments, reason):
    """Guards against a jail started for nothing, and a package name that leaves its folder."""
    assert asyncio.run(fail(ENVIRONMENTS, package, arguments, bubblewrap)).reason is reason
