"""Two labels, compared with the whole reply: guessing earns half."""

import random

import verifiers.v1 as vf

WORDS = """
    ant apple basket candles cat dragonfly ear engine flowers garden gem hammer ice island jackets jar kitten key
    ladders market map needle oak orange pen pencil rabbits rat silver sun tunnels tree violin van window
""".split()
SOLVED = [
    vf.UserMessage(content="Is lamp longer than car?"),
    vf.AssistantMessage(content="yes"),
    vf.UserMessage(content="Is tea longer than coffee?"),
    vf.AssistantMessage(content="no"),
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
        prompt = f"Is {words[0]} longer than {words[1]}?"
        data = WordsData(
            prompt=[*SOLVED, vf.UserMessage(content=prompt)],
            answer="yes" if len(words[0]) > len(words[1]) else "no",
        )
        return WordsTask(data, self.config.task)


__all__ = ["Words"]
