"""The sides of `grpo.py`: the same GRPO steps on this engine and on TRL's GRPOTrainer.

A step: sample the prompts' groups, score the texts, make one AdamW update of all weights from all samples.
Every sample has the same number of tokens, so both sides compute the same forward and backward passes in
number of tokens that are trained. TRL's policy loss is its default (clipped, `dapo`), ours prime-rl's: they
differ in a few operations a token.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.prompts import Prompt, chats, encode_chats
from trainsmith.records import Message, Record

if TYPE_CHECKING:
    from benchmarks.side import Turns
    from trainsmith.engine.learner import Learner
    from trainsmith.engine.policy import Policy
    from trainsmith.engine.records import Completion, SampleRequest, Trajectory


class Work(Record):
    """What both sides do."""

    directory: Path
    device: Literal["cpu", "cuda"] = "cpu"
    prompts: int
    samples: int
    new: int
    steps: int
    """Optimiser steps of one turn."""
    lr: float = 1e-5

    @property
    def name(self) -> str:
        """Short."""
        return f"{self.prompts} x {self.samples} x {self.new}, {self.steps} step" + "s" * (self.steps > 1)

    @property
    def tokens(self) -> int:
        """New tokens of a turn."""
        return self.prompts * self.samples * self.new * self.steps


class OurSpec(Record):
    """This engine's settings."""

    work: Work
    dtype: Literal["float32", "bfloat16"]


class TrlSpec(Record):
    """TRL's settings that move its speed."""

    work: Work
    precision: Literal["float32", "autocast", "bfloat16"]
    """All in float32; float32 weights under bfloat16 autocast; weights and optimiser in bfloat16 too."""
    micro_batch: int
    """Samples of one forward and backward pass; a divisor of all of a step's."""
    cache: Literal["dynamic", "static"] = "dynamic"
    checkpointing: bool = False

    @property
    def name(self) -> str:
        """Short."""
        return (
            f"trl {self.precision} mb{self.micro_batch}"
            + " static" * (self.cache == "static")
            + " checkpointing" * self.checkpointing
        )


def reward(text: str) -> float:
    """How varied the letters are: differs between nearly all samples, so that no group is without signal."""
    return len(set(text)) / max(1, len(text))


def ours(text: str, turns: Turns) -> None:
    """This engine's policy and learner, without jail and trainer."""
    from trainsmith.engine.learner import Learner
    from trainsmith.engine.policy import Policy
    from trainsmith.engine.records import OptimSpec

    spec = OurSpec.model_validate_json(text)
    policy = Policy.load(spec.work.directory, device=spec.work.device, dtype=spec.dtype)
    rows = encode_chats(policy.tokenizer, spec.work.prompts)
    learner = Learner(policy, OptimSpec(lr=spec.work.lr, weight_decay=0.0, max_norm=1.0))
    count = itertools.count()
    while turns.next() is not None:
        turns.start()
        turns.stop(sum(step(policy, learner, rows, spec.work, next(count)) for _ in range(spec.work.steps)))


def step(policy: Policy, learner: Learner, rows: list[Prompt], work: Work, number: int) -> int:
    """One GRPO step; its new tokens."""
    requests = [_request(row, work, (number * len(rows) + at) * work.samples) for at, row in enumerate(rows)]
    done = policy.sample([request for group in requests for request in group])
    batch: list[Trajectory] = []
    for row, start in zip(rows, range(0, len(done), work.samples), strict=True):
        batch += _credited(policy, row, done[start : start + work.samples])
    learner.update(batch)
    return sum(len(completion.tokens) for completion in done)


def _request(row: Prompt, work: Work, seed: int) -> list[SampleRequest]:
    from trainsmith.engine.records import SampleRequest

    return [
        SampleRequest(row, work.new, 1.0, seed + sample, stop_tokens=()) for sample in range(work.samples)
    ]


def _credited(policy: Policy, row: Prompt, group: Sequence[Completion]) -> list[Trajectory]:
    from trainsmith.engine.records import Trajectory

    rewards = [reward(policy.tokenizer.decode(completion.tokens)) for completion in group]
    mean = fmean(rewards)
    return [
        Trajectory(
            tokens=(*row, *completion.tokens),
            mask=(False,) * len(row) + (True,) * len(completion.tokens),
            logprobs=(0.0,) * len(row) + completion.logprobs,
            advantage=value - mean,
        )
        for completion, value in zip(group, rewards, strict=True)
    ]


def trl(text: str, turns: Turns) -> None:
    """TRL's GRPOTrainer, held at the beginning of each turn."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOTrainer

    spec = TrlSpec.model_validate_json(text)
    dtype = torch.bfloat16 if spec.precision == "bfloat16" else torch.float32
    asked = [[_plain(message) for message in chat] for chat in chats(spec.work.prompts)]
    with tempfile.TemporaryDirectory() as scratch:
        GRPOTrainer(
            AutoModelForCausalLM.from_pretrained(spec.work.directory, dtype=dtype),
            _scored(spec.work.new),
            _trl_settings(spec, scratch),
            Dataset.from_dict({"prompt": asked}),
            processing_class=AutoTokenizer.from_pretrained(spec.work.directory),
            callbacks=[_held(spec.work, turns)],
        ).train()


def _plain(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


def _scored(new: int) -> Any:
    """TRL's reward function; the work is not equal unless every sample has all its tokens."""

    def scored(completions: list[Any], completion_ids: list[list[int]], **_: Any) -> list[float]:
        assert all(len(tokens) == new for tokens in completion_ids)
        return [reward(completion[0]["content"]) for completion in completions]

    return scored


def _held(work: Work, turns: Turns) -> Any:
    """A callback that waits for the parent before every turn and answers after it."""
    from transformers import TrainerCallback

    class Held(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % work.steps == 0:
                if turns.next() is None:
                    raise SystemExit
                turns.start()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % work.steps == 0:
                turns.stop(work.tokens)

    return Held()


def _trl_settings(spec: TrlSpec, scratch: str) -> Any:
    """What is not chosen by `spec` is the same on both sides, or nothing but work that TRL is spared."""
    from trl import GRPOConfig

    work = spec.work
    return GRPOConfig(
        output_dir=scratch,
        per_device_train_batch_size=spec.micro_batch,
        gradient_accumulation_steps=work.prompts * work.samples // spec.micro_batch,
        num_generations=work.samples,
        num_iterations=1,
        beta=0.0,
        max_completion_length=work.new,
        generation_kwargs={"min_new_tokens": work.new},
        cache_implementation="static" if spec.cache == "static" else None,
        temperature=1.0,
        learning_rate=work.lr,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        optim="adamw_torch_fused",
        scale_rewards="none",
        gradient_checkpointing=spec.checkpointing,
        bf16=spec.precision == "autocast",
        use_cpu=work.device == "cpu",
        max_steps=1_000_000,
        shuffle_dataset=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
