"""The caches of rows whose prompts share a header, and their attention in a decode step.

Attention scores have three parts - header, tail, own tokens - written into one buffer that is softmaxed at
once, so no row holds a copy of its prompt and the header is read once for the whole cohort. All rows write
their own tokens at the same place; a row that joined later sees nothing before its first one.
Shapes: L layers, B rows, P prompts, N most rows of a prompt, G key-value heads, R queries a key head, K head
size, C header tokens, S longest tail, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.decode_loop import Row

_ROOM = 16
"""Own tokens a cache first has room for; it doubles when full."""

Tokens = tuple[int, ...]


class Cohort:
    """Prompts, rows and caches. `logits` [B, V] follow each row's last token, until the next is chosen."""

    def __init__(self, architecture: Architecture, device: torch.device, header: int) -> None:
        """`header` tokens will be shared by all prompts."""
        self._a, self._device = architecture, device
        self.header = header
        self.prompts: list[Tokens] = []
        self.rows: list[Row] = []
        self.logits: Tensor | None = None
        self.newest_B: Tensor | None = None
        """The token of each row that is not in the caches yet."""
        self.slots = 0
        """Most rows of a prompt."""
        self._header_keys, self._header_values = self._room(1, header)
        self._tail_keys, self._tail_values = self._room(0, 0)
        self._own_keys, self._own_values = self._room(0, _ROOM)
        self._length = 0
        """Own tokens of the oldest row."""
        self._last_PD: list[Tensor] = []
        self._prompt_of_row = torch.zeros(0, dtype=torch.int64, device=device)
        self._position_B = torch.zeros(0, dtype=torch.int64, device=device)
        self._starts: list[int] = []
        """Where each row's own tokens begin."""

    # ---- prompts

    @property
    def longest_tail(self) -> int:
        """Tokens of the longest prompt beyond the header."""
        return self._tail_keys.shape[-1]

    @property
    def header_cache(self) -> tuple[Tensor, Tensor] | None:
        """Keys and values [L, C, G, K] of the header; None before the first prompt, or without a header."""
        if not self.prompts or not self.header:
            return None
        return self._header_keys[:, :, 0].permute(0, 3, 1, 2), self._header_values[:, :, 0].transpose(1, 2)

    @property
    def tokens(self) -> int:
        """Tokens that the caches hold, or will when every row is complete."""
        return self.header + len(self.prompts) * self.longest_tail + self.own_tokens()

    def own_tokens(self, more: Sequence[Row] = ()) -> int:
        """Room that own tokens take, or will, when more rows have joined: all rows have the same."""
        ends = [start + row.request.max_tokens for start, row in zip(self._starts, self.rows, strict=True)]
        ends += [self._length + row.request.max_tokens for row in more]
        return (len(self.rows) + len(more)) * max([self._own_keys.shape[-1], *ends])

    def last_hidden(self, prompt: int) -> Tensor:
        """What the head reads [D] after a prompt of this cohort."""
        return self._last_PD[prompt]

    def add_prompt(self, prompt: Tokens, keys_LTGK: Tensor, values_LTGK: Tensor, last_D: Tensor) -> None:
        """Take a prompt's keys and values: of all its tokens, or of those beyond the header."""
        beyond = len(prompt) - self.header
        skip = keys_LTGK.shape[1] - beyond
        if not self.prompts and self.header:
            self._header_keys[:, :, 0] = keys_LTGK[:, :skip].permute(0, 2, 3, 1)
            self._header_values[:, :, 0] = values_LTGK[:, :skip].transpose(1, 2)
        place = len(self.prompts)
        self.reserve(place + 1, beyond)
        self._tail_keys[:, :, place, :, :beyond] = keys_LTGK[:, skip:].permute(0, 2, 3, 1)
        self._tail_values[:, :, place, :beyond] = values_LTGK[:, skip:].transpose(1, 2)
        self.prompts.append(prompt)
        self._last_PD.append(last_D)

    def reserve(self, prompts: int, tail: int) -> None:
        """Make room for this many prompts and tails of this length."""
        more = max(0, prompts - self._tail_keys.shape[2])
        longer = max(0, tail - self._tail_keys.shape[-1])
        if more or longer:
            self._tail_keys = F.pad(self._tail_keys, (0, longer, 0, 0, 0, more))
            self._tail_values = F.pad(self._tail_values, (0, 0, 0, longer, 0, more))

    def shorten_header(self, header: int) -> None:
        """Let less be shared: the rest of the header goes in front of every tail."""
        rest = self.header - header
        if rest == 0:
            return
        prompts = self._tail_keys.shape[2]
        keys = self._header_keys[..., header:].expand(-1, -1, prompts, -1, -1)
        values = self._header_values[:, :, :, header:].expand(-1, -1, prompts, -1, -1)
        self._tail_keys = torch.cat((keys, self._tail_keys), dim=-1)
        self._tail_values = torch.cat((values, self._tail_values), dim=3)
        self._header_keys = self._header_keys[..., :header].contiguous()
        self._header_values = self._header_values[:, :, :, :header].contiguous()
        self.header = header

    # ---- rows

    def add_rows(self, rows: Sequence[Row], logits_BV: Tensor) -> None:
        """Take rows of known prompts, with the logits after their prompts."""
        place = {prompt: index for index, prompt in enumerate(self.prompts)}
        prompts = [row.request.prompt for row in rows]
        self._own_keys = F.pad(self._own_keys, (0, 0, 0, 0, 0, len(rows)))
        self._own_values = F.pad(self._own_values, (0, 0, 0, 0, 0, len(rows)))
        self._prompt_of_row = self._appended(self._prompt_of_row, [place[prompt] for prompt in prompts])
        self._position_B = self._appended(self._position_B, [len(prompt) for prompt in prompts])
        self._starts += [self._length] * len(rows)
        self.logits = logits_BV if self.logits is None else torch.cat((self.logits, logits_BV))
        self.rows += rows
        self._settle()

    def drop(self, gone: set[Row]) -> None:
        """Go on without these rows, and without prompts that no row has any more."""
        keep = [index for index, row in enumerate(self.rows) if row not in gone]
        if len(keep) == len(self.rows):
            return
        self.rows = [self.rows[index] for index in keep]
        if not keep:
            return
        keep_B = torch.tensor(keep, dtype=torch.int64, device=self._device)
        self._own_keys, self._own_values = self._own_keys[:, :, keep_B], self._own_values[:, :, keep_B]
        self._position_B, self._starts = self._position_B[keep_B], [self._starts[index] for index in keep]
        self.logits, self.newest_B = _kept(self.logits, keep_B), _kept(self.newest_B, keep_B)
        prompts, self._prompt_of_row = torch.unique(self._prompt_of_row[keep_B], return_inverse=True)
        if len(prompts) < len(self.prompts):
            self._keep_prompts(prompts)
        self._forget_the_oldest()
        self._settle()

    def _settle(self) -> None:
        """Find each row's slot in its prompt's group: tails are read by groups, [P, N] rows at a time."""
        prompts, rows = len(self.prompts), len(self.rows)
        count = torch.bincount(self._prompt_of_row, minlength=prompts)
        first = count.cumsum(0) - count
        order = torch.argsort(self._prompt_of_row, stable=True)
        every = torch.arange(rows, device=self._device)
        slot = torch.empty_like(every).index_copy_(0, order, every - first[self._prompt_of_row[order]])
        self.slots = int(count.max())
        self._place_B = self._prompt_of_row * self.slots + slot
        self._dense = prompts * self.slots == rows and bool((self._place_B == every).all())
        tails = torch.tensor([len(prompt) - self.header for prompt in self.prompts], device=self._device)
        self._beyond_tail_PS = torch.arange(self.longest_tail, device=self._device)[None] >= tails[:, None]
        self._ragged = bool(self._beyond_tail_PS.any())
        self._start_B = torch.tensor(self._starts, dtype=torch.int64, device=self._device)
        self._staggered = any(self._starts)

    # ---- a step

    @property
    def positions(self) -> Tensor:
        """The position [B] of each row's next token."""
        return self._position_B

    def begin_step(self) -> None:
        """Make room for one more own token a row."""
        full = self._own_keys.shape[-1]
        if self._length == full:
            more = max(full, _ROOM)
            self._own_keys = F.pad(self._own_keys, (0, more))
            self._own_values = F.pad(self._own_values, (0, 0, 0, more))
        if self._staggered:
            places = torch.arange(self._length + 1, device=self._device)
            self._before_B = places[None] < self._start_B[:, None]

    def end_step(self, logits_BV: Tensor) -> None:
        """The step is done."""
        self._length += 1
        self._position_B = self._position_B + 1
        self.logits, self.newest_B = logits_BV, None

    def attend(self, layer: int, q_BHK: Tensor, k_BGK: Tensor, v_BGK: Tensor) -> Tensor:
        """Store one key and value a row, and attend with one query a row: [B, H * K]."""
        a = self._a
        self._own_keys[layer, :, :, :, self._length] = k_BGK.transpose(0, 1)
        self._own_values[layer, :, :, self._length] = v_BGK.transpose(0, 1)
        rows, groups, repeat = len(q_BHK), a.kv_heads, a.heads // a.kv_heads
        sizes = (self.header, self.longest_tail, self._length + 1)
        own_keys = self._own_keys[layer, ..., : sizes[2]]
        own_values = self._own_values[layer, :, :, : sizes[2]]
        q = (q_BHK * a.head_dim**-0.5).view(rows, groups, repeat, a.head_dim).transpose(0, 1).contiguous()
        scores = q.new_empty(groups, rows, repeat, sum(sizes))
        header, tail, own = scores.split(sizes, dim=-1)
        _product(q.flatten(1, 2), self._header_keys[layer, :, 0], header.flatten(1, 2))
        self._tail_scores(layer, q, tail)
        _product(q.flatten(0, 1), own_keys.flatten(0, 1), own.flatten(0, 1))
        if self._staggered:
            own.masked_fill_(self._before_B[None, :, None], float("-inf"))
        header, tail, own = scores.softmax(dim=-1).split(sizes, dim=-1)
        out = torch.bmm(header.flatten(1, 2), self._header_values[layer, :, 0])
        self._add_tail_values(layer, tail, out)
        out.view(-1, repeat, a.head_dim).baddbmm_(own.flatten(0, 1), own_values.flatten(0, 1))
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
            padded = x_GBRX.new_zeros(groups, len(self.prompts) * self.slots, repeat, size)
            x_GBRX = padded.index_copy_(1, self._place_B, x_GBRX)
        return x_GBRX.reshape(-1, self.slots * repeat, size)

    def _from_groups(self, x: Tensor, shape: torch.Size) -> Tensor:
        """[G * P, N * R, X] back to [G, B, R, X]."""
        x = x.view(shape[0], -1, shape[2], x.shape[-1])
        return x if self._dense else x.index_select(1, self._place_B)

    # ---- small

    def _keep_prompts(self, keep_P: Tensor) -> None:
        numbers = keep_P.tolist()
        self.prompts = [self.prompts[number] for number in numbers]
        self._last_PD = [self._last_PD[number] for number in numbers]
        self._tail_keys, self._tail_values = self._tail_keys[:, :, keep_P], self._tail_values[:, :, keep_P]

    def _forget_the_oldest(self) -> None:
        """Cut off what only rows that are gone have written, once that is half of the cache."""
        unused = min(self._starts)
        if 2 * unused >= self._own_keys.shape[-1]:
            self._own_keys = self._own_keys[..., unused:].contiguous()
            self._own_values = self._own_values[:, :, :, unused:].contiguous()
            self._starts, self._length = [start - unused for start in self._starts], self._length - unused

    def _room(self, rows: int, tokens: int) -> tuple[Tensor, Tensor]:
        """Empty keys [L, G, rows, K, tokens] and values [L, G, rows, tokens, K], as products read them."""
        a = self._a
        keys = torch.zeros(a.layers, a.kv_heads, rows, a.head_dim, tokens, device=self._device)
        return keys, torch.zeros(a.layers, a.kv_heads, rows, tokens, a.head_dim, device=self._device)

    def _appended(self, tensor: Tensor, more: list[int]) -> Tensor:
        return torch.cat((tensor, torch.tensor(more, dtype=torch.int64, device=self._device)))


def _kept(tensor: Tensor | None, keep_B: Tensor) -> Tensor | None:
    return None if tensor is None else tensor[keep_B]


def _product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Batched product into a part of a larger buffer."""
    out.copy_(torch.bmm(left, right))
