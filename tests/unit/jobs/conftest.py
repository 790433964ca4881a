"""A task, a valid job folder, and a generator of valid `rl.toml` documents."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from trainsmith.jobs.toml_text import to_toml
from trainsmith.records import Budget, Task, Tier

RL_TOML = """\
max_steps = 40
seq_len = 192

[model]
name = "smollm2-135m"

[orchestrator]
batch_size = 128
group_size = 16

[orchestrator.train.sampling]
max_completion_tokens = 16

[[orchestrator.train.source]]
[orchestrator.train.source.env.taskset]
id = "last_word"
num_tasks = 512
seed = 1

[trainer.optim]
lr = 3e-5
"""

FILES = {"rl.toml": RL_TOML, "environment/last_word/__init__.py": "from last_word.rewards import best\n"}


@pytest.fixture
def task() -> Task:
    return Task(
        id="strings/last-word@0",
        family="strings",
        kind="last-word",
        seed=0,
        tier=Tier.MICRO,
        brief="Answer with the last word.",
        prefix=(),
        examples=(),
        bases=("smollm2-135m", "smollm2-135m-28l"),
        budget=Budget(train_seconds=150, max_steps=60, max_tokens=2_000_000),
    )


@pytest.fixture
def rl_toml() -> str:
    return RL_TOML


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., Path]:
    """Writes a valid job folder, with files replaced or added; content None leaves a file out."""

    def make(changed: dict[str, str | bytes | None] | None = None) -> Path:
        folder = tmp_path / "job"
        for path, content in {**FILES, **(changed or {})}.items():
            if content is None:
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return make


@pytest.fixture
def edited() -> Callable[[dict[str, object]], str]:
    """The valid rl.toml with values set by dotted path; `source.` is the one source, None leaves out."""

    def edit(changes: dict[str, object]) -> str:
        document = tomllib.loads(RL_TOML)
        for path, value in changes.items():
            if path.startswith("source."):
                table, keys = document["orchestrator"]["train"]["source"][0], path.split(".")[1:]
            else:
                table, keys = document, path.split(".")
            for key in keys[:-1]:
                table = table.setdefault(key, {})
            if value is None:
                del table[keys[-1]]
            else:
                table[keys[-1]] = value
        return to_toml(document)

    return edit
