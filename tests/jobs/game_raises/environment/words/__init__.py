"""The Env raises when the reply is no number."""

import random
import re

import verifiers.v1 as vf

SPAN = 8


class GuessData(vf.TaskData):
    low: int
    secret: int


class GuessTask(vf.Task[GuessData]):
    @vf.reward
    async def solved(self, trace: vf.Trace) -> float:
        return float(any(guess(message.content) == self.data.secret for message in trace.assistant_messages))


class GuessConfig(vf.TasksetConfig):
    num_tasks: int = 200
    seed: int = 0


class Guesses(vf.Taskset[GuessTask, GuessConfig]):
    def load(self) -> list[GuessTask]:
        draw = random.Random(self.config.seed)
        return [self.make(draw.randint(1, 80), draw.randint(0, SPAN)) for _ in range(self.config.num_tasks)]

    def make(self, low: int, above: int) -> GuessTask:
        rules = f"Guess a number from {low} to {low + SPAN}. Reply with one number, such as {low + 3}, and no words."
        return GuessTask(GuessData(system_prompt=rules, low=low, secret=low + above), self.config.task)


class GuessEnv(vf.SingleAgentEnv):
    async def run(self, task: GuessTask, agents: vf.Agents) -> None:
        said = "Guess."
        async with agents.agent.interaction(task) as talk:
            for _ in range(3):
                turn = await talk.turn(said)
                if turn.terminated:
                    return
                number = guess(turn.last_reply)
                if number == task.data.secret:
                    return
                said = "Higher." if number < task.data.secret else "Lower."


def guess(text: str | None) -> int | None:
    found = re.match(r"\d{1,4}", text or "")
    return int(found[0]) if found else None


__all__ = ["GuessEnv", "Guesses"]
