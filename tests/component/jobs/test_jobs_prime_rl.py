"""Completed jobs against prime-rl's own parser, where its configs package can be imported."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainsmith.jobs import Placement, load, resolve
from trainsmith.jobs.toml_text import to_toml
from trainsmith.records import Budget, Task, Tier

pytestmark = pytest.mark.component

ENVIRONMENT = """
import verifiers.v1 as vf


class Row(vf.TaskData):
    answer: str


class Question(vf.Task[Row]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return 1.0


class Config(vf.TasksetConfig):
    num_tasks: int = 10
    words: list[str] = []
    table: dict[str, float] = {}


class Questions(vf.Taskset[Question, Config]):
    def load(self) -> list[Question]:
        return []


__all__ = ["Questions"]
"""

TASK = Task(
    id="strings/last-word@0",
    family="strings",
    kind="last-word",
    seed=0,
    tier=Tier.MICRO,
    brief="",
    prefix=(),
    examples=(),
    bases=("smollm2-135m", "smollm2-135m-28l"),
    budget=Budget(train_seconds=150, max_steps=60, max_tokens=10_000_000),
)

_RATE = st.floats(1e-8, 1.0)
_UNIT = st.floats(0, 0.99)
_LARGE = st.floats(0, 100)


def _table(
    required: dict[str, Any] | None = None, **optional: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required or {}, optional=optional)


_BASE_OPTIM = {"lr": _RATE, "weight_decay": _LARGE, "max_norm": st.just("None") | st.floats(0.01, 9)}
_OPTIM = st.one_of(
    _table(**_BASE_OPTIM, betas1=_UNIT, betas2=_UNIT),
    _table({"type": st.just("sgd")}, **_BASE_OPTIM, momentum=_UNIT, nesterov=st.booleans()),
    _table({"type": st.just("sign_sgd")}, **_BASE_OPTIM),
    _table({"type": st.just("muon")}, **_BASE_OPTIM, mu=_UNIT, betas1=_UNIT, betas2=_UNIT),
)
_SCHEDULE = st.one_of(
    _table(type=st.just("constant")),
    _table(
        {"type": st.just("linear"), "warmup_steps": st.integers(1, 5), "decay_steps": st.integers(0, 5)},
        min_lr=st.floats(0, 1e-8),
    ),
    _table({"type": st.just("cosine"), "warmup_steps": st.integers(0, 9)}, min_lr=st.floats(0, 1e-8)),
)
_TRAINER = _table(
    optim=_OPTIM,
    scheduler=_SCHEDULE,
    loss=_table(dppo_mask_low=_LARGE, dppo_mask_high=_LARGE, adv_tau=_RATE, kl_tau=_LARGE),
    model=_table(lora=_table(rank=st.integers(1, 512), alpha=st.floats(0.1, 64), dropout=_UNIT)),
)
_POOLS = st.just({"a": {"threshold": 0.5, "weight": 1.0}, 'b "c"': {"threshold": 1, "weight": 0}})
_CURRICULUM = _table(
    sampler=st.just({"type": "standard"}) | _table({"type": st.just("difficulty_pool")}, pools=_POOLS),
    gates=st.just({"g": {"type": "advantage_range", "reject_max": 0.1}}),
)
_ENV = _table(
    {
        "taskset": _table(
            {"id": st.just("echo_words")},
            num_tasks=st.integers(-5, 5),
            words=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=3),
            table=st.dictionaries(st.text(st.characters(codec="ascii"), max_size=4), _LARGE, max_size=2),
        )
    },
    agent=_table(
        max_turns=st.integers(1, 9),
        timeout=_table(setup=_RATE, rollout=_RATE, finalize=_RATE, scoring=_RATE),
    ),
)
_SOURCE = _table({"env": _ENV}, name=st.sampled_from(["a", "A-b_c.9"]), ratio=_RATE, curriculum=_CURRICULUM)
_ALGO = st.just({"type": "max_rl"}) | _table(
    length_penalty=_table(
        num_output_tokens_weight=_LARGE, num_input_tokens_weight=_LARGE, num_turns_weight=_LARGE
    )
)
_ORCHESTRATOR = _table(
    {
        "group_size": st.sampled_from([2, 8, 16]),
        "train": _table(
            {"source": _SOURCE.map(lambda source: [source])},
            sampling=_table(temperature=st.floats(0.1, 2), max_completion_tokens=st.integers(1, 63)),
            filter_zero_advantages=st.booleans(),
        ),
    },
    batch_size=st.sampled_from([16, 32, 1024]),
    max_off_policy_steps=st.integers(0, 20),
    algo=_ALGO,
)
DOCUMENTS = _table(
    {
        "max_steps": st.integers(10, 60),
        "model": st.sampled_from([{"name": name} for name in TASK.bases]),
        "orchestrator": _ORCHESTRATOR,
        "trainer": _TRAINER,
    },
    seq_len=st.integers(64, 8192),
    inference=st.just({"vllm": {"max_model_len": 8192}}),
)
SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "job" / "environment" / "echo_words"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(ENVIRONMENT)
    monkeypatch.syspath_prepend(str(tmp_path / "job" / "environment"))
    return tmp_path / "job"


def _subset(part: Any, whole: Any, path: str = "") -> list[str]:
    """Paths at which `whole` does not hold what `part` says."""
    if isinstance(part, dict):
        missing = [f"{path}.{key}" for key in part if key not in whole]
        return missing + [
            line for key in part if key in whole for line in _subset(part[key], whole[key], f"{path}.{key}")
        ]
    if isinstance(part, list) and part and isinstance(part[0], dict):
        return [line for a, b in zip(part, whole, strict=True) for line in _subset(a, b, path)]
    return [] if part == whole else [f"{path}: {part!r} != {whole!r}"]


@SETTINGS
@given(document=DOCUMENTS)
def test_every_valid_job_completes_without_loss(document: dict[str, Any], folder: Path) -> None:
    """Fault: some combination of keys is refused, or one of them is lost or changed by completion."""
    (folder / "rl.toml").write_text(to_toml(document))
    completed = tomllib.loads(resolve(load(folder, TASK), TASK, "r", "prime_rl", 3).toml)
    assert _subset(document, completed) == []


@SETTINGS
@given(document=DOCUMENTS, model=st.sampled_from(["", "/models/smollm2"]), port=st.integers(1024, 60000))
def test_prime_rl_accepts_every_completed_job(
    document: dict[str, Any], model: str, port: int, folder: Path
) -> None:
    """Fault: a job passes the probe, and prime-rl's parser refuses it after the GPU has been rented."""
    configs = pytest.importorskip("prime_rl.configs.rl")
    from pydantic_config import cli  # type: ignore[import-untyped]

    (folder / "rl.toml").write_text(to_toml(document))
    place = Placement(output_dir=str(folder), model=model, server_port=port, environment_address="tcp://h:1")
    job = load(folder, TASK)
    resolved = folder.parent / "resolved.toml"
    resolved.write_text(resolve(job, TASK, "r", "prime_rl", 3, place).toml)
    parsed = cli(configs.RLConfig, args=["@", str(resolved)])

    ours, theirs = job.config, parsed.orchestrator.train.source[0]
    assert parsed.trainer.optim.model_dump() == ours.trainer.optim.model_dump()
    assert parsed.trainer.scheduler.model_dump() == ours.trainer.scheduler.model_dump()
    assert parsed.trainer.loss.model_dump() == ours.trainer.loss.model_dump()
    assert parsed.trainer.model.seq_len == parsed.orchestrator.seq_len == ours.seq_len
    assert parsed.trainer.max_steps == ours.max_steps
    assert parsed.orchestrator.batch_size == ours.orchestrator.batch_size
    assert theirs.group_size == ours.orchestrator.group_size
    assert theirs.algo.type == ours.orchestrator.algo.type
    assert theirs.sampling.temperature == ours.orchestrator.train.sampling.temperature
    assert theirs.sampling.max_completion_tokens == ours.orchestrator.train.sampling.max_completion_tokens
    assert theirs.env.agent.runtime.type == "subprocess"
    assert theirs.env.agent.max_turns == ours.source.env.agent.max_turns
    assert theirs.env.agent.timeout.model_dump() == ours.source.env.agent.timeout.model_dump()
    assert theirs.serve.address == "tcp://h:1"
    assert parsed.orchestrator.renderer.enable_thinking is False
    assert parsed.inference.server.port == port
    assert "echo_words" in sys.modules
