"""What a trainer cannot do: a key that it cannot honour is an error, never ignored.

| key | embedded | prime_rl |
|---|---|---|
| optimiser adamw, sgd, sign_sgd | yes | yes |
| optimiser muon | no | yes |
| curriculum.sampler standard | yes | yes |
| curriculum.sampler difficulty_pool, curriculum.gates | no | yes |
| env.agent.max_turns, env.agent.timeout | up to trainsmith's own limits | yes |
| different agent.timeout.setup, .finalize, .scoring | no | yes |
| everything else of the schema | yes | yes |

The embedded trainer is synchronous and on-policy: a rollout is never older than the update that it trains, so
every `max_off_policy_steps` holds, and with one source every `ratio` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

from trainsmith.errors import UserError
from trainsmith.jobs.limits import MAX_HOOK_SECONDS, MAX_ROLLOUT_SECONDS, MAX_TURNS
from trainsmith.jobs.problems import JobError, Problem, at, listed
from trainsmith.jobs.schema import Agent, AuthorConfig, Curriculum, DifficultySampler, Muon

TrainerName = Literal["embedded", "prime_rl"]
"""The trainers a job can be completed for."""

_SOURCE = "orchestrator.train.source"


def honours(config: AuthorConfig, trainer: str) -> None:
    """Raise JobError with every key that the trainer cannot honour; UserError for an unknown trainer."""
    if problems := refusals(config, trainer):
        raise JobError(problems)


def refusals(config: AuthorConfig, trainer: str) -> tuple[Problem, ...]:
    """Every key that the trainer cannot honour. UserError for an unknown trainer."""
    if trainer not in _REFUSALS:
        raise UserError(
            f"there is no trainer {trainer!r}",
            where="trainer.type",
            fix=f"use {listed(get_args(TrainerName))}",
        )
    return tuple(_REFUSALS[trainer](config))


def _embedded(config: AuthorConfig) -> Iterator[Problem]:
    if isinstance(config.trainer.optim, Muon):
        what = "the embedded trainer has no muon"
        yield at("trainer.optim.type", what, 'use "adamw", "sgd" or "sign_sgd"')
    for source in config.orchestrator.train.source:
        if source.curriculum is not None:
            yield from _embedded_curriculum(source.curriculum)
        yield from _embedded_agent(source.env.agent)


def _embedded_curriculum(curriculum: Curriculum) -> Iterator[Problem]:
    where = f"{_SOURCE}.curriculum"
    if isinstance(curriculum.sampler, DifficultySampler):
        what = "the embedded trainer draws tasks in their order only"
        yield at(f"{where}.sampler.type", what, 'use "standard", or sort the tasks in load()')
    if curriculum.gates:
        what = "the embedded trainer has no gates"
        fix = "remove the table; groups without signal are left out by train.filter_zero_advantages"
        yield at(f"{where}.gates", what, fix)


def _embedded_agent(agent: Agent) -> Iterator[Problem]:
    hooks = ("setup", "finalize", "scoring")
    wanted = [
        ("max_turns", agent.max_turns, MAX_TURNS),
        ("timeout.rollout", agent.timeout.rollout, MAX_ROLLOUT_SECONDS),
        *((f"timeout.{hook}", getattr(agent.timeout, hook), MAX_HOOK_SECONDS) for hook in hooks),
    ]
    for key, value, most in wanted:
        if value is not None and value > most:
            what = f"{value:g} is over the embedded trainer's own limit of {most:g}"
            yield at(f"{_SOURCE}.env.agent.{key}", what, f"use at most {most:g}")
    limits = {getattr(agent.timeout, hook) for hook in hooks} - {None}
    if len(limits) > 1:
        what = "the embedded trainer has one limit for setup, finalize and scoring"
        yield at(f"{_SOURCE}.env.agent.timeout", what, "set them to the same number, or set only one")


def _prime_rl(_: AuthorConfig) -> Iterator[Problem]:
    """The schema is a part of prime-rl's own: it honours all of it."""
    return iter(())


_REFUSALS: dict[str, Callable[[AuthorConfig], Iterator[Problem]]] = {
    "embedded": _embedded,
    "prime_rl": _prime_rl,
}
