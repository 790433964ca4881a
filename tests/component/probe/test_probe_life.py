"""How a probe begins and ends: what it asks for, what it leaves behind, whose fault is whose."""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass

import psutil
import pytest

from trainsmith import jail, probe
from trainsmith.config.probe import ProbeConfig
from trainsmith.errors import MachineError, UserError
from trainsmith.records import Verdict

pytestmark = pytest.mark.component


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def test_the_model_is_asked_for_only_when_the_rest_passes(bench) -> None:
    """Guards against loading a model for a job that a cheap check refuses."""
    report = asyncio.run(probe.run(bench.job("tasks_ten"), bench.task(), bench.services()))
    assert bench.policy is None
    assert {c.name for c in report.checks if c.verdict is Verdict.SKIP} == {"signal", "model_beats_junk"}
    assert [c.name for c in report.checks] == ["folder", *(planned.name for planned in probe.CHECKS)]


def test_one_probe_tells_of_rl_toml_and_of_the_environment(bench, tmp_path) -> None:
    """Guards against an agent that spends one probe a fault."""
    job = tmp_path / "job"
    shutil.copytree(bench.job("reward_nan"), job)
    with (job / "rl.toml").open("a") as file:
        file.write("\n[trainer.optim]\nlearning_rate = 1.0\n")
    report = asyncio.run(probe.run(job, bench.task(), bench.services()))
    assert {check.name for check in report.failures} == {"folder", "rewards_are_numbers"}


def test_cancelling_ends_the_jail(bench) -> None:
    """Guards against jailed processes that outlive an interrupted probe."""

    before = children()

    async def interrupted() -> float:
        task = asyncio.create_task(
            probe.run(
                bench.job("scoring_waits"), bench.task(), bench.services(limits=ProbeConfig(reply_seconds=60))
            )
        )
        while not any(
            "trainsmith_worker" in " ".join(p.cmdline()) for p in children() - before if p.is_running()
        ):
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(interrupted()) < 3
    assert children() - before == set()


def test_a_machine_that_is_far_too_slow_is_no_fault_of_the_job(bench) -> None:
    """Guards against a busy machine that costs an agent its probe."""
    before = children()
    limits = ProbeConfig(total_seconds=0.5)
    with pytest.raises(MachineError, match="the probe took more than"):
        asyncio.run(probe.run(bench.job("good"), bench.task(), bench.services(limits=limits)))
    assert children() - before == set()


@dataclass(frozen=True)
class BrokenJail:
    """A jail that cannot be built on this machine."""

    sound: jail.Jail

    @property
    def kind(self) -> jail.JailKind:
        return self.sound.kind

    @property
    def own_signals(self) -> bool:
        return self.sound.own_signals

    @property
    def interpreter(self) -> object:
        return self.sound.interpreter

    def start(self, command: jail.Command, **options: object) -> jail.JailProcess:
        raise MachineError("no user namespaces", where="jail", fix="run `trainsmith doctor`")


def test_a_jail_that_cannot_start_is_no_failed_check(bench) -> None:
    """Guards against scoring an agent for a machine's fault."""
    with pytest.raises(MachineError, match="no user namespaces"):
        asyncio.run(probe.run(bench.job("good"), bench.task(), bench.services(jail=BrokenJail(bench.jail))))


def test_no_such_folder(bench, tmp_path) -> None:
    """Guards against a stack trace for a mistyped path."""
    with pytest.raises(UserError, match="no such folder"):
        asyncio.run(probe.run(tmp_path / "none", bench.task(), bench.services()))
