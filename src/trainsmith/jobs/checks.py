"""Checks across several keys: what prime-rl takes though it is useless, and what the task does not allow.

Each check says which keys it looks at, so that it is left out when one of them has a problem of its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from trainsmith import bases
from trainsmith.jobs import forbidden
from trainsmith.jobs.problems import Problem, at, listed, quote
from trainsmith.jobs.schema import AuthorConfig, CosineSchedule, DifficultySampler, LinearSchedule
from trainsmith.records import Task

_SOURCE = "orchestrator.train.source"
_MAX_GROUP = 1024
"""Most rollouts of one prompt: prime-rl keeps no more in flight."""
_MAX_RATE = 1.0
"""Highest learning rate; far lower ones ruin a model, too, but that is the author's to find out."""

Findings = Iterator[Problem]


class _Check(NamedTuple):
    keys: tuple[str, ...]
    run: Callable[[AuthorConfig, Task], Findings]


def check(config: AuthorConfig, task: Task, bad: frozenset[str]) -> tuple[Problem, ...]:
    """All problems of a config whose keys are each right by themselves. `bad` are the keys that are not."""
    return tuple(
        problem
        for one in _CHECKS
        if not any(_touches(key, refused) for key in one.keys for refused in bad)
        for problem in one.run(config, task)
    )


def _touches(key: str, refused: str) -> bool:
    """Whether a refused key is the key itself or a table around it."""
    return f"{key}.".startswith(f"{refused}.")


def _base(config: AuthorConfig, task: Task) -> Findings:
    name = config.model.name
    if name not in task.bases:
        near = difflib.get_close_matches(name, task.bases, n=1, cutoff=0.5)
        offered = listed(task.bases)
        fix = f'use "{near[0]}" (offered: {offered})' if near and len(task.bases) > 1 else f"use {offered}"
        yield at("model.name", f"the task does not offer {quote(name)}", fix)


def _steps(config: AuthorConfig, task: Task) -> Findings:
    most = task.budget.max_steps
    if config.max_steps > most:
        yield at(
            "max_steps",
            f"{config.max_steps} steps are over the task's budget of {most}",
            f"use at most {most}",
        )


def _group(config: AuthorConfig, _: Task) -> Findings:
    size = config.orchestrator.group_size
    if size == 1:
        what = "is 1 or not set: a reply is compared with its own group, so every advantage would be 0"
        yield at("orchestrator.group_size", what, "set it to 4 or more, such as 8 or 16")
    elif size > _MAX_GROUP:
        yield at("orchestrator.group_size", f"{size} is over {_MAX_GROUP}", "use 8 or 16")


def _batch(config: AuthorConfig, _: Task) -> Findings:
    batch, group = config.orchestrator.batch_size, config.orchestrator.group_size
    if group > 1 and batch % group:
        near = sorted({max(group, batch // group * group), -(-batch // group) * group})
        what = f"{batch} is not a multiple of group_size = {group}"
        yield at("orchestrator.batch_size", what, f"use {' or '.join(map(str, near))}")


def _tokens(config: AuthorConfig, task: Task) -> Findings:
    rollouts = config.orchestrator.batch_size * config.max_steps
    if 2 * rollouts > task.budget.max_tokens and config.max_steps <= task.budget.max_steps:
        what = (
            f"{rollouts} rollouts (batch_size x max_steps) need more than the task's budget of "
            f"{task.budget.max_tokens} tokens, at one token generated and trained each"
        )
        yield at("orchestrator.batch_size", what, "use fewer rollouts a step or fewer steps")


def _schedule(config: AuthorConfig, _: Task) -> Findings:
    schedule, steps = config.trainer.scheduler, config.max_steps
    if isinstance(schedule, CosineSchedule):
        if schedule.warmup_steps >= steps:
            what = f"{schedule.warmup_steps} warm-up steps leave none of max_steps = {steps} for the cosine"
            yield at("trainer.scheduler.warmup_steps", what, f"use less than {steps}")
    elif isinstance(schedule, LinearSchedule):
        warm, decay = schedule.warmup_steps, schedule.decay_steps
        if warm == decay == 0:
            what = "a linear schedule without warm-up and decay is constant"
            yield at("trainer.scheduler", what, 'set warmup_steps or decay_steps, or type = "constant"')
        elif warm + decay > steps:
            what = f"warmup_steps + decay_steps = {warm} + {decay} is more than max_steps = {steps}"
            yield at("trainer.scheduler", what, f"make their sum at most {steps}")


def _rate(config: AuthorConfig, _: Task) -> Findings:
    rate = config.trainer.optim.lr
    if rate > _MAX_RATE:
        yield at("trainer.optim.lr", f"{rate:g} is above {_MAX_RATE:g}", "usual values are 1e-6 to 1e-4")


def _minimum_rate(config: AuthorConfig, _: Task) -> Findings:
    schedule, peak = config.trainer.scheduler, config.trainer.optim.lr
    if isinstance(schedule, LinearSchedule | CosineSchedule) and schedule.min_lr > peak:
        what = f"{schedule.min_lr} is above the peak rate trainer.optim.lr = {peak}"
        yield at("trainer.scheduler.min_lr", what, "make it smaller than lr")


def _completion(config: AuthorConfig, _: Task) -> Findings:
    longest = config.orchestrator.train.sampling.max_completion_tokens
    if longest is not None and longest >= config.seq_len:
        what = f"{longest} leaves no room for the prompt in seq_len = {config.seq_len}"
        yield at(
            "orchestrator.train.sampling.max_completion_tokens", what, "make it smaller, or raise seq_len"
        )


def _sampler_length(config: AuthorConfig, _: Task) -> Findings:
    longest = config.inference.vllm.max_model_len
    if longest is not None and longest < config.seq_len:
        what = f"{longest} is less than seq_len = {config.seq_len}: longer samples would never come"
        yield at("inference.vllm.max_model_len", what, f"set it to {config.seq_len}, or leave it out")


def _context(config: AuthorConfig, task: Task) -> Findings:
    if config.model.name not in task.bases:
        return
    context = bases.get(config.model.name).context
    for key, value in (
        ("seq_len", config.seq_len),
        ("inference.vllm.max_model_len", config.inference.vllm.max_model_len),
    ):
        if value is not None and value > context:
            yield at(
                key,
                f"{value} is over the {context} tokens that {config.model.name} can read",
                f"use at most {context}",
            )


def _one_source(config: AuthorConfig, _: Task) -> Findings:
    count = len(config.orchestrator.train.source)
    if count != 1:
        yield at(_SOURCE, f"there are {count} sources; a job has exactly one", f"write one [[{_SOURCE}]]")


def _source_name(config: AuthorConfig, _: Task) -> Findings:
    if any(source.name == "agg" for source in config.orchestrator.train.source):
        yield at(f"{_SOURCE}.name", '"agg" is kept for sums over all sources', "use another name")


def _arguments(config: AuthorConfig, _: Task) -> Findings:
    for source in config.orchestrator.train.source:
        arguments = source.env.taskset.arguments
        inner = arguments.get("task")
        plugged = [f"task.{name}" for name in inner] if isinstance(inner, dict) else []
        for name in (*arguments, *plugged):
            path = f"{_SOURCE}.env.taskset.{name}"
            if refused := forbidden.KEYS.get(path):
                yield at(path, f"may not be set: {refused.why}", refused.fix)


def _curriculum(config: AuthorConfig, _: Task) -> Findings:
    for source in config.orchestrator.train.source:
        if source.curriculum is None:
            continue
        where = f"{_SOURCE}.curriculum"
        if isinstance(source.curriculum.sampler, DifficultySampler):
            yield from _pools(source.curriculum.sampler, f"{where}.sampler.pools")
        for name, gate in source.curriculum.gates.items():
            if gate.reject_min > gate.reject_max:
                what = f"reject_min = {gate.reject_min} is above reject_max = {gate.reject_max}"
                yield at(f"{where}.gates.{name}", what, "swap them")


def _pools(sampler: DifficultySampler, where: str) -> Findings:
    thresholds = [pool.threshold for pool in sampler.pools.values()]
    if len(set(thresholds)) < len(thresholds):
        yield at(where, "two pools have the same threshold", "give each its own")
    if not any(pool.weight > 0 for pool in sampler.pools.values()):
        yield at(where, "no pool has a weight above 0", "give at least one a weight above 0")


_CHECKS = (
    _Check(("model.name",), _base),
    _Check(("max_steps",), _steps),
    _Check(("orchestrator.group_size",), _group),
    _Check(("orchestrator.batch_size", "orchestrator.group_size"), _batch),
    _Check(("orchestrator.batch_size", "max_steps"), _tokens),
    _Check(
        ("max_steps", *(f"trainer.scheduler.{key}" for key in ("type", "warmup_steps", "decay_steps"))),
        _schedule,
    ),
    _Check(("trainer.optim.lr",), _rate),
    _Check(("trainer.optim.lr", "trainer.scheduler.min_lr"), _minimum_rate),
    _Check(("seq_len", "orchestrator.train.sampling.max_completion_tokens"), _completion),
    _Check(("seq_len", "inference.vllm.max_model_len"), _sampler_length),
    _Check(("model.name", "seq_len", "inference.vllm.max_model_len"), _context),
    _Check((_SOURCE,), _one_source),
    _Check((f"{_SOURCE}.name",), _source_name),
    _Check((_SOURCE,), _arguments),
    _Check((f"{_SOURCE}.curriculum",), _curriculum),
)
