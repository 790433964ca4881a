"""Hand-made observations: what the probe would have seen of a small, sound job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainsmith.config.probe import ProbeConfig
from trainsmith.jail.border import EnvironmentInfo, TaskView
from trainsmith.jobs import AuthorConfig
from trainsmith.probe.observations import (
    Canned,
    CannedScores,
    Observations,
    Opening,
    Prompt,
    ReplyKind,
    Sampled,
    Scored,
    Signal,
)
from trainsmith.records import Message

ANSWERS = ("cup", "lamp", "sofa", "tree", "door", "sand", "moon", "fish")


class Seen:
    """Builds parts of observations; every part is sound unless an argument says otherwise."""

    limits = ProbeConfig()

    def config(self, **changes: int) -> AuthorConfig:
        values = {"seq_len": 128, "max_completion_tokens": 8} | changes
        return AuthorConfig.model_validate(
            {
                "max_steps": 5,
                "seq_len": values["seq_len"],
                "model": {"name": "tiny"},
                "orchestrator": {
                    "batch_size": 8,
                    "group_size": 4,
                    "train": {
                        "source": [{"env": {"taskset": {"id": "words"}}}],
                        "sampling": {"max_completion_tokens": values["max_completion_tokens"]},
                    },
                },
            }
        )

    def task(self, index: int, prompt: str | None = "", fields: str | None = None) -> TaskView:
        answer = ANSWERS[index % len(ANSWERS)]
        text = prompt or f"Say the last of: {index}, {answer}"
        messages = None if prompt is None else (Message(role="user", content=text),)
        return TaskView(
            index=index,
            key=str(index),
            messages=messages,
            fields=f'{{"answer": "{answer}"}}' if fields is None else fields,
        )

    def opening(self, count: int = 80, **changes: object) -> Opening:
        info = EnvironmentInfo(
            tasks=count,
            taskset="Words",
            env="SingleAgentEnv",
            single_turn=True,
            fast=True,
            rewards=("right",),
            weights=(1.0,),
            metrics=(),
            agents=("agent",),
        ).model_copy(update=changes)
        return Opening(info, tuple(self.task(index) for index in range(count)))

    def scored(
        self, kind: ReplyKind, reward: float | None, *, task: int = 0, text: str = "x", form: str = ""
    ) -> Scored:
        return Scored(task, Canned(kind, text, form), reward, error="" if reward is not None else "it raised")

    def canned(
        self, *first: Scored, second: tuple[Scored, ...] | None = None, **changes: object
    ) -> CannedScores:
        scores = CannedScores(first, first if second is None else second, len(first), 0.001, 1.0)
        return replace(scores, **changes)

    def standard(self) -> CannedScores:
        """Empty and junk score 0, the own answer 1, another task's 0."""
        return self.canned(
            self.scored(ReplyKind.EMPTY, 0.0),
            self.scored(ReplyKind.JUNK, 0.0),
            self.scored(ReplyKind.ECHO, 0.2),
            self.scored(ReplyKind.FIELD, 1.0, form="answer, plain"),
            self.scored(ReplyKind.SWAPPED, 0.0, form="answer, plain"),
        )

    def signal(self, *groups: tuple[float | None, ...], cut: bool = False) -> Signal:
        made = tuple(
            tuple(
                Sampled(task, reward, "hm", "" if reward is not None else "it raised", cut)
                for reward in group
            )
            for task, group in enumerate(groups)
        )
        return Signal(made, "tiny", 1.0)

    def all(self, **changes: object) -> Observations:
        opening = self.opening()
        sound = Observations(
            limits=self.limits,
            config=self.config(),
            context=2048,
            files=2,
            first=opening,
            second=opening,
            prompts=tuple(Prompt(task.index, 20) for task in opening.tasks),
            canned=self.standard(),
            signal=self.signal((0.0, 1.0), (0.0, 0.0)),
        )
        return replace(sound, **changes)


@pytest.fixture(scope="session")
def seen() -> Seen:
    return Seen()
