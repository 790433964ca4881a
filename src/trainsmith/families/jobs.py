"""The two complete jobs that a kind brings: the honest expert's, and a mediocre one that passes the probe."""

from __future__ import annotations

from trainsmith.families.draws import Source
from trainsmith.families.environment import environment
from trainsmith.families.recipe import Recipe, rl_toml
from trainsmith.records import Message
from trainsmith.records.job import JobFile

_MEDIOCRE_STEPS = 8
_MEDIOCRE_LR = 1e-6


def reference_job(source: Source, prefix: tuple[Message, ...]) -> tuple[JobFile, ...]:
    """The files of the job that an honest expert would hand in."""
    return _files(source, prefix, source.kind.recipe)


def working_job(source: Source, prefix: tuple[Message, ...]) -> tuple[JobFile, ...]:
    """The reference environment with settings that hardly train: a start for small agents."""
    changes = {"base": source.kind.working_base, "lr": _MEDIOCRE_LR, "steps": _MEDIOCRE_STEPS}
    return _files(source, prefix, source.kind.recipe.model_copy(update=changes))


def _files(source: Source, prefix: tuple[Message, ...], recipe: Recipe) -> tuple[JobFile, ...]:
    package = source.kind.package
    return (
        JobFile(path="rl.toml", content=rl_toml(recipe, package, source.kind.max_tokens)),
        JobFile(path=f"environment/{package}/__init__.py", content=environment(source, prefix)),
    )
