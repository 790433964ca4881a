"""The brief of a task: all that an author needs to write the job, and nothing hidden."""

from __future__ import annotations

from trainsmith.families.draws import Source
from trainsmith.families.recipe import STRONG, WEAK
from trainsmith.records import Message, Task

_BASES = {
    STRONG: "the whole model (30 layers)",
    WEAK: "the same weights without two middle layers: weaker untrained, a little cheaper",
}

_TEXT = """\
**Skill.** {skill}

**Questions.** {questions}

**What the evaluation sends.** Every hidden question is asked in exactly this chat: a system message, two
solved examples as earlier turns, the question. Only the last message differs from item to item.

```text
{chat}
```

Build training prompts the same way: this small model copies the form of its answer from the solved examples,
and what it learns under another prompt carries over poorly.

**Answer format.** {answer} Nothing else belongs in the reply: no sentence, no label, no quotes. White space
around the answer and a full stop at its end are ignored, and runs of white space count as one space; anything
else must match, upper and lower case too.

**Scoring.** {items} hidden questions, each answered once {sampling}, with at most {max_tokens} new tokens.
{scoring} The result is the mean score before and after training, on the same questions.

**What you may not assume.** The hidden questions are other questions of the same kind, drawn as described
above; none of them is a public example, and you never see one. Only the rewards of your environment train the
model; the solved examples by themselves teach it nothing. The right answers are computed by your code: check
them against the public examples.

**Base models.** {bases}. Choose one; the result is compared with the best of them untrained.

**Budget.** At most {budget.max_steps} optimiser steps, {budget.max_tokens:,} tokens (generated plus trained)
and {budget.train_seconds:g} seconds of training on two CPU cores, sampling included. What is over it is cut
off, and the weights of the last finished step are graded. There are enough distinct questions for several
hundred training tasks; a few dozen would be learned by heart instead of the skill.
"""


def brief(task: Task, source: Source) -> str:
    """Markdown of 300 to 500 words."""
    kind = source.kind
    return _TEXT.format(
        skill=kind.skill,
        questions=kind.describe(source.rule),
        chat=chat((*task.prefix, Message(role="user", content="<the question>"))),
        answer=kind.answer,
        scoring=kind.scoring,
        items=task.evaluation.items,
        sampling="greedily" if task.evaluation.temperature == 0 else "by sampling",
        max_tokens=task.evaluation.max_tokens,
        bases="; ".join(f"`{base}`, {_BASES[base]}" for base in task.bases),
        budget=task.budget,
    )


def chat(messages: tuple[Message, ...]) -> str:
    """Messages as text, one a paragraph, each behind its role."""
    return "\n".join(f"{message.role}: {message.content}" for message in messages)
