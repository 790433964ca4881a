"""The probe with the real base model, on the jobs that trainsmith itself ships: all of them must pass."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainsmith import bases, families, jail, probe
from trainsmith.config.engine import EngineConfig
from trainsmith.engine.chat import ChatTokenizer
from trainsmith.episode import guide
from trainsmith.probe import ProbeServices
from trainsmith.records import ProbeReport, Task
from trainsmith.rollout.policies import LoadedPolicy, Policies

pytestmark = [pytest.mark.component, pytest.mark.slow]

NORMAL_SECONDS = 15.0
"""What a probe of a normal job may take on two idle cores, the start of the model included."""
BUSY = 2
"""How much slower a machine may be that runs other things too."""


@pytest.fixture(scope="module")
def policies() -> Iterator[Policies]:
    opened = Policies(EngineConfig())
    yield opened
    opened.close()


@pytest.fixture
def services(policies: Policies) -> ProbeServices:
    async def tokenizer(base: str) -> ChatTokenizer:
        return ChatTokenizer.load(bases.fetch(base))

    async def policy(base: str) -> LoadedPolicy:
        return await policies.get(base)

    return ProbeServices(jail.choose(), tokenizer, policy, lambda base: bases.get(base).context)


def probed(
    files: tuple[tuple[str, str], ...], task: Task, folder: Path, services: ProbeServices
) -> ProbeReport:
    for path, content in files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    return asyncio.run(probe.run(folder, task, services))


@pytest.mark.parametrize("task_id", families.task_ids())
def test_every_reference_job_passes(task_id: str, services: ProbeServices, tmp_path: Path) -> None:
    """Guards against a check that an honest expert's job fails."""
    task = families.task(task_id)
    files = tuple((file.path, file.content) for file in families.reference_job(task))
    report = probed(files, task, tmp_path, services)
    assert report.passed, report.failures
    print(
        f"{task_id}: {report.seconds:.1f} s; {next(c for c in report.checks if c.name == 'signal').evidence}"
    )
    assert report.seconds < BUSY * NORMAL_SECONDS


@pytest.mark.parametrize("task_id", families.task_ids())
def test_every_working_job_passes(task_id: str, services: ProbeServices, tmp_path: Path) -> None:
    """Guards against a start that small agents cannot submit as it is."""
    task = families.task(task_id)
    files = tuple((file.path, file.content) for file in families.working_job(task))
    report = probed(files, task, tmp_path, services)
    assert report.passed, report.failures


def guide_job(*, several_turns: bool) -> tuple[tuple[str, str], ...]:
    """The guide's example, with its Env for several turns or without."""
    blocks = re.findall(r"```(python|toml)\n(.*?)```", guide.text(), re.DOTALL)
    single, env = [code for language, code in blocks if language == "python"]
    config = next(code for language, code in blocks if language == "toml")
    package = f"{single}\n{env}" if several_turns else single
    return ("rl.toml", config), ("environment/initials/__init__.py", package)


@pytest.mark.parametrize("several_turns", [False, True])
def test_the_guides_examples_pass(several_turns: bool, services: ProbeServices, tmp_path: Path) -> None:
    """Guards against a guide that teaches what the probe refuses."""
    task = families.task("strings/last-word@0")
    report = probed(guide_job(several_turns=several_turns), task, tmp_path, services)
    assert report.passed, report.failures


@pytest.mark.parametrize("name", ["good", "good_game"])
def test_the_sound_fixtures_pass_with_the_model(name: str, services: ProbeServices) -> None:
    """Guards against a signal test that only a script passes."""
    job = Path(__file__).parents[2] / "jobs" / name
    report = asyncio.run(probe.run(job, families.task("strings/last-word@0"), services))
    assert report.passed, report.failures
