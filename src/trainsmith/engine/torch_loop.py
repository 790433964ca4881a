"""Decoding in plain torch, on any device: rows in cohorts, linear layers over all of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.batching import BatchLimits, Fill, header_with, prefill_chunks, shared_header
from trainsmith.engine.cohort import Cohort, Tokens
from trainsmith.engine.decode_loop import Drawn, Row
from trainsmith.engine.decoder import final_norm, logits_of, mlp, project_qkv
from trainsmith.engine.network import Network
from trainsmith.engine.prefill import PromptReader
from trainsmith.engine.randomness import Choice, choose
from trainsmith.engine.rotary import Rotary

_WASTE = 2
_SLOTS = 64
"""Padded slots that cost nothing worth a second cohort."""


class TorchDecodeLoop:
    """Rows that decode together over one network, whose weights do not change while any is live."""

    def __init__(
        self, network: Network, architecture: Architecture, rotary: Rotary, limits: BatchLimits
    ) -> None:
        self._network, self._a, self._rotary, self._limits = network, architecture, rotary, limits
        self._device = network.norm.device
        self._reader = PromptReader(network, architecture, rotary)
        self._cohorts: list[Cohort] = []
        self._entering: list[Row] = []
        self._choices: dict[Row, Choice] = {}

    @property
    def read_tokens(self) -> int:
        """Prompt tokens that went through the model since the beginning."""
        return self._reader.read_tokens

    @property
    def rows(self) -> int:
        """Live rows whose prompts are read."""
        return sum(len(cohort.rows) for cohort in self._cohorts)

    @property
    def cached_tokens(self) -> int:
        """Tokens that the caches hold or will hold for these rows."""
        return sum(cohort.tokens for cohort in self._cohorts)

    def fitting(self, waiting: Sequence[Row]) -> int:
        """How many of the first waiting rows can join now: at least one when no row is live."""
        fill = Fill(self._limits, self._a.cache_bytes, self.cached_tokens, self.rows)
        for row in (*self._entering, *waiting):
            if not fill.add(row.request):
                break
        return max(0, fill.joined - len(self._entering))

    def admit(self, rows: Sequence[Row]) -> None:
        """Let rows join: their prompts are read in the next step."""
        self._entering += rows
        self._choices |= {row: Choice.of(row.request) for row in rows}

    @torch.no_grad()
    def step(self) -> Drawn:
        """Draw a token for every live row."""
        self._advance()
        self._enter()
        rows = [row for cohort in self._cohorts for row in cohort.rows]
        if not rows:
            return []
        logits = [cohort.logits for cohort in self._cohorts if cohort.logits is not None]
        for cohort in self._cohorts:
            cohort.logits = None
        choices = [self._choices[row] for row in rows]
        tokens, logprobs = choose(torch.cat(logits) if len(logits) > 1 else logits[0], choices)
        sizes = [len(cohort.rows) for cohort in self._cohorts]
        for cohort, drawn in zip(self._cohorts, torch.split(tokens, sizes), strict=True):
            cohort.newest_B = drawn
        return list(zip(rows, tokens.tolist(), logprobs.tolist(), strict=True))

    def release(self, rows: Sequence[Row]) -> None:
        """These rows are over."""
        gone = set(rows)
        self._entering = [row for row in self._entering if row not in gone]
        for cohort in self._cohorts:
            cohort.drop(gone)
        self._cohorts = [cohort for cohort in self._cohorts if cohort.rows]
        for row in rows:
            self._choices.pop(row, None)

    # ---- one token further

    def _advance(self) -> None:
        """Append each row's newest token and compute the logits that follow."""
        cohorts = [cohort for cohort in self._cohorts if cohort.newest_B is not None]
        if not cohorts:
            return
        sizes = [len(cohort.rows) for cohort in cohorts]
        tokens = _joined([cohort.newest_B for cohort in cohorts if cohort.newest_B is not None])
        x = F.embedding(tokens, self._network.embedding)
        cos, sin = self._rotary.at(_joined([cohort.positions for cohort in cohorts]))
        for cohort in cohorts:
            cohort.begin_step()
        for index, layer in enumerate(self._network.layers):
            qkv = project_qkv(layer, self._a, x, cos, sin)
            parts = zip(cohorts, *(torch.split(part, sizes) for part in qkv), strict=True)
            x = x + layer.output(_joined([cohort.attend(index, q, k, v) for cohort, q, k, v in parts]))
            x = x + mlp(layer, self._a, x)
        logits = logits_of(self._network, final_norm(self._network, self._a, x))
        for cohort, part in zip(cohorts, torch.split(logits, sizes), strict=True):
            cohort.end_step(part)

    # ---- new rows

    def _enter(self) -> None:
        """Read the prompts of rows that join, and put the rows into cohorts."""
        rows, self._entering = self._entering, []
        scored = {row.request.prompt for row in rows if row.request.prompt_logprobs}
        known = {prompt: cohort for cohort in self._cohorts for prompt in cohort.prompts}
        groups: dict[Cohort | None, list[Row]] = {}
        for row in rows:
            home = None if row.request.prompt in scored else known.get(row.request.prompt)
            groups.setdefault(home, []).append(row)
        strange = groups.pop(None, [])
        for cohort, guests in groups.items():
            if cohort is not None and _worthwhile(cohort, cohort.header, [], guests):
                self._seat(cohort, guests)
            else:
                strange += guests
        if strange:
            self._seat(self._read(sorted({row.request.prompt for row in strange}), scored, strange), strange)

    def _read(self, prompts: list[Tokens], scored: set[Tokens], rows: Sequence[Row]) -> Cohort:
        """Read sorted prompts into a cohort: a live one that they fit, or a new one."""
        cohort = None if scored else self._company(prompts, rows)
        if cohort is None:
            cohort = Cohort(self._a, self._device, shared_header(prompts))
            self._cohorts.append(cohort)
        longest = max(len(prompt) for prompt in prompts) - cohort.header
        cohort.reserve(len(cohort.prompts) + len(prompts), longest)
        for chunk in prefill_chunks(prompts, self._limits.prefill_tokens):
            part = [prompts[index] for index in chunk]
            wanted = [prompt in scored for prompt in part]
            read = self._reader.read(part, wanted, None if any(wanted) else cohort.header_cache)
            for prompt, found in zip(part, read, strict=True):
                cohort.add_prompt(prompt, found.keys_LTGK, found.values_LTGK, found.last_D)
                for row in rows:
                    if found.logprobs and row.request.prompt == prompt and row.request.prompt_logprobs:
                        row.prompt_logprobs = found.logprobs
        return cohort

    def _company(self, prompts: list[Tokens], rows: Sequence[Row]) -> Cohort | None:
        """A live cohort in which these rows waste little: its header is cut to what all share."""
        for cohort in self._cohorts:
            header = header_with(cohort.header, cohort.prompts[0], prompts)
            if _worthwhile(cohort, header, prompts, rows):
                cohort.shorten_header(header)
                return cohort
        return None

    def _seat(self, cohort: Cohort, rows: Sequence[Row]) -> None:
        """Put rows of known prompts into a cohort, prompt by prompt."""
        if not rows:
            return
        place = {prompt: number for number, prompt in enumerate(cohort.prompts)}
        ordered = sorted(rows, key=lambda row: place[row.request.prompt])
        prompts = sorted({place[row.request.prompt] for row in rows})
        logits = logits_of(self._network, torch.stack([cohort.last_hidden(number) for number in prompts]))
        source = [prompts.index(place[row.request.prompt]) for row in ordered]
        cohort.add_rows(ordered, logits[torch.tensor(source, device=self._device)])


def _worthwhile(cohort: Cohort, header: int, prompts: list[Tokens], rows: Sequence[Row]) -> bool:
    """Whether one cohort takes at most `_WASTE` times what two would, in cached tokens and padded slots.

    `prompts` are those of the rows that the cohort does not have.
    """
    longest = max(map(len, prompts), default=0)
    tail = max(cohort.longest_tail + cohort.header - header, longest - header)
    together = header + (len(cohort.prompts) + len(prompts)) * tail + cohort.own_tokens(rows)
    replies = len(rows) * max(row.request.max_tokens for row in rows)
    if together > _WASTE * (cohort.tokens + len(prompts) * longest + replies):
        return False
    most = max(Counter(row.request.prompt for row in rows).values())
    slots = max(cohort.slots, most) * (len(cohort.prompts) + len(prompts))
    return slots <= _WASTE * (cohort.slots * len(cohort.prompts) + most * len(prompts)) + _SLOTS


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
