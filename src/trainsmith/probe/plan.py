"""The probe's checks in the order in which they run, by stage.

What cannot be judged after a failure is skipped; the model is started only when nothing has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from trainsmith.probe.checks import folder, gaming, loading, prompts, rewards, scoring, signal
from trainsmith.probe.observations import Observations
from trainsmith.probe.verdicts import skipped
from trainsmith.records import Check, Verdict


class Stage(StrEnum):
    """What has to be seen before the checks of a stage can judge."""

    FOLDER = "folder"
    IMPORT = "import"
    TASKS = "tasks"
    CANNED = "canned"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Planned:
    """One check: its name, its stage, what it makes sure of, and the function that judges."""

    name: str
    stage: Stage
    ensures: str
    judge: Callable[[Observations], Check]


CHECKS = (
    Planned(
        loading.IMPORTS,
        Stage.IMPORT,
        "the package imports in the jail and load() gives tasks",
        loading.imports,
    ),
    Planned(loading.LOADS_ALIKE, Stage.TASKS, "two fresh processes give the same tasks", loading.loads_alike),
    Planned(
        loading.ENOUGH_TASKS, Stage.TASKS, "enough tasks differ in prompt or fields", loading.enough_tasks
    ),
    Planned(
        loading.PROMPTS_EXIST, Stage.TASKS, "every single-turn task has a user message", loading.prompts_exist
    ),
    Planned(prompts.PROMPTS_FIT, Stage.TASKS, "prompt and reply fit into seq_len", prompts.prompts_fit),
    Planned(
        prompts.NO_ANSWER_LEAK, Stage.TASKS, "no prompt spells out its own answer", prompts.no_answer_leak
    ),
    Planned(scoring.SCORING_ENDS, Stage.CANNED, "no reply makes a rollout hang or die", scoring.scoring_ends),
    Planned(scoring.SCORING_IS_QUICK, Stage.CANNED, "rollouts take little time", scoring.scoring_is_quick),
    Planned(rewards.REWARDS_EXIST, Stage.CANNED, "there is a reward", rewards.rewards_exist),
    Planned(
        rewards.REWARDS_ARE_NUMBERS,
        Stage.CANNED,
        "any reply gets a finite number",
        rewards.rewards_are_numbers,
    ),
    Planned(rewards.REWARDS_BOUNDED, Stage.CANNED, "rewards are of a sane size", rewards.rewards_bounded),
    Planned(rewards.REWARDS_VARY, Stage.CANNED, "rewards depend on the reply", rewards.rewards_vary),
    Planned(scoring.SCORING_REPEATS, Stage.CANNED, "the same reply scores the same", scoring.scoring_repeats),
    Planned(
        gaming.JUNK_SCORES_LOW, Stage.CANNED, "replies without content score low", gaming.junk_scores_low
    ),
    Planned(
        signal.SIGNAL, Stage.MODEL, "the base model's replies to a task score differently", signal.signal
    ),
    Planned(
        gaming.MODEL_BEATS_JUNK,
        Stage.MODEL,
        "the best reply beats one without content",
        gaming.model_beats_junk,
    ),
)
"""All checks but `folder`, which gives one verdict a problem."""


def judge(stage: Stage, seen: Observations) -> tuple[Check, ...]:
    """The verdicts of one stage."""
    if stage is Stage.FOLDER:
        return folder.folder(seen)
    return tuple(planned.judge(seen) for planned in CHECKS if planned.stage is stage)


def skip_from(stage: Stage, why: str) -> tuple[Check, ...]:
    """Skips for all checks of `stage` and of those after it."""
    stages = list(Stage)
    later = stages[stages.index(stage) :]
    return tuple(skipped(planned.name, why) for planned in CHECKS if planned.stage in later)


def failed(checks: Iterable[Check]) -> bool:
    """Whether any of the checks failed."""
    return any(check.verdict is Verdict.FAIL for check in checks)


def unplayable(checks: Iterable[Check]) -> bool:
    """Whether a failed check makes rollouts senseless."""
    return failed(check for check in checks if check.name == loading.PROMPTS_EXIST)
