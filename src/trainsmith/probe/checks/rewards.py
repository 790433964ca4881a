"""Whether rewards exist, are numbers of a sane size, and depend on the reply at all."""

from __future__ import annotations

from trainsmith.probe import advice
from trainsmith.probe.observations import Observations, Scored, rewarded
from trainsmith.probe.text import number, plural, quote
from trainsmith.probe.verdicts import failed, passed, skipped
from trainsmith.records import Check

REWARDS_EXIST = "rewards_exist"
REWARDS_ARE_NUMBERS = "rewards_are_numbers"
REWARDS_BOUNDED = "rewards_bounded"
REWARDS_VARY = "rewards_vary"

NO_REWARD = "no reply has a usable reward"


def rewards_exist(seen: Observations) -> Check:
    """The task class has a reward, or the environment's own code records one."""
    weights = seen.first.info.weights if seen.first and seen.first.info else ()
    if weights and not any(weights) and len(_recorded(seen)) <= len(weights):
        return failed(
            REWARDS_EXIST,
            f"every reward has weight 0: {', '.join(_names(seen))}",
            "Give the reward that is to be trained a weight, such as `@vf.reward(weight=1.0)`.",
        )
    if names := _names(seen):
        return passed(REWARDS_EXIST, f"rewards: {', '.join(names)}")
    return failed(
        REWARDS_EXIST,
        "the task class has no @vf.reward method, so every reply scores 0",
        "Add to the Task class `@vf.reward` above `async def name(self, trace: vf.Trace) -> float`.",
    )


def _names(seen: Observations) -> tuple[str, ...]:
    """Rewards that the task class declares or that any rollout recorded."""
    declared = seen.first.info.rewards if seen.first and seen.first.info else ()
    return declared or _recorded(seen)


def _recorded(seen: Observations) -> tuple[str, ...]:
    """Rewards that any rollout recorded, an Env's own among them."""
    return tuple(sorted({name for scored in seen.scores for name, _ in scored.values}))


def _broken(seen: Observations) -> list[Scored]:
    """Rollouts that ended without a usable reward."""
    return [scored for scored in seen.scores if scored.error and not scored.lost]


def rewards_are_numbers(seen: Observations) -> Check:
    """No rollout raises, and none ends with None, text, NaN or infinity as its reward."""
    broken = _broken(seen)
    if broken and not _names(seen):
        return skipped(REWARDS_ARE_NUMBERS, "there is no reward")
    if not broken:
        scored = plural(len(seen.scores), "canned rollout")
        return passed(REWARDS_ARE_NUMBERS, f"{scored}, each with a finite number as its reward")
    first = broken[0]
    evidence = f"task {first.task}, reply {quote(first.said, 40)}: {first.error}"
    if len(broken) > 1:
        evidence += f" ({len(broken):,} of {len(seen.scores):,} replies)"
    return failed(REWARDS_ARE_NUMBERS, evidence, number_fix(first.error))


def number_fix(error: str) -> str:
    """How to mend a reward that gave no usable number."""
    return advice.fix_for(
        error,
        "Let rewards and Env.run() take any reply, also an empty or malformed one, and give it a finite "
        "number: 0.0 where nothing can be scored.",
    )


def rewards_bounded(seen: Observations) -> Check:
    """Every reward stays within +-`max_reward`."""
    pairs = rewarded(seen.scores)
    if not pairs:
        return skipped(REWARDS_BOUNDED, NO_REWARD)
    widest, reward = max(pairs, key=lambda pair: abs(pair[1]))
    limit = seen.limits.max_reward
    if abs(reward) <= limit:
        rewards = [reward for _, reward in pairs]
        return passed(REWARDS_BOUNDED, f"rewards from {number(min(rewards))} to {number(max(rewards))}")
    return failed(
        REWARDS_BOUNDED,
        f"task {widest.task}, reply {quote(widest.said, 40)} scores {number(reward)}; "
        f"from -{number(limit)} to {number(limit)} is allowed",
        "Scale rewards and their weights so that a rollout's sum lies between 0 and 1.",
    )


def rewards_vary(seen: Observations) -> Check:
    """Not every reply scores the same.

    Zero for all is left to `signal`: the right reply may not be among the canned ones.
    """
    pairs = rewarded(seen.scores)
    levels = {round(reward, 9) for _, reward in pairs}
    if not levels:
        return skipped(REWARDS_VARY, NO_REWARD)
    if len(levels) > 1:
        return passed(REWARDS_VARY, f"{len(levels):,} different rewards over {len(pairs):,} canned replies")
    if _broken(seen):
        return skipped(REWARDS_VARY, "not compared: many replies have no usable reward")
    value = levels.pop()
    evidence = f"all {len(pairs):,} canned replies score {number(value)}"
    if value <= 0:
        return passed(REWARDS_VARY, f"{evidence}, the task's fields as replies too: `signal` decides")
    return failed(
        REWARDS_VARY,
        f"{evidence}: empty, refusal, echo, junk and the task's fields alike",
        "Compute the reward from trace.last_reply, so that a right reply scores more than a wrong one.",
    )
