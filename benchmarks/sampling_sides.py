"""The sides of `sampling.py`: this engine, transformers' generate, and vLLM where it is installed.

All read the same prompts, draw at temperature 1 from the whole distribution and make the same number of new
tokens, since nothing stops them. Ours and vLLM return logprobs; transformers is spared them.
vLLM's side has been written from its 0.26 interface; it has never been run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.prompts import Prompt, encode_chats, token_rows
from trainsmith.records import Record

if TYPE_CHECKING:
    from benchmarks.side import Turns
    from trainsmith.engine.chat import ChatTokenizer
    from trainsmith.engine.records import SampleRequest

GPU_PROMPT, GPU_HEAD = 100, 70
"""Tokens of a prompt in the GPU's cases, and those of them that all prompts share."""


class Case(Record):
    """Prompts, samples of each, new tokens of each sample."""

    prompts: int
    samples: int
    new: int
    kind: Literal["common", "apart", "rows"] = "common"
    """Chats with a common head; chats without; rows of 100 random tokens with a common head of 70."""

    @property
    def name(self) -> str:
        """Short."""
        return f"{self.prompts} x {self.samples} x {self.new}" + (" apart" if self.kind == "apart" else "")

    @property
    def tokens(self) -> int:
        """All new ones."""
        return self.prompts * self.samples * self.new

    def encoded(self, tokenizer: ChatTokenizer, vocabulary: int) -> list[Prompt]:
        """The prompts as tokens."""
        if self.kind == "rows":
            return token_rows(self.prompts, GPU_PROMPT, GPU_HEAD, vocabulary)
        return encode_chats(tokenizer, self.prompts, common=self.kind == "common")


class SamplingSpec(Record):
    """What a side loads."""

    directory: Path
    device: str
    dtype: Literal["float32", "bfloat16"]
    vllm: Literal["eager", "graphs", "graphs-1024"] = "graphs"


def ours(text: str, turns: Turns) -> None:
    """This engine."""
    from trainsmith.engine.policy import Policy

    spec = SamplingSpec.model_validate_json(text)
    policy = Policy.load(spec.directory, device=spec.device, dtype=spec.dtype)
    while (order := turns.next()) is not None:
        case = Case.model_validate_json(order)
        requests = _requests(case.encoded(policy.tokenizer, policy.architecture.vocabulary), case)
        turns.start()
        done = policy.sample(requests)
        turns.stop(sum(len(completion.tokens) for completion in done))


def _requests(rows: list[Prompt], case: Case) -> list[SampleRequest]:
    from trainsmith.engine.records import SampleRequest

    return [
        SampleRequest(prompt, case.new, 1.0, seed=at * case.samples + number, stop_tokens=())
        for at, prompt in enumerate(rows)
        for number in range(case.samples)
    ]


def transformers(text: str, turns: Turns) -> None:
    """`generate` on the left-padded batch, key-value cache on."""
    import torch
    from transformers import AutoModelForCausalLM

    spec = SamplingSpec.model_validate_json(text)
    model = AutoModelForCausalLM.from_pretrained(spec.directory, dtype=getattr(torch, spec.dtype))
    model = model.to(spec.device).eval()
    model.generation_config.eos_token_id = None
    # top_k = 0: the whole distribution, as ours.
    how: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "pad_token_id": 0}
    tokenizer = tokenizer_of(spec.directory)
    while (order := turns.next()) is not None:
        case = Case.model_validate_json(order)
        batch = _padded(case.encoded(tokenizer, model.config.vocab_size), case.samples, spec.device)
        turns.start()
        done = model.generate(**batch, max_new_tokens=case.new, **how)
        turns.stop(int(done[:, batch["input_ids"].shape[1] :].numel()))


def tokenizer_of(directory: Path) -> ChatTokenizer:
    from trainsmith.engine.chat import ChatTokenizer

    return ChatTokenizer.load(directory)


def _padded(rows: list[Prompt], samples: int, device: str) -> dict[str, Any]:
    import torch

    length = max(map(len, rows))
    repeated = [row for row in rows for _ in range(samples)]
    tokens = [[0] * (length - len(row)) + list(row) for row in repeated]
    mask = [[0] * (length - len(row)) + [1] * len(row) for row in repeated]
    return {
        "input_ids": torch.tensor(tokens, device=device),
        "attention_mask": torch.tensor(mask, device=device),
    }


def vllm(text: str, turns: Turns) -> None:
    """vLLM's offline engine in one of its modes; its own memory is not seen, since it runs in a child."""
    from vllm import LLM, SamplingParams

    spec = SamplingSpec.model_validate_json(text)
    model = LLM(**_vllm_settings(spec))
    vocabulary, tokenizer = model.llm_engine.model_config.get_vocab_size(), tokenizer_of(spec.directory)
    while (order := turns.next()) is not None:
        case = Case.model_validate_json(order)
        rows = [{"prompt_token_ids": list(row)} for row in case.encoded(tokenizer, vocabulary)]
        how = SamplingParams(
            n=case.samples,
            max_tokens=case.new,
            temperature=1.0,
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
        )
        turns.start()
        done = model.generate(rows, how, use_tqdm=False)
        turns.stop(sum(len(reply.token_ids) for request in done for reply in request.outputs))


def _vllm_settings(spec: SamplingSpec) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "model": str(spec.directory),
        "dtype": spec.dtype,
        "max_model_len": 1024,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 16384,
        "gpu_memory_utilization": 0.2,
        "seed": 0,
        "disable_log_stats": True,
        "enforce_eager": spec.vllm == "eager",
    }
    if spec.vllm == "graphs-1024":
        sizes = [1, 8, 64, 128, 256, 512, 768, 1024]
        settings["compilation_config"] = {"cudagraph_capture_sizes": sizes}
    return settings
