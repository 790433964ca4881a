"""Measures what the shipped `families/calibration.json` holds, on this machine's CPU.

    python -m benchmarks.calibrate untrained            # every task, both bases
    python -m benchmarks.calibrate lifts --seeds 0 1 2  # the reference recipe, trained and graded
    python -m benchmarks.calibrate lifts --tasks strings/decode@0 --lr 1e-4 --steps 20   # tried, not kept

Items are drawn under a public secret, so the figures give nothing away and come out the same elsewhere.
The training here is plain on-policy GRPO with the reference recipe and reward, without jail and pool: it says
what a recipe can do, not what a job costs in all.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean

from trainsmith import bases, families
from trainsmith.config.grading import GradingConfig
from trainsmith.engine.learner import Learner
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import Completion, OptimSpec, SampleRequest, Trajectory
from trainsmith.families.calibration import Calibration, Lift, Untrained, calibration
from trainsmith.families.recipe import GROUP_SIZE, Recipe
from trainsmith.families.tasks import source_of
from trainsmith.files import write_atomic
from trainsmith.grading.grader import compare, grade, summary
from trainsmith.records import HiddenScore, Item, Task
from trainsmith.seeds import derive

SECRET = b"the public secret of the calibration"
SAMPLED = 64
"""Questions that are sampled at temperature 1, eight times each."""
FILE = Path(families.__file__).with_name("calibration.json")
PACKAGES = ("torch", "tokenizers")
CONFIG = GradingConfig()


def load(base: str) -> Policy:
    """The base, in the compute type that a job would use."""
    return Policy.load(bases.fetch(base))


def hidden(policy: Policy, task: Task, items: Sequence[Item]) -> HiddenScore:
    """Greedy scores of the weights as they are."""
    return grade(policy, task, items, model="calibration", config=CONFIG)


def untrained(policy: Policy, base: str, task: Task) -> Untrained:
    """Head-room: greedy score, and what eight samples a question show."""
    items = families.hidden_items(task, SECRET)
    groups = [
        [families.score(task, item, (reply,)) for reply in replies]
        for item, replies in zip(items, sample(policy, task, items[:SAMPLED], 0), strict=False)
    ]
    return Untrained(
        task=task.id,
        base=base,
        revision=bases.get(base).revision,
        greedy=summary(hidden(policy, task, items), CONFIG),
        sampled=round(fmean(map(fmean, groups)), 3),
        pass_at_8=round(fmean(max(group) == 1 for group in groups), 3),
        usable_groups=round(fmean(max(group) > min(group) for group in groups), 3),
        sampled_questions=len(groups),
        guess=round(best_constant(task, items), 3),
    )


def best_constant(task: Task, items: Sequence[Item]) -> float:
    """The score of the one reply that, given to every item, scores best."""
    answers = {item.answer for item in items}
    return max(fmean(families.score(task, item, (answer,)) for item in items) for answer in answers)


def sample(policy: Policy, task: Task, items: Sequence[Item], seed: int) -> list[list[str]]:
    """Texts of eight replies an item at temperature 1."""
    return [
        [policy.tokenizer.decode(reply.tokens) for reply in replies]
        for _, replies in rollouts(policy, task, items, seed)
    ]


def rollouts(
    policy: Policy, task: Task, items: Sequence[Item], seed: int
) -> Iterator[tuple[tuple[int, ...], list[Completion]]]:
    """The prompt and the group of each item."""
    prompts = [policy.tokenizer.encode_chat(task.messages(item.question)) for item in items]
    requests = [
        SampleRequest(prompt, task.evaluation.max_tokens, 1.0, derive(seed, index, number))
        for index, prompt in enumerate(prompts)
        for number in range(GROUP_SIZE)
    ]
    completions = policy.sample(requests)
    for index, prompt in enumerate(prompts):
        yield prompt, completions[index * GROUP_SIZE : (index + 1) * GROUP_SIZE]


def lift(policy: Policy, task: Task, recipe: Recipe, seed: int, before: HiddenScore) -> Lift:
    """Train by the recipe from the base's weights, then score."""
    policy.reset()
    began = time.monotonic()
    tokens = train(policy, task, recipe, seed)
    seconds = time.monotonic() - began
    after = hidden(policy, task, families.hidden_items(task, SECRET))
    moved = compare(before, after, CONFIG)
    return Lift(
        task=task.id,
        base=recipe.base,
        seed=seed,
        before=round(fmean(before.scores), 3),
        after=round(fmean(after.scores), 3),
        low=round(moved.low, 3),
        high=round(moved.high, 3),
        n=moved.n,
        lr=recipe.lr,
        steps=recipe.steps,
        tokens=tokens,
        seconds=round(seconds, 1),
    )


def train(policy: Policy, task: Task, recipe: Recipe, seed: int) -> int:
    """All steps; returns generated plus trained tokens."""
    learner = Learner(policy, OptimSpec(lr=recipe.lr), seed=seed)
    items = families.training_items(task)
    reward = source_of(task.id).kind.reward
    prompts, tokens = recipe.batch_size // GROUP_SIZE, 0
    for step in range(recipe.steps):
        chosen = [items[(step * prompts + offset) % len(items)] for offset in range(prompts)]
        batch: list[Trajectory] = []
        curve = []
        for item, (prompt, group) in zip(
            chosen, rollouts(policy, task, chosen, derive(seed, step)), strict=True
        ):
            rewards = [reward(policy.tokenizer.decode(reply.tokens), item.answer) for reply in group]
            curve.append(fmean(rewards))
            tokens += sum(len(reply.tokens) for reply in group)
            if max(rewards) > min(rewards):
                batch += [
                    trajectory(prompt, reply, value - curve[-1])
                    for reply, value in zip(group, rewards, strict=True)
                ]
        if batch:
            tokens += learner.update(batch).trained_tokens
        print(f"    step {step + 1} reward {fmean(curve):.2f} groups {len(batch) // GROUP_SIZE}", flush=True)
    return tokens


def trajectory(prompt: tuple[int, ...], reply: Completion, advantage: float) -> Trajectory:
    """One rollout as a training sequence."""
    return Trajectory(
        tokens=(*prompt, *reply.tokens),
        mask=(False,) * len(prompt) + (True,) * len(reply.tokens),
        logprobs=(0.0,) * len(prompt) + reply.logprobs,
        advantage=advantage,
    )


def keep(rows: Sequence[Untrained | Lift]) -> None:
    """Put rows into the shipped file, each in place of the same measurement of earlier."""
    kept: dict[tuple[str, ...], Untrained | Lift] = {}
    for row in (*calibration().untrained, *calibration().lifts, *rows):
        seed = (str(row.seed),) if isinstance(row, Lift) else ()
        kept[(type(row).__name__, row.task, row.base, *seed)] = row
    ordered = [kept[key] for key in sorted(kept) if key[1] in families.task_ids()]
    document = Calibration(
        versions={name: version(name) for name in PACKAGES},
        untrained=tuple(row for row in ordered if isinstance(row, Untrained)),
        lifts=tuple(row for row in ordered if isinstance(row, Lift)),
    )
    write_atomic(FILE, document.model_dump_json(indent=1) + "\n")
    calibration.cache_clear()


def measure_untrained(arguments: argparse.Namespace) -> None:
    """Untrained scores of all tasks asked for, base by base."""
    for base in arguments.bases:
        policy = load(base)
        for task in map(families.task, arguments.tasks):
            row = untrained(policy, base, task)
            print(row.model_dump_json(exclude={"revision"}), flush=True)
            if task.seed == 0:
                keep([row])


def measure_lifts(arguments: argparse.Namespace) -> None:
    """Lifts of all tasks asked for; kept unless the recipe was changed on the command line."""
    changes = {name: getattr(arguments, name) for name in ("lr", "steps", "base") if getattr(arguments, name)}
    policies: dict[str, Policy] = {}
    for task in map(families.task, arguments.tasks):
        recipe = source_of(task.id).kind.recipe.model_copy(update=changes)
        policy = policies.get(recipe.base) or policies.setdefault(recipe.base, load(recipe.base))
        policy.reset()
        before = hidden(policy, task, families.hidden_items(task, SECRET))
        for seed in arguments.seeds:
            row = lift(policy, task, recipe, seed, before)
            print(row.model_dump_json(), flush=True)
            if not changes and task.seed == 0:
                keep([row])


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description="measure what calibration.json holds")
    parser.add_argument("what", choices=["untrained", "lifts"])
    parser.add_argument("--tasks", nargs="+", default=families.task_ids())
    parser.add_argument("--bases", nargs="+", default=["smollm2-135m", "smollm2-135m-28l"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--lr", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--base")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    (measure_untrained if arguments.what == "untrained" else measure_lifts)(arguments)


if __name__ == "__main__":
    main()
