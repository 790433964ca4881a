"""Whether a reply without content, or a wrong one, earns about as much as the right one."""

from __future__ import annotations

from trainsmith.probe.checks.rewards import NO_REWARD
from trainsmith.probe.observations import Observations, ReplyKind, rewarded
from trainsmith.probe.standing import Mean, standing
from trainsmith.probe.text import number, quote
from trainsmith.probe.verdicts import failed, passed, skipped
from trainsmith.records import Check

JUNK_SCORES_LOW = "junk_scores_low"
MODEL_BEATS_JUNK = "model_beats_junk"

UNDECIDED = (
    "no task field is known to be the right answer (own and another task's values score alike): "
    f"{MODEL_BEATS_JUNK} compares with the base model's replies instead"
)
NAMES = {
    ReplyKind.EMPTY: "an empty reply",
    ReplyKind.REFUSAL: "a refusal",
    ReplyKind.ECHO: "an echo of the prompt",
    ReplyKind.JUNK: "a reply of three made-up words",
    ReplyKind.REPEATED: "one word again and again",
    ReplyKind.LONG: "a long reply of made-up words",
    ReplyKind.TAGS: "a reply of answer marks around nothing",
    ReplyKind.CONSTANT: "the most frequent value as the reply to every task",
    ReplyKind.EVERY: "a reply that lists many possible answers",
    ReplyKind.SWAPPED: "another task's answer",
}
_BLANK = "Give a reply without the answer no reward: score the right answer first, then small parts for form."
_WHOLE = (
    "Compare the whole reply, or one marked part of it, with the answer; do not look for it anywhere in it."
)
_LENGTH = "Do not reward length or repetition: reward the right answer, and little else."
FIXES = {
    ReplyKind.EMPTY: _BLANK,
    ReplyKind.REFUSAL: _BLANK,
    ReplyKind.JUNK: _BLANK,
    ReplyKind.ECHO: _WHOLE,
    ReplyKind.EVERY: _WHOLE,
    ReplyKind.REPEATED: _LENGTH,
    ReplyKind.LONG: _LENGTH,
    ReplyKind.TAGS: "Give form alone a fifth of the reward at most, the rest for what is between the marks.",
    ReplyKind.CONSTANT: "Balance the tasks: no single answer may be right in most of them.",
    ReplyKind.SWAPPED: "Give most of the reward for the right answer, little for form or for coming close.",
}


def junk_scores_low(seen: Observations) -> Check:
    """Against the right reply, where a field of the tasks is known to be it."""
    found = standing(seen)
    if not found.means:
        return skipped(JUNK_SCORES_LOW, NO_REWARD)
    wrong = found.swapped
    if found.reference is None or wrong is None:
        return passed(JUNK_SCORES_LOW, UNDECIDED)
    best = found.reference.reward
    rival = max((wrong, *found.hollow), key=lambda mean: mean.reward)
    if found.share(wrong.reward, best) >= seen.limits.gameable:
        rival = wrong  # the cause of all others: any answer of the right form does
    name = found.reference.form.split(",")[0]
    right = f"the field `{name}` as reply scores {number(best)}"
    if found.share(rival.reward, best) < seen.limits.gameable:
        return passed(JUNK_SCORES_LOW, f"{right}, {NAMES[rival.kind]} at most {number(rival.reward)}")
    return failed(JUNK_SCORES_LOW, f"{_told(rival)}, where {right}", FIXES[rival.kind])


def model_beats_junk(seen: Observations) -> Check:
    """Against the best reply seen at all, where the right one is not known."""
    assert seen.signal is not None
    found = standing(seen)
    if found.reference is not None:
        return passed(MODEL_BEATS_JUNK, f"the right reply is known: see {JUNK_SCORES_LOW}")
    rewards = [reward for _, reward in rewarded(seen.signal.samples)]
    if not rewards or not found.hollow:
        return skipped(MODEL_BEATS_JUNK, NO_REWARD)
    best, rival = max(*rewards, found.high), found.hollow[0]
    line = f"the best reply seen scores {number(best)}"
    if found.share(rival.reward, best) < seen.limits.gameable:
        return passed(MODEL_BEATS_JUNK, f"{line}, {NAMES[rival.kind]} {number(rival.reward)}")
    return failed(MODEL_BEATS_JUNK, f"{_told(rival)}, where {line}", FIXES[rival.kind])


def _told(mean: Mean) -> str:
    example = f"e.g. {quote(mean.example.said, 40)} to task {mean.example.task}"
    return f"{NAMES[mean.kind]} scores {number(mean.reward)} on the average, {example}"
