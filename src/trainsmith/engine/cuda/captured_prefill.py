"""Reads a tree of prompts into the arena as one captured graph, for sizes rounded up to a few.

Shapes: T packed tokens, N moves from the tree to the arena, P prompts, D hidden, all padded. Padding moves go
to the arena's spare place.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.cuda.arena import SPARE, Arena
from trainsmith.engine.cuda.graphs import shared_graphs
from trainsmith.engine.cuda.sizes import rounded
from trainsmith.engine.decoder import final_norm, forward_packed
from trainsmith.engine.network import Network
from trainsmith.engine.packed_input import PackedInput
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.token_tree import Indices, TokenTree

MOST_TOKENS = 8192
"""A larger tree is read without a graph: its products outlast their launches."""


@dataclass(frozen=True, slots=True)
class _Size:
    tokens: int
    moves: int
    prompts: int


class _Inputs:
    """Inputs of one size, and what comes out: the normed hidden state [P, D] after each prompt."""

    def __init__(self, size: _Size, hidden: int, device: torch.device) -> None:
        self.size = size
        self._all = torch.zeros(
            3 * size.tokens + 2 * size.moves + size.prompts, dtype=torch.int64, device=device
        )
        t, n = size.tokens, size.moves
        self.tokens_T, self.positions_T, self.end_T, self.source_N, self.target_N, self.last_P = torch.split(
            self._all, [t, t, t, n, n, size.prompts]
        )
        self.normed_PD = torch.empty(size.prompts, hidden, device=device)

    def fill(self, tree: TokenTree, source_N: Indices, target_N: Indices, last_P: Indices) -> None:
        """Copy a tree in. A padding token sees itself alone."""
        t, n, p = self.size.tokens, self.size.moves, self.size.prompts
        parts = (
            _padded(tree.tokens_T, t),
            _padded(tree.positions_T, t),
            np.concatenate((tree.end_T, np.arange(len(tree) + 1, t + 1))),
            _padded(source_N, n),
            _padded(target_N, n, SPARE),
            _padded(last_P, p),
        )
        self._all.copy_(torch.from_numpy(np.concatenate(parts)))


def _padded(values: Indices, size: int, value: int = 0) -> Indices:
    return np.pad(values, (0, size - len(values)), constant_values=value)


class CapturedPrefill:
    """The forward pass of one network over prompts."""

    def __init__(self, network: Network, a: Architecture, rotary: Rotary, arena: Arena) -> None:
        self._network, self._a, self._rotary, self._arena = network, a, rotary, arena
        self._inputs: dict[_Size, _Inputs] = {}
        self._owner = object()
        weakref.finalize(self, shared_graphs().forget, self._owner)

    @torch.no_grad()
    def read(self, tree: TokenTree, source_N: Indices, target_N: Indices, last_P: Indices) -> Tensor:
        """Put keys and values of the tree at arena places; what the head reads after `last_P`, [P, D]."""
        captures = len(tree) <= MOST_TOKENS
        size = _Size(rounded(len(tree)), rounded(len(source_N)), rounded(len(last_P)))
        inputs = self._inputs.get(size) or _Inputs(size, self._a.hidden, self._network.norm.device)

        def body() -> None:
            self._run(inputs)

        def warm_up() -> None:
            inputs.target_N.fill_(SPARE)
            self._run(inputs)

        if captures:
            self._inputs[size] = inputs
            graph = shared_graphs().get((self._owner, self._arena.generation, size), warm_up, body)
            inputs.fill(tree, source_N, target_N, last_P)
            graph.replay()
        else:
            inputs.fill(tree, source_N, target_N, last_P)
            body()
        return inputs.normed_PD[: len(last_P)].clone()

    def _run(self, inputs: _Inputs) -> None:
        a, network = self._a, self._network
        angles = self._rotary.at(inputs.positions_T)
        packed = PackedInput(inputs.tokens_T, *angles, [], inputs.tokens_T, [], [], inputs.end_T.int())
        shape = (a.layers, inputs.size.tokens, a.kv_heads, a.head_dim)
        device = inputs.tokens_T.device
        cache = (torch.empty(shape, device=device), torch.empty(shape, device=device))
        hidden = forward_packed(network, a, packed, F.embedding(inputs.tokens_T, network.embedding), cache)
        self._arena.write(inputs.target_N, *(side[:, inputs.source_N] for side in cache))
        inputs.normed_PD.copy_(final_norm(network, a, hidden[inputs.last_P]))
