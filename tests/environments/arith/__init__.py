"""Single-turn arithmetic with two rewards and one metric: the plainest environment."""

import random
import re

import verifiers.v1 as vf

_ANSWER = re.compile(r"<answer>\s*(-?\d+)\s*</answer>")


class ArithData(vf.TaskData):
    answer: int


class ArithTask(vf.Task[ArithData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = _ANSWER.search(trace.last_reply or "")
        return float(found is not None and int(found.group(1)) == self.data.answer)

    @vf.reward(weight=0.2)
    async def formatted(self, trace: vf.Trace) -> float:
        return float(len(_ANSWER.findall(trace.last_reply or "")) == 1)

    @vf.metric
    async def reply_chars(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply or ""))


class ArithConfig(vf.TasksetConfig):
    seed: int = 0
    num_tasks: int = 256


class ArithTaskset(vf.Taskset[ArithTask, ArithConfig]):
    def load(self):
        rng = random.Random(self.config.seed)
        for _ in range(self.config.num_tasks):
            a, b = rng.randint(10, 99), rng.randint(10, 99)
            data = ArithData(
                prompt=f"What is {a} * {b}?",
                system_prompt="Give only the final integer inside <answer></answer>.",
                answer=a * b,
            )
            yield ArithTask(data, self.config.task)


__all__ = ["ArithTaskset"]
