"""Every mistake in rl.toml gets one line that says what, where and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainsmith.jobs import JobError, load
from trainsmith.records import Task

MakeJob = Callable[..., Path]
Edited = Callable[[dict[str, Any]], str]
SOURCE = "orchestrator.train.source"
GROUP, BATCH = "orchestrator.group_size", "orchestrator.batch_size"
SAMPLING = "orchestrator.train.sampling"
POOLS = "source.curriculum.sampler"

# Changes to a valid rl.toml, a part of the one line that they must give, and a part of its fix.
UNKNOWN_KEYS: list[tuple[dict[str, Any], str, str]] = [
    ({"trainer.optim.betas3": 0.9}, "trainer.optim.betas3: is not a known key", "write betas"),
    ({"orchestrator.lr": 1e-5}, "orchestrator.lr: is not a known key", "set trainer.optim.lr"),
    ({"orchestrator.batchsize": 64}, "orchestrator.batchsize: is not a known key", "write batch_size"),
    ({"trainer.optim.learning_rate": 1e-5}, "learning_rate: is not a known key", "write lr"),
    ({"learning_rate": 1e-5}, "learning_rate: is not a known key", "set trainer.optim.lr"),
    (
        {"orchestrator.rollouts_per_example": 8},
        "rollouts_per_example: is not a known key",
        "write group_size",
    ),
    (
        {"orchestrator.zzz": 1},
        "orchestrator.zzz: is not a known key",
        "keys of this table: batch_size, group_size",
    ),
    (
        {"trainer.scheduler.warmup_steps": 2},
        "trainer.scheduler.warmup_steps",
        'set trainer.scheduler.type = "linear"',
    ),
    (
        {"trainer.optim.type": "sgd", "trainer.optim.betas1": 0.9},
        "trainer.optim.betas1",
        'trainer.optim.type = "adamw"',
    ),
    ({"a\nb": 1}, "rl.toml: 'a\\nb': is not a known key", "remove it"),
]
FORBIDDEN_KEYS: list[tuple[dict[str, Any], str, str]] = [
    ({"deployment.num_train_gpus": 2}, "deployment: may not be set: where and how a job runs", "remove it"),
    ({"output_dir": "/tmp"}, "output_dir: may not be set: paths are set by trainsmith", "remove it"),
    ({"inference.server.port": 9}, "inference.server: may not be set: ports and hosts are set", "remove it"),
    (
        {"inference.vllm.dtype": "auto"},
        "inference.vllm.dtype: may not be set: of the sampler only",
        "remove it",
    ),
    (
        {"trainer.model.name": "x"},
        "trainer.model.name: may not be set: the model is named once",
        "set model.name",
    ),
    (
        {"trainer.model.attn": "x"},
        "trainer.model.attn: may not be set: of the trained model only",
        "remove it",
    ),
    ({"trainer.env_vars.A": "b"}, "trainer.env_vars: may not be set: environment variables", "remove it"),
    (
        {"orchestrator.seq_len": 64},
        "orchestrator.seq_len: may not be set",
        "set seq_len at the top of the file",
    ),
    (
        {"orchestrator.renderer.name": "x"},
        "orchestrator.renderer: may not be set: the tokenizer",
        "remove it",
    ),
    ({"orchestrator.eval.interval": 3}, "orchestrator.eval: may not be set: the evaluation is", "remove it"),
    (
        {"trainer.loss.import_path": "x"},
        "import_path: may not be set: custom losses would run your code",
        "remove it",
    ),
    (
        {"source.env.taskset.system_prompt": "/etc/passwd"},
        "files of the machine are not read",
        "in each TaskData",
    ),
    (
        {"source.env.taskset.task.judges": []},
        "task.judges: may not be set: judges need a network",
        "remove it",
    ),
    (
        {"source.env.taskset.task.rewards.r.fn": "os.system"},
        "task.rewards: may not be set: functions",
        "in the env",
    ),
    (
        {"source.env.agent.runtime.type": "docker"},
        "env.agent.runtime: may not be set: the agent's",
        "remove it",
    ),
    ({"source.env.agent.harness.id": "bash"}, "env.agent.harness: may not be set: the agent's", "remove it"),
    (
        {"source.env.agent.sampling.n": 1},
        "env.agent.sampling: may not be set",
        "set orchestrator.train.sampling",
    ),
    ({"source.env.id": "x"}, "env.id: may not be set: the Env of the package", "remove it"),
    (
        {"source.group_size": 8},
        "group_size: may not be set: a job has one source",
        "set orchestrator.group_size",
    ),
    ({"source.serve.address": "tcp://x"}, "serve: may not be set: ports and hosts", "remove it"),
    ({f"{POOLS}.seed": 3}, "sampler.seed: may not be set: seeds of training", "remove it"),
]
FORBIDDEN_VALUES: list[tuple[dict[str, Any], str, str]] = [
    (
        {"trainer.loss.type": "custom"},
        "'custom' is refused: custom losses would run your code",
        'use "default"',
    ),
    ({"trainer.loss.type": "ipo"}, "'ipo' is refused", 'use "default"'),
    (
        {"orchestrator.algo.type": "sft"},
        "'sft' is refused: this algorithm needs another",
        '"grpo" or "max_rl"',
    ),
    ({"source.name": "agg"}, '"agg" is kept for sums over all sources', "use another name"),
]
WRONG_VALUES: list[tuple[dict[str, Any], str, str]] = [
    (
        {"max_steps": "40"},
        "max_steps: '40' is not a whole number of at least 1",
        "give a whole number of at least 1",
    ),
    ({"max_steps": 40.0}, "max_steps: 40.0 is not a whole number", "give a whole number"),
    ({"max_steps": True}, "max_steps: true is not a whole number", "give a whole number"),
    ({"seq_len": 0}, "seq_len: 0 is not a whole number of at least 1", "(default 2048)"),
    ({"trainer.optim.lr": 0}, "trainer.optim.lr: 0 is not a number above 0", "(default 1e-06)"),
    (
        {"trainer.optim.lr": -1e-5},
        "trainer.optim.lr: -1e-05 is not a number above 0",
        "give a number above 0",
    ),
    ({"trainer.optim.max_norm": 0}, "trainer.optim.max_norm: 0 is not a number above 0", "(default 1.0)"),
    ({"trainer.optim.betas2": 1}, "betas2: 1 is not a number of at least 0 and below 1", "(default 0.999)"),
    ({"trainer.optim.type": "adam"}, "trainer.optim.type: 'adam' is not one of its values", '"adamw", "sgd"'),
    ({"trainer.optim.type": ["adamw"]}, "['adamw'] is not one of its values", '"adamw", "sgd"'),
    ({f"{SAMPLING}.temperature": 0}, f"{SAMPLING}.temperature: 0 is not a number above 0", "(default 1.0)"),
    ({"orchestrator.algo.type": "ppo"}, "'ppo' is not one of its values", 'use "grpo" or "max_rl"'),
    ({"orchestrator.algo": 3}, "orchestrator.algo: 3 is not a table", "[orchestrator.algo]"),
    ({"trainer.model.lora": True}, "trainer.model.lora: true is not a table", "[trainer.model.lora]"),
    ({"trainer.model.lora.rank": 1024}, "trainer.model.lora.rank: 1024 is not a whole number", "at most 512"),
    ({"trainer.loss.adv_tau": 0}, "trainer.loss.adv_tau: 0 is not a number above 0", "(default 1.0)"),
    ({"orchestrator.train.filter_zero_advantages": 1}, "1 is not true or false", "(default true)"),
    ({"source.env.agent.max_turns": 0}, "env.agent.max_turns: 0 is not a whole number of at least 1", "give"),
    ({"source.name": "../x"}, "'../x' is not a plain name", "use up to 64 letters"),
    ({"source.curriculum.gates.a": 3}, "curriculum.gates.a: 3 is not a table", "as the table"),
    (
        {"source.curriculum.gates.a.type": "x"},
        "gates.a.type: 'x' is not one of its values",
        '"advantage_range"',
    ),
    ({POOLS: {"type": "difficulty_pool", "pools": {}}}, "sampler.pools: is empty", "name at least one"),
    (
        {POOLS: {"type": "difficulty_pool", "pools": {"optim": {"threshold": 1}}}},
        "sampler.pools.optim.weight: is missing",
        "set it: relative frequency of its tasks",
    ),
]
USELESS: list[tuple[dict[str, Any], str, str]] = [
    ({GROUP: None}, "orchestrator.group_size: is 1 or not set", "set it to 4 or more"),
    ({GROUP: 1}, "every advantage would be 0", "set it to 4 or more, such as 8 or 16"),
    ({GROUP: 2048, BATCH: 2048}, "orchestrator.group_size: 2048 is over 1024", "use 8 or 16"),
    ({BATCH: 100}, "orchestrator.batch_size: 100 is not a multiple of group_size = 16", "use 96 or 112"),
    ({BATCH: 8}, "orchestrator.batch_size: 8 is not a multiple of group_size = 16", "use 16"),
    ({BATCH: 102400}, "4096000 rollouts (batch_size x max_steps) need more than", "use fewer rollouts"),
    (
        {f"{SAMPLING}.max_completion_tokens": 192},
        "192 leaves no room for the prompt in seq_len = 192",
        "make it",
    ),
    ({"inference.vllm.max_model_len": 100}, "max_model_len: 100 is less than seq_len = 192", "set it to 192"),
    (
        {"trainer.scheduler": {"type": "linear", "warmup_steps": 30, "decay_steps": 11}},
        "30 + 11 is more than",
        "40",
    ),
    (
        {"trainer.scheduler": {"type": "linear", "warmup_steps": 0, "decay_steps": 0}},
        "is constant",
        '"constant"',
    ),
    (
        {"trainer.scheduler": {"type": "cosine", "warmup_steps": 40}},
        "40 warm-up steps leave none",
        "less than 40",
    ),
    ({"trainer.scheduler": {"type": "cosine", "min_lr": 1e-4}}, "is above the peak rate", "smaller than lr"),
    (
        {"source.curriculum.gates.a": {"reject_min": 1, "reject_max": 0}},
        "reject_min = 1.0 is above",
        "swap them",
    ),
    (
        {POOLS: {"type": "difficulty_pool", "pools": {"a": {"threshold": 1, "weight": 0}}}},
        "no pool has a weight above 0",
        "give at least one",
    ),
    (
        {POOLS: {"type": "difficulty_pool", "pools": {name: {"threshold": 1, "weight": 1} for name in "ab"}}},
        "two pools have the same threshold",
        "give each its own",
    ),
]
OF_THE_TASK: list[tuple[dict[str, Any], str, str]] = [
    ({"model.name": "smollm2"}, "the task does not offer 'smollm2'", 'use "smollm2-135m" (offered: '),
    ({"model.name": "gpt-5"}, "the task does not offer 'gpt-5'", 'use "smollm2-135m" or "smollm2-135m-28l"'),
    ({"model.name": None}, "model.name: is missing", 'set it to "smollm2-135m" or "smollm2-135m-28l"'),
    ({"model": None}, "model.name: is missing", 'set it to "smollm2-135m" or "smollm2-135m-28l"'),
    ({"max_steps": None}, "max_steps: is missing", "set it, to at most 60"),
    ({"max_steps": 61}, "max_steps: 61 steps are over the task's budget of 60", "use at most 60"),
    ({"source.env.taskset.id": None}, f"{SOURCE}.env.taskset.id: is missing", 'set it to "last_word"'),
    ({"source.env": None}, f"{SOURCE}.env.taskset.id: is missing", 'set it to "last_word"'),
    ({"source.env.taskset.id": "other"}, "taskset.id: 'other' is not the package", 'set it to "last_word"'),
    ({"seq_len": 9000}, "seq_len: 9000 is over the 8192 tokens that smollm2", "use at most 8192"),
]


@pytest.mark.parametrize(
    ("changes", "what", "fix"),
    [*UNKNOWN_KEYS, *FORBIDDEN_KEYS, *FORBIDDEN_VALUES, *WRONG_VALUES, *USELESS, *OF_THE_TASK],
)
def test_one_mistake_gives_one_line(
    make_job: MakeJob, task: Task, edited: Edited, changes: dict[str, Any], what: str, fix: str
) -> None:
    """Fault: a mistake passes, reads as a stack of pydantic errors, or leaves the author without the mend."""
    with pytest.raises(JobError) as caught:
        load(make_job({"rl.toml": edited(changes)}), task)
    line = str(caught.value)
    assert len(caught.value.problems) == 1, line
    assert "\n" not in line
    assert line.startswith("rl.toml: ")
    assert what in line
    assert fix in line.partition(" Fix: ")[2]


def test_all_mistakes_are_told_at_once(make_job: MakeJob, task: Task) -> None:
    """Fault: an agent spends its three probes on three mistakes that were all visible in the first."""
    text = """
    max_steps = 100
    model.name = "smol"
    trainer.optim.lr = "high"
    trainer.foo = 1
    [orchestrator]
    batch_size = 10
    [[orchestrator.train.source]]
    env.taskset.id = "y"
    [trainer.scheduler]
    type = "linear"
    warmup_steps = 200
    """
    with pytest.raises(JobError) as caught:
        load(make_job({"rl.toml": text, "environment/x.py": "", "data.json": "{}"}), task)
    where = {problem.where for problem in caught.value.problems}
    assert where == {
        "data.json",
        "environment/x.py",
        "rl.toml: max_steps",
        "rl.toml: model.name",
        "rl.toml: orchestrator.group_size",
        f"rl.toml: {SOURCE}.env.taskset.id",
        "rl.toml: trainer.foo",
        "rl.toml: trainer.optim.lr",
        "rl.toml: trainer.scheduler",
    }
    lines = str(caught.value).splitlines()
    assert lines[0] == "9 problems in the job:"
    assert len(lines) == 10


def test_checks_do_not_blame_a_key_for_another_ones_mistake(
    make_job: MakeJob, task: Task, rl_toml: str
) -> None:
    """Fault: an unreadable group_size also yields "batch_size is not a multiple", which leads astray."""
    text = rl_toml.replace("group_size = 16", 'group_size = "16"').replace("= 128", "= 100")
    with pytest.raises(JobError) as caught:
        load(make_job({"rl.toml": text}), task)
    assert [problem.where for problem in caught.value.problems] == ["rl.toml: orchestrator.group_size"]


@pytest.mark.parametrize(
    ("sources", "what"),
    [
        ("orchestrator.train.source = []", "there are 0 sources; a job has exactly one"),
        ("[[orchestrator.train.source]]\nenv.taskset.id = 'last_word'\n" * 2, "there are 2 sources"),
        (
            "[orchestrator.train.source]\nenv.taskset.id = 'last_word'",
            "write [[orchestrator.train.source]] with two",
        ),
        ("orchestrator.train.source = [1]", "1 is not a table"),
        ("", f"{SOURCE}.env.taskset.id: is missing"),
    ],
)
def test_a_job_has_one_source(make_job: MakeJob, task: Task, sources: str, what: str) -> None:
    """Fault: a second environment trains unseen, or none at all ends in a traceback."""
    head = 'max_steps = 4\nmodel.name = "smollm2-135m"\norchestrator.group_size = 8\n'
    with pytest.raises(JobError) as caught:
        load(make_job({"rl.toml": head + sources}), task)
    assert len(caught.value.problems) == 1, str(caught.value)
    assert what in str(caught.value)


def test_messages_stay_one_short_line(make_job: MakeJob, task: Task, rl_toml: str) -> None:
    """Fault: an author's long or many-lined text floods the report, or forges a line of it."""
    value = "x\\nrl.toml: all is well" * 500
    text = rl_toml.replace('"smollm2-135m"', f'"{value}"') + f'"a\\nb" = "{value}"\n'
    with pytest.raises(JobError) as caught:
        load(make_job({"rl.toml": text}), task)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert all(len(line) < 400 for line in lines)


@pytest.mark.parametrize("rate", [1.5, 1e308])
def test_an_absurd_learning_rate_is_refused(
    make_job: MakeJob, edited: Edited, task: Task, rate: float
) -> None:
    """Fault: a rate that can only give NaN is trained."""
    with pytest.raises(JobError, match=r"trainer\.optim\.lr: .* is above 1.*1e-6 to 1e-4"):
        load(make_job({"rl.toml": edited({"trainer.optim.lr": rate})}), task)
