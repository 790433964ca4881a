"""Whether the base model's own replies give GRPO something to learn from: rewards that differ in a group."""

from __future__ import annotations

from collections.abc import Sequence

from trainsmith.probe.averages import mean
from trainsmith.probe.checks.loading import fault_line
from trainsmith.probe.checks.rewards import number_fix
from trainsmith.probe.checks.scoring import NO_EXIT
from trainsmith.probe.observations import Observations, Sampled, Signal, rewarded
from trainsmith.probe.standing import standing
from trainsmith.probe.text import number, plural, quote
from trainsmith.probe.verdicts import failed, passed
from trainsmith.records import Check

SIGNAL = "signal"

MOSTLY = 0.8
"""Share of replies cut off from which the token limit is named as the cause."""


def signal(seen: Observations) -> Check:
    """At least one group of the base model's replies has rewards that differ."""
    found = seen.signal
    assert found is not None
    if found.fault is not None:
        return failed(
            SIGNAL, f"the environment died under the model's replies: {fault_line(found.fault)}", NO_EXIT
        )
    broken = [sampled for sampled in found.samples if sampled.reward is None]
    if broken:
        return _broken(broken, found)
    if not found.groups:
        return _slow(seen, found)
    varied = sum(varies(group) for group in found.groups)
    if not varied:
        return _flat(seen, found)
    average = number(mean(reward for _, reward in rewarded(found.samples)))
    groups = plural(len(found.groups), "group")
    return passed(
        SIGNAL, f"{varied} of {groups} of {found.base} have rewards that differ; mean reward {average}"
    )


def varies(group: Sequence[Sampled]) -> bool:
    """Whether a group's rewards differ."""
    rewards = [reward for _, reward in rewarded(group)]
    return len(rewards) > 1 and max(rewards) - min(rewards) > 1e-6


def _broken(broken: list[Sampled], found: Signal) -> Check:
    first = broken[0]
    return failed(
        SIGNAL,
        f"{len(broken)} of {len(found.samples)} rollouts with {found.base} have no usable reward, "
        f"e.g. task {first.task}: {first.error}",
        number_fix(first.error),
    )


def _slow(seen: Observations, found: Signal) -> Check:
    limits = seen.limits
    return failed(
        SIGNAL,
        f"{found.base} did not finish a group of {limits.signal_samples} replies in "
        f"{number(limits.signal_seconds)} s",
        "Lower max_completion_tokens and the number of turns to what the answer needs.",
    )


def _flat(seen: Observations, found: Signal) -> Check:
    levels = sorted({number(reward) for _, reward in rewarded(found.samples)})
    example = found.samples[0]
    return failed(
        SIGNAL,
        f"no group of {len(found.groups)} of {found.base} has rewards that differ "
        f"(all {', '.join(levels[:4])}), e.g. task {example.task}, reply {quote(example.text, 60)}",
        _flat_fix(seen, found),
    )


def _flat_fix(seen: Observations, found: Signal) -> str:
    rewards = [reward for _, reward in rewarded(found.samples)]
    known = standing(seen)
    if known.reference is not None and min(rewards) >= known.reference.reward - 1e-6:
        return "Make the tasks harder: the base model earns the full reward on each of them already."
    if sum(sampled.cut for sampled in found.samples) >= MOSTLY * len(found.samples):
        return (
            "Raise max_completion_tokens, or show two solved examples with bare answers in the prompt: "
            "nearly all replies were cut off."
        )
    if known.reference is None and max(rewards) <= known.low + 1e-6:
        return (
            "Check that the reward can be earned at all: keep the answer in a TaskData field, and give 1 to "
            "a reply that is just this answer."
        )
    return (
        "Make the reward reachable: begin with easier tasks, show two solved examples in the prompt, or give "
        "part of the reward for part of the answer."
    )
