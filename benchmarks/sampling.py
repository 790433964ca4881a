"""Sampling speed: this engine against transformers' generate, in one run on one machine.

    python benchmarks/sampling.py [--threads 1] [--dtype float32] [--repeats 5] [--json FILE]

Every sequence gets the same number of new tokens (stopping is off) at temperature 1. One warm-up, then the
median of the repeats; the two sides take turns, so that a busy machine slows both. Speeds are new tokens per
CPU second of the process, and per wall second. Does not measure quality, start-up or GPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainsmith.engine.policy import Policy


@dataclass(frozen=True)
class Case:
    """Prompts, samples of each, new tokens of each sample."""

    prompts: int
    samples: int
    new: int

    @property
    def name(self) -> str:
        return f"{self.prompts} x {self.samples} x {self.new}"

    @property
    def tokens(self) -> int:
        return self.prompts * self.samples * self.new


@dataclass(frozen=True)
class Speed:
    """New tokens per second, medians."""

    per_cpu_second: float
    per_wall_second: float


@dataclass(frozen=True)
class Row:
    """One case: both sides and their ratio."""

    case: str
    prompt_tokens: int
    ours: Speed
    transformers: Speed
    ratio_cpu: float
    ratio_wall: float


CASES = (Case(1, 1, 24), Case(1, 8, 24), Case(8, 8, 24), Case(64, 1, 24))
WORDS = ("sun", "moon", "tree", "stone", "river", "apple", "green", "cloud", "house", "dog", "night", "paper")


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    rows = measure(options.base, options.threads, options.dtype, options.repeats)
    print_table(rows, options.threads, options.dtype)
    document = {
        "machine": {"cpu": cpu_name(), "load": os.getloadavg()[0], "threads": options.threads},
        "dtype": options.dtype,
        "repeats": options.repeats,
        "rows": [asdict(row) for row in rows],
    }
    if options.json:
        options.json.write_text(json.dumps(document, indent=1))
    else:
        print(json.dumps(document))


def measure(base: str, threads: int, dtype: Literal["float32", "bfloat16"], repeats: int) -> list[Row]:
    """Load both sides once and run every case."""
    import torch
    from transformers import AutoModelForCausalLM

    from trainsmith import bases
    from trainsmith.engine.policy import Policy

    torch.set_num_threads(threads)
    directory = bases.fetch(base, progress=print)
    policy = Policy.load(directory, device="cpu", dtype=dtype)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype)).eval()
    model.generation_config.eos_token_id = None
    rows = []
    for case in CASES:
        prompts = make_prompts(policy, case.prompts)
        ours, theirs = our_side(policy, prompts, case), their_side(model, prompts, case)
        mine, other = take_turns(case, repeats, ours, theirs)
        ratio_cpu = mine.per_cpu_second / other.per_cpu_second
        ratio_wall = mine.per_wall_second / other.per_wall_second
        rows.append(Row(case.name, max(map(len, prompts)), mine, other, ratio_cpu, ratio_wall))
    return rows


def our_side(policy: Policy, prompts: list[tuple[int, ...]], case: Case) -> Callable[[], None]:
    """One run of this engine, without stop tokens."""
    from trainsmith.engine.records import SampleRequest

    rows = [(prompt, at * case.samples + n) for at, prompt in enumerate(prompts) for n in range(case.samples)]
    requests = [SampleRequest(prompt, case.new, 1.0, seed, stop_tokens=()) for prompt, seed in rows]

    def run() -> None:
        assert sum(len(done.tokens) for done in policy.sample(requests)) == case.tokens

    return run


def their_side(model: PreTrainedModel, prompts: list[tuple[int, ...]], case: Case) -> Callable[[], None]:
    """One run of transformers' generate on the left-padded batch, without an end token."""
    import torch

    length = max(map(len, prompts))
    rows = [prompt for prompt in prompts for _ in range(case.samples)]
    tokens = torch.tensor([[0] * (length - len(prompt)) + list(prompt) for prompt in rows])
    mask = torch.tensor([[0] * (length - len(prompt)) + [1] * len(prompt) for prompt in rows])
    # top_k = 0: the whole distribution, as ours.
    how = {"max_new_tokens": case.new, "do_sample": True, "temperature": 1.0, "top_k": 0, "pad_token_id": 0}

    def run() -> None:
        done = model.generate(tokens, attention_mask=mask, **how)
        assert done.shape == (len(rows), length + case.new)

    return run


def make_prompts(policy: Policy, count: int) -> list[tuple[int, ...]]:
    """Two solved examples under a system message, then a question: about 70 tokens, 50 of them common."""
    import random

    from trainsmith.records import Message

    draw = random.Random(0)
    head = [Message(role="system", content="Reply with only the answer.")]
    for question, answer in (("red big cow", "cow"), ("my old hat", "hat")):
        head.append(Message(role="user", content=f"Last word of: {question}"))
        head.append(Message(role="assistant", content=answer))
    questions = [" ".join(draw.sample(WORDS, draw.randint(3, 7))) for _ in range(count)]
    encode = policy.tokenizer.encode_chat
    return [encode([*head, Message(role="user", content=f"Last word of: {q}")]) for q in questions]


def take_turns(case: Case, repeats: int, *sides: Callable[[], None]) -> list[Speed]:
    """Median speeds of the sides, each run once to warm up and then in turn."""
    for side in sides:
        side()
    seconds: list[list[tuple[float, float]]] = [[] for _ in sides]
    for _ in range(repeats):
        for taken, side in zip(seconds, sides, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            side()
            taken.append((time.process_time() - cpu, time.perf_counter() - wall))
    return [
        Speed(*(case.tokens / statistics.median(column) for column in zip(*taken, strict=True)))
        for taken in seconds
    ]


def print_table(rows: list[Row], threads: int, dtype: str) -> None:
    """A table for people."""
    print(f"\nnew tokens/s, {dtype}, {threads} thread(s): per CPU second (per wall second)")
    print(f"{'prompts x samples x new':>24} {'ours':>16} {'transformers':>16} {'ratio':>14}")
    for row in rows:
        ours, theirs = (
            f"{s.per_cpu_second:.0f} ({s.per_wall_second:.0f})" for s in (row.ours, row.transformers)
        )
        print(f"{row.case:>24} {ours:>16} {theirs:>16} {row.ratio_cpu:>6.2f} ({row.ratio_wall:.2f})")


def cpu_name() -> str:
    """The CPU's own name, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
