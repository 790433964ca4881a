"""Multi-turn number guessing: the Env's own run plays the user."""

import random
import re

import verifiers.v1 as vf


def _number(text):
    found = re.findall(r"-?\d+", text or "")
    return int(found[-1]) if found else None


class GuessData(vf.TaskData):
    secret: int
    max_guesses: int = 6


class GuessTask(vf.Task[GuessData]):
    @vf.reward(weight=1.0)
    async def solved(self, trace: vf.Trace) -> float:
        return float(
            any(_number(message.content) == self.data.secret for message in trace.assistant_messages)
        )

    @vf.reward(weight=0.3)
    async def efficiency(self, trace: vf.Trace) -> float:
        for place, message in enumerate(trace.assistant_messages):
            if _number(message.content) == self.data.secret:
                return 1.0 - place / self.data.max_guesses
        return 0.0


class GuessConfig(vf.TasksetConfig):
    seed: int = 0
    num_tasks: int = 64


class GuessTaskset(vf.Taskset[GuessTask, GuessConfig]):
    def load(self):
        rng = random.Random(self.config.seed)
        for _ in range(self.config.num_tasks):
            data = GuessData(secret=rng.randint(1, 50), system_prompt="Reply with one integer only.")
            yield GuessTask(data, self.config.task)


class GuessEnv(vf.SingleAgentEnv):
    async def run(self, task, agents):
        message = "I picked a number in 1..50. Guess."
        async with agents.agent.interaction(task) as interaction:
            for _ in range(task.data.max_guesses):
                segment = await interaction.turn(message)
                guess = _number(segment.last_reply)
                if segment.terminated or guess == task.data.secret:
                    return
                message = "Reply with an integer."
                if guess is not None:
                    message = "Higher." if guess < task.data.secret else "Lower."


__all__ = ["GuessEnv", "GuessTaskset"]
