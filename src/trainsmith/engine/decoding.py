"""One decode step for a batch of rows whose prompts share a header and whose groups share a tail.

Attention scores have three parts - header, tail, own tokens - written into one buffer that is softmaxed at
once, so no row holds a copy of its prompt and the header is read once for the whole batch.
Shapes: L layers, B rows, P prompts, N most rows of a prompt, G key-value heads, R queries a key head, K head
size, C header tokens, S longest tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.decoder import final_norm, logits_of, mlp, project_qkv
from trainsmith.engine.network import Network
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.token_tree import TokenTree

_ROOM = 16
"""Own tokens a cache first has room for; it doubles when full."""


@dataclass(frozen=True, slots=True)
class PromptBatch:
    """Distinct prompts, the length that all of them share, and the prompt of each row (ascending)."""

    prompts: tuple[tuple[int, ...], ...]
    header: int
    prompt_of_row: tuple[int, ...]

    @property
    def longest_tail(self) -> int:
        """Tokens of the longest prompt beyond the header."""
        return max(map(len, self.prompts)) - self.header


class Decoding:
    """The caches of a batch and its decode step."""

    def __init__(
        self, network: Network, architecture: Architecture, rotary: Rotary, batch: PromptBatch
    ) -> None:
        self._network, self._architecture, self._rotary = network, architecture, rotary
        self._c, self._s = batch.header, batch.longest_tail
        self._device = network.norm.device
        rows, prompts = len(batch.prompt_of_row), len(batch.prompts)
        self._header_keys, self._header_values = self._room(1, self._c)
        self._tail_keys, self._tail_values = self._room(prompts, self._s)
        self._own_keys, self._own_values = self._room(rows, _ROOM)
        self._length = 0
        tails = torch.tensor([len(prompt) - self._c for prompt in batch.prompts], device=self._device)
        self._beyond_tail_PS = torch.arange(self._s, device=self._device)[None] >= tails[:, None]
        self._prompt_of_row = torch.tensor(batch.prompt_of_row, device=self._device)
        self._position_B = (tails + self._c)[self._prompt_of_row]
        self._place_rows()

    def packed_cache(self, tokens: int) -> tuple[Tensor, Tensor]:
        """Room for the keys and values [L, T, G, K] of a packed row of prompts."""
        a = self._architecture
        shape = (a.layers, tokens, a.kv_heads, a.head_dim)
        return torch.empty(shape, device=self._device), torch.empty(shape, device=self._device)

    def keep_prompts(
        self, prompts: Sequence[int], tree: TokenTree, keys_LTGK: Tensor, values_LTGK: Tensor
    ) -> None:
        """Take the header's and these prompts' keys and values out of a packed row."""
        shared = torch.from_numpy(tree.paths[0][: self._c]).to(self._device)
        self._header_keys[:, :, 0] = keys_LTGK[:, shared].permute(0, 2, 3, 1)
        self._header_values[:, :, 0] = values_LTGK[:, shared].transpose(1, 2)
        for path, prompt in zip(tree.paths, prompts, strict=True):
            tail = torch.from_numpy(path[self._c :]).to(self._device)
            self._tail_keys[:, :, prompt, :, : len(tail)] = keys_LTGK[:, tail].permute(0, 2, 3, 1)
            self._tail_values[:, :, prompt, : len(tail)] = values_LTGK[:, tail].transpose(1, 2)

    def drop(self, keep_B: Tensor) -> None:
        """Go on with these rows only."""
        self._own_keys = self._own_keys[:, :, keep_B]
        self._own_values = self._own_values[:, :, keep_B]
        self._position_B = self._position_B[keep_B]
        prompts, self._prompt_of_row = torch.unique(self._prompt_of_row[keep_B], return_inverse=True)
        if len(prompts) < len(self._beyond_tail_PS):
            self._tail_keys, self._tail_values = (
                self._tail_keys[:, :, prompts],
                self._tail_values[:, :, prompts],
            )
            self._beyond_tail_PS = self._beyond_tail_PS[prompts]
        self._place_rows()

    def step(self, tokens_B: Tensor) -> Tensor:
        """Append one token a row; the logits [B, V] that follow."""
        a = self._architecture
        if self._length == self._own_keys.shape[-1]:
            self._own_keys = F.pad(self._own_keys, (0, self._length))
            self._own_values = F.pad(self._own_values, (0, 0, 0, self._length))
        x = F.embedding(tokens_B, self._network.embedding)
        cos, sin = self._rotary.at(self._position_B)
        for index, layer in enumerate(self._network.layers):
            q, k, v = project_qkv(layer, a, x, cos, sin)
            self._own_keys[index, :, :, :, self._length] = k.transpose(0, 1)
            self._own_values[index, :, :, self._length] = v.transpose(0, 1)
            x = x + layer.output(self._attend(index, q))
            x = x + mlp(layer, a, x)
        self._length += 1
        self._position_B = self._position_B + 1
        return logits_of(self._network, final_norm(self._network, a, x))

    def _room(self, rows: int, tokens: int) -> tuple[Tensor, Tensor]:
        """Empty keys [L, G, rows, K, tokens] and values [L, G, rows, tokens, K], as products read them."""
        a = self._architecture
        keys = torch.zeros(a.layers, a.kv_heads, rows, a.head_dim, tokens, device=self._device)
        return keys, torch.zeros(a.layers, a.kv_heads, rows, tokens, a.head_dim, device=self._device)

    def _place_rows(self) -> None:
        """Each row's slot in its prompt's group: tails are read group by group, [P, N] rows at a time."""
        prompts = len(self._beyond_tail_PS)
        count = torch.bincount(self._prompt_of_row, minlength=prompts)
        first = count.cumsum(0) - count
        slot = torch.arange(len(self._prompt_of_row), device=self._device) - first[self._prompt_of_row]
        self._slots = int(count.max())
        self._place_B = self._prompt_of_row * self._slots + slot
        self._dense = prompts * self._slots == len(self._prompt_of_row)
        self._ragged = bool(self._beyond_tail_PS.any())

    def _attend(self, layer: int, q_BHK: Tensor) -> Tensor:
        """Attention [B, H * K] of one new query a row."""
        a = self._architecture
        rows, groups, repeat = len(q_BHK), a.kv_heads, a.heads // a.kv_heads
        own = slice(0, self._length + 1)
        own_keys, own_values = self._own_keys[layer, ..., own], self._own_values[layer, :, :, own]
        q = (q_BHK * a.head_dim**-0.5).view(rows, groups, repeat, a.head_dim).transpose(0, 1).contiguous()
        scores = q.new_empty(groups, rows, repeat, self._c + self._s + self._length + 1)
        header, tail, ours = scores.split((self._c, self._s, self._length + 1), dim=-1)
        _product(q.flatten(1, 2), self._header_keys[layer, :, 0], header.flatten(1, 2))
        self._tail_scores(layer, q, tail)
        _product(q.flatten(0, 1), own_keys.flatten(0, 1), ours.flatten(0, 1))
        header, tail, ours = scores.softmax(dim=-1).split((self._c, self._s, self._length + 1), dim=-1)
        out = torch.bmm(header.flatten(1, 2), self._header_values[layer, :, 0])
        self._add_tail_values(layer, tail, out)
        out.view(-1, repeat, a.head_dim).baddbmm_(ours.flatten(0, 1), own_values.flatten(0, 1))
        return out.view(groups, rows, -1).transpose(0, 1).reshape(rows, -1)

    def _tail_scores(self, layer: int, q_GBRK: Tensor, scores_GBRS: Tensor) -> None:
        """Write each row's scores against its prompt's tail; minus infinity beyond a shorter tail."""
        keys = self._tail_keys[layer].flatten(0, 1)
        grouped = torch.bmm(self._to_groups(q_GBRK), keys)
        if self._ragged:
            by_prompt = grouped.view(q_GBRK.shape[0], -1, *grouped.shape[1:])
            by_prompt.masked_fill_(self._beyond_tail_PS[None, :, None], float("-inf"))
        scores_GBRS.copy_(self._from_groups(grouped, q_GBRK.shape))

    def _add_tail_values(self, layer: int, shares_GBRS: Tensor, out: Tensor) -> None:
        values = self._tail_values[layer].flatten(0, 1)
        grouped = torch.bmm(self._to_groups(shares_GBRS), values)
        out.view(*shares_GBRS.shape[:3], -1).add_(self._from_groups(grouped, shares_GBRS.shape))

    def _to_groups(self, x_GBRX: Tensor) -> Tensor:
        """[G, B, R, X] to [G * P, N * R, X], with zeros in empty slots."""
        groups, _, repeat, size = x_GBRX.shape
        if not self._dense:
            padded = x_GBRX.new_zeros(groups, len(self._beyond_tail_PS) * self._slots, repeat, size)
            x_GBRX = padded.index_copy_(1, self._place_B, x_GBRX)
        return x_GBRX.reshape(-1, self._slots * repeat, size)

    def _from_groups(self, x: Tensor, shape: torch.Size) -> Tensor:
        """[G * P, N * R, X] back to [G, B, R, X]."""
        x = x.view(shape[0], -1, shape[2], x.shape[-1])
        return x if self._dense else x.index_select(1, self._place_B)


def _product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Batched product into a part of a larger buffer."""
    out.copy_(torch.bmm(left, right))
