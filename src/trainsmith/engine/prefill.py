"""Reads prompts: their keys and values, the hidden state after each, and their own logprobs where asked for.

Shapes: L layers, T tokens, G key-value heads, K head size, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.decoder import Cache, final_norm, forward_packed, logits_of
from trainsmith.engine.network import Network
from trainsmith.engine.packed_input import pack_input
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.token_tree import build_tree

_LOGIT_ROWS = 128
"""Rows of logits at a time for prompt logprobs: 25 MB for a vocabulary of 49,152."""


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """One prompt, or the part of it after the past."""

    keys_LTGK: Tensor
    values_LTGK: Tensor
    last_D: Tensor
    """What the head reads after the last token."""
    logprobs: tuple[float | None, ...] | None


class PromptReader:
    """Reads prompts with one network."""

    def __init__(self, network: Network, architecture: Architecture, rotary: Rotary) -> None:
        self._network, self._a, self._rotary = network, architecture, rotary
        self._device = network.norm.device
        self.read_tokens = 0
        """Tokens that went through the model."""

    def read(
        self, prompts: Sequence[tuple[int, ...]], scored: Sequence[bool], past: Cache | None = None
    ) -> Iterator[ReadPrompt]:
        """Read prompts together, what they share once; one by one in their order.

        `past` holds keys and values [L, C, G, K] of the first C tokens, which all of them have: those are not
        read again. Prompts to be scored take no past.
        """
        skip = 0 if past is None else past[0].shape[1]
        tree = build_tree([prompt[skip:] for prompt in prompts])
        self.read_tokens += len(tree)
        packed = pack_input(tree, self._rotary, str(self._device), skip)
        x = F.embedding(packed.tokens_T, self._network.embedding)
        shape = (self._a.layers, len(tree), self._a.kv_heads, self._a.head_dim)
        cache = torch.empty(shape, device=self._device), torch.empty(shape, device=self._device)
        hidden = forward_packed(self._network, self._a, packed, x, cache, past)
        paths = [torch.from_numpy(path).to(self._device) for path in tree.paths]
        last = final_norm(self._network, self._a, hidden[torch.stack([path[-1] for path in paths])])
        for index, path in enumerate(paths):
            logprobs = self._score(prompts[index], hidden[path]) if scored[index] else None
            yield ReadPrompt(cache[0][:, path], cache[1][:, path], last[index], logprobs)

    def _score(self, prompt: tuple[int, ...], hidden_TD: Tensor) -> tuple[float | None, ...]:
        targets = torch.tensor(prompt[1:], device=self._device)
        found: list[float | None] = [None]
        parts = zip(torch.split(hidden_TD[:-1], _LOGIT_ROWS), torch.split(targets, _LOGIT_ROWS), strict=True)
        for rows, target in parts if len(targets) else ():
            logits = logits_of(self._network, final_norm(self._network, self._a, rows))
            logprobs = logits.log_softmax(dim=-1).gather(1, target[:, None])[:, 0]
            found += logprobs.tolist()
        return tuple(found)
