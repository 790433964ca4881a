"""Makes a task from its id."""

from __future__ import annotations

from functools import lru_cache

from trainsmith.families import registry, task_id
from trainsmith.families.brief import brief
from trainsmith.families.draws import SOLVED, Source, public_items
from trainsmith.families.kind import AnyKind
from trainsmith.families.recipe import BASES
from trainsmith.records import Budget, Evaluation, Item, Message, Task, Tier

_STEPS_FACTOR = 2
_TOKENS_FACTOR = 2
"""What a job may spend, as a multiple of what the reference job can spend at most."""


def task(text: str) -> Task:
    """The task of an id. UserError, with the nearest ids, for an unknown one."""
    name = task_id.parse(text, task_ids())
    source = source_of(text)
    kind, examples = source.kind, public_items(source)
    made = Task(
        id=str(name),
        family=name.family,
        kind=name.kind,
        seed=name.seed,
        tier=kind.tier,
        brief="",
        prefix=_prefix(kind, examples),
        examples=examples,
        bases=BASES,
        budget=_budget(kind),
        limits=kind.limits,
        evaluation=Evaluation(max_tokens=kind.max_tokens),
    )
    return made.model_copy(update={"brief": brief(made, source)})


@lru_cache(maxsize=256)
def source_of(text: str) -> Source:
    """Kind and rule of a task id. UserError for an unknown one."""
    return Source.of(text, registry.find(task_id.parse(text)))


def task_ids(tier: Tier | None = None) -> tuple[str, ...]:
    """One task a kind, with seed 0; of one tier, or of all."""
    return tuple(
        f"{family.name}/{kind.name}@0"
        for family in registry.families()
        for kind in family.kinds
        if tier in (None, kind.tier)
    )


def _prefix(kind: AnyKind, examples: tuple[Item, ...]) -> tuple[Message, ...]:
    turns = [Message(role="system", content=kind.system)]
    for item in examples[:SOLVED]:
        turns += [Message(role="user", content=item.question), Message(role="assistant", content=item.answer)]
    return tuple(turns)


def _budget(kind: AnyKind) -> Budget:
    """Generated and trained tokens each count, at most one reply's a rollout."""
    tokens = _TOKENS_FACTOR * kind.recipe.rollouts * kind.max_tokens * 2
    return Budget(
        train_seconds=kind.train_seconds, max_steps=_STEPS_FACTOR * kind.recipe.steps, max_tokens=tokens
    )
