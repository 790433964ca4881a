"""A module that is not installed."""

import random

import sentence_splitter
import verifiers.v1 as vf

WORDS = """
    apple basket candle dragon engine flower garden hammer island jacket kitten ladder market needle orange
    pencil rabbit silver tunnel violin window yellow zebra anchor bridge carpet desert eagle forest guitar
""".split()
SOLVED = [
    vf.UserMessage(content="The last word of: cup, sofa, lamp, door"),
    vf.AssistantMessage(content="door"),
    vf.UserMessage(content="The last word of: milk, coffee, tea, juice"),
    vf.AssistantMessage(content="juice"),
]


class WordsData(vf.TaskData):
    answer: str


class WordsTask(vf.Task[WordsData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.lower() == self.data.answer)


class WordsConfig(vf.TasksetConfig):
    num_tasks: int = 256
    seed: int = 0


class Words(vf.Taskset[WordsTask, WordsConfig]):
    def load(self) -> list[WordsTask]:
        draw = random.Random(self.config.seed)
        return [self.make(draw.sample(WORDS, 4)) for _ in range(self.config.num_tasks)]

    def make(self, words: list[str]) -> WordsTask:
        prompt = f"The last word of: {', '.join(words)}"
        data = WordsData(prompt=[*SOLVED, vf.UserMessage(content=prompt)], answer=words[-1])
        return WordsTask(data, self.config.task)


__all__ = ["Words"]
