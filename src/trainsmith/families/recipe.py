"""The settings of a job for the embedded 135M models, and their `rl.toml`."""

from __future__ import annotations

from trainsmith.records import Record

STRONG = "smollm2-135m"
WEAK = "smollm2-135m-28l"
BASES = (STRONG, WEAK)
"""Base models that every task of tier `micro` offers, the stronger first."""

GROUP_SIZE = 8

_TOML = """\
max_steps = {recipe.steps}
seq_len = {recipe.seq_len}

[model]
name = "{recipe.base}"

[orchestrator]
batch_size = {recipe.batch_size}  # {prompts} questions a step, {group} replies to each
group_size = {group}

[orchestrator.train.sampling]
temperature = 1.0
max_completion_tokens = {max_tokens}

[[orchestrator.train.source]]
env.taskset.id = "{package}"
env.taskset.num_tasks = {recipe.num_tasks}

[trainer.optim]
lr = {recipe.lr}
"""


class Recipe(Record):
    """What a job's author chooses beside the environment."""

    base: str = STRONG
    lr: float
    steps: int
    """Optimiser steps."""
    batch_size: int = 64
    """Rollouts a step."""
    num_tasks: int = 400
    """Training questions; the hidden items avoid all of them."""
    seq_len: int = 256
    """Tokens of prompt and reply."""

    @property
    def rollouts(self) -> int:
        """Rollouts of the whole job."""
        return self.steps * self.batch_size


def rl_toml(recipe: Recipe, package: str, max_tokens: int) -> str:
    """The text of `rl.toml`. `max_tokens`: new tokens of a reply, as in the evaluation."""
    prompts = recipe.batch_size // GROUP_SIZE
    return _TOML.format(
        recipe=recipe, prompts=prompts, group=GROUP_SIZE, package=package, max_tokens=max_tokens
    )
