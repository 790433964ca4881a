"""Whether scoring ends, is quick, and gives the same value twice."""

from __future__ import annotations

from trainsmith.probe import advice
from trainsmith.probe.checks.loading import fault_line
from trainsmith.probe.observations import Observations, ReplyKind, Scored, rewarded
from trainsmith.probe.text import number, plural, quote
from trainsmith.probe.verdicts import failed, passed, skipped
from trainsmith.records import Check

SCORING_ENDS = "scoring_ends"
SCORING_IS_QUICK = "scoring_is_quick"
SCORING_REPEATS = "scoring_repeats"

NO_EXIT = "Remove sys.exit, os._exit, os.kill and os.fork from the task's methods."
NO_LOOP = (
    "Remove endless loops, sleeps, input and waits from the task's methods; bound every loop by a count."
)
NO_BACKTRACKING = (
    "Replace the regular expression that has a repeat inside a repeat, such as (a+)+, by string methods or a "
    "simpler pattern."
)


def scoring_ends(seen: Observations) -> Check:
    """No canned rollout hangs, blocks or ends its process."""
    assert seen.canned is not None
    fault = seen.canned.fault
    if fault is not None:
        line = f"the environment died while it was scored: {fault_line(fault)}"
        return failed(SCORING_ENDS, line, advice.fix_for(fault.what, NO_EXIT))
    lost = [scored for scored in seen.scores if scored.lost]
    longest = max(seen.scores, key=lambda scored: scored.turns, default=None)
    if longest is not None and longest.turns > seen.limits.max_turns:
        return _endless(longest, seen)
    if not lost:
        return passed(SCORING_ENDS, f"all {plural(len(seen.scores), 'canned rollout')} ended")
    first = lost[0]
    how = "ends its process" if first.died else f"has no end within {number(seen.limits.reply_seconds)} s"
    evidence = f"the rollout of task {first.task} with reply {quote(first.said, 40)} {how}"
    return failed(SCORING_ENDS, f"{evidence}: {first.error}" if first.error else evidence, _lost_fix(first))


def _endless(longest: Scored, seen: Observations) -> Check:
    return failed(
        SCORING_ENDS,
        f"the conversation of task {longest.task} with reply {quote(longest.said, 40)} in every turn goes on "
        f"for {longest.turns} turns; {seen.limits.max_turns} are allowed",
        "Let Env.run() end after a few turns, also if the model never says what it waits for, or set "
        "orchestrator.train.source.env.agent.max_turns.",
    )


def _lost_fix(scored: Scored) -> str:
    if scored.died:
        return advice.fix_for(scored.error, NO_EXIT)
    return NO_BACKTRACKING if scored.reply.kind is ReplyKind.STRESS else NO_LOOP


def scoring_is_quick(seen: Observations) -> Check:
    """A rollout that waits for no model takes little time on the average, and all of them fit their limit."""
    canned, limits = seen.canned, seen.limits
    assert canned is not None
    if canned.fault is not None or any(s.lost or s.turns > limits.max_turns for s in canned.first):
        return skipped(SCORING_IS_QUICK, "not measured: a rollout did not end")
    mean, limit = canned.mean_seconds, limits.mean_reply_seconds
    late = canned.planned - len(canned.first)
    if mean <= limit and late <= 0:
        return passed(SCORING_IS_QUICK, f"{1000 * mean:.1f} ms a rollout without a model")
    evidence = f"{1000 * mean:,.0f} ms a rollout without a model; {1000 * limit:,.0f} ms is allowed"
    if late > 0:
        evidence += f", and {late:,} of {canned.planned:,} did not run in {number(limits.canned_seconds)} s"
    return failed(
        SCORING_IS_QUICK,
        evidence,
        "Do expensive work once in load() and keep it in TaskData; no sleeps, files or processes in rewards.",
    )


def scoring_repeats(seen: Observations) -> Check:
    """The same reply to the same task scores the same in another process and another order."""
    assert seen.canned is not None
    again = {(scored.task, scored.reply): reward for scored, reward in rewarded(seen.canned.second)}
    triples = [
        (scored, reward, again[scored.task, scored.reply])
        for scored, reward in rewarded(seen.scores)
        if (scored.task, scored.reply) in again
    ]
    if not triples:
        return skipped(SCORING_REPEATS, "no reply was scored twice")
    differing = [triple for triple in triples if not _equal(triple[1], triple[2])]
    if not differing:
        return passed(SCORING_REPEATS, f"{plural(len(triples), 'rollout')} scored the same twice")
    scored, once, twice = differing[0]
    return failed(
        SCORING_REPEATS,
        f"task {scored.task}, reply {quote(scored.said, 40)} scores {number(once)}, then {number(twice)} "
        f"({len(differing):,} of {len(triples):,} replies differ)",
        "Let the reward depend on task and reply alone: no random numbers, time, hash() or state kept "
        "between rollouts; seed what an Env draws from the task.",
    )


def _equal(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b))
