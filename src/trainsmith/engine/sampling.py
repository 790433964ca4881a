"""Sampling many requests at once: shared prompts once, finished rows dropped, bounded memory.

Requests with the same prompt form a group. Prompts of a batch are packed into one tree and read once; the
header that all of them share is kept once, each prompt's tail once, and only sampled tokens once a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.batching import BatchLimits, batches, prefill_chunks, shared_header
from trainsmith.engine.decoder import final_norm, forward_packed, logits_of
from trainsmith.engine.decoding import Decoding, PromptBatch
from trainsmith.engine.network import Network
from trainsmith.engine.packed_input import pack_input
from trainsmith.engine.randomness import choose, uniforms
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.token_tree import build_tree

CPU_LIMITS = BatchLimits(rows=256, cache_bytes=2**30, prefill_tokens=4096)
"""More rows gain little on a CPU."""
GPU_LIMITS = BatchLimits(rows=2048, cache_bytes=8 * 2**30, prefill_tokens=16384)
"""A step's time hardly depends on the number of rows."""


@dataclass(slots=True)
class _Row:
    """One request on its way."""

    index: int
    request: SampleRequest
    tokens: list[int]
    logprobs: list[float]


class Sampler:
    """Samples from a network whose weights may change between calls, never during one."""

    def __init__(
        self, network: Network, architecture: Architecture, rotary: Rotary, stop: frozenset[int]
    ) -> None:
        self._network = network
        self._architecture = architecture
        self._rotary = rotary
        self._stop = stop
        self._limits = CPU_LIMITS if network.norm.device.type == "cpu" else GPU_LIMITS

    @torch.no_grad()
    def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """One completion a request, in order."""
        done: dict[int, Completion] = {}
        for batch in batches(requests, self._limits, self._architecture.cache_bytes):
            for row in self._sample_batch([_Row(index, requests[index], [], []) for index in batch]):
                done[row.index] = self._completion(row)
        return [done[index] for index in range(len(requests))]

    def _completion(self, row: _Row) -> Completion:
        stopped = row.tokens[-1] in self._stop
        return Completion(tuple(row.tokens), tuple(row.logprobs), "stop" if stopped else "length")

    def _sample_batch(self, rows: list[_Row]) -> list[_Row]:
        prompts = sorted({row.request.prompt for row in rows})
        number = {prompt: index for index, prompt in enumerate(prompts)}
        rows.sort(key=lambda row: number[row.request.prompt])
        prompt_of_row = tuple(number[row.request.prompt] for row in rows)
        batch = PromptBatch(tuple(prompts), shared_header(prompts), prompt_of_row)
        decoding = Decoding(self._network, self._architecture, self._rotary, batch)
        logits = self._prefill(batch, decoding)
        self._decode(rows, decoding, logits[torch.tensor(prompt_of_row, device=logits.device)])
        return rows

    def _prefill(self, batch: PromptBatch, decoding: Decoding) -> Tensor:
        """Read the prompts into the caches; the logits [P, V] after each of them."""
        device = str(self._network.norm.device)
        last = []
        for chunk in prefill_chunks(batch.prompts, self._limits.prefill_tokens):
            tree = build_tree([batch.prompts[index] for index in chunk])
            cache = decoding.packed_cache(len(tree))
            packed = pack_input(tree, self._rotary, device)
            x = F.embedding(packed.tokens_T, self._network.embedding)
            hidden = forward_packed(self._network, self._architecture, packed, x, cache)
            decoding.keep_prompts(chunk, tree, *cache)
            last.append(hidden[torch.tensor([int(path[-1]) for path in tree.paths], device=device)])
        return logits_of(self._network, final_norm(self._network, self._architecture, torch.cat(last)))

    def _decode(self, rows: list[_Row], decoding: Decoding, logits: Tensor) -> None:
        device = logits.device
        limits = torch.tensor([row.request.max_tokens for row in rows], device=device)
        temperature = torch.tensor(
            [row.request.temperature for row in rows], dtype=torch.float32, device=device
        )
        numbers = uniforms([row.request.seed for row in rows], int(limits.max())).to(device)
        stop = torch.tensor(sorted(self._stop), dtype=torch.int64, device=device)
        live = list(rows)
        for step in range(int(limits.max())):
            tokens, logprobs = choose(logits, temperature, numbers[:, step])
            for row, token, logprob in zip(live, tokens.tolist(), logprobs.tolist(), strict=True):
                row.tokens.append(token)
                row.logprobs.append(logprob)
            on = ~torch.isin(tokens, stop) & (limits > step + 1)
            if not bool(on.all()):
                keep = on.nonzero()[:, 0]
                if not len(keep):
                    return
                decoding.drop(keep)
                live = [live[index] for index in keep.tolist()]
                tokens, limits, temperature, numbers = (
                    x[keep] for x in (tokens, limits, temperature, numbers)
                )
            logits = decoding.step(tokens)
