"""A token tree on the device, cut into attention blocks, as the decoder's forward pass reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainsmith.engine.device import has_kernels
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.token_tree import Block, TokenTree, attention_blocks, tree_mask

BLOCK_LIMIT = 192
"""Tokens of an attention block on a CPU: large enough for few calls, small enough for few masked pairs."""
GPU_BLOCK_LIMIT = 1024
"""The same on a GPU, where calls cost more and masked pairs less."""


@dataclass(frozen=True, slots=True)
class PackedInput:
    """T tokens in a row and the blocks of their attention, in the order of the row."""

    tokens_T: Tensor
    cos_T1K: Tensor
    sin_T1K: Tensor
    query_sizes: list[int]
    """Tokens of each block; they add up to T."""
    keys_S: Tensor
    """The rows that each block attends to, one block after the other; rows of the past come first."""
    key_sizes: list[int]
    masks: list[Tensor | None]
    """Added to a block's scores [queries, keys]: 0 or minus infinity. None: one causal run, no ancestors."""
    end_T: Tensor | None = None
    """The tree's `end_T`, int32, where a kernel attends by it alone and there are no blocks."""


def pack_input(tree: TokenTree, rotary: Rotary, device: str, past: int = 0) -> PackedInput:
    """Move a tree to the device, with its attention masks and rotary positions.

    `past` tokens stand before the tree's root: all of it sees them.
    """
    if has_kernels(device) and not past:
        tokens, positions, end = (
            torch.from_numpy(x).to(device) for x in (tree.tokens_T, tree.positions_T, tree.end_T)
        )
        return PackedInput(tokens, *rotary.at(positions), [], tokens, [], [], end.int())
    blocks = attention_blocks(tree, BLOCK_LIMIT if device == "cpu" else GPU_BLOCK_LIMIT)
    keys = [_keys(block, past) for block in blocks]
    return PackedInput(
        torch.from_numpy(tree.tokens_T).to(device),
        *rotary.at(torch.from_numpy(tree.positions_T + past).to(device)),
        [block.stop - block.start for block in blocks],
        torch.from_numpy(np.concatenate(keys)).to(device),
        [len(rows) for rows in keys],
        [_mask(tree, block, device, past) for block in blocks],
    )


def _keys(block: Block, past: int) -> np.ndarray:
    """Row indices in the order of `tree_mask`: the past, ancestors, then the block itself."""
    spans = [(start + past, stop + past) for start, stop in (*block.ancestors, (block.start, block.stop))]
    return np.concatenate([np.arange(*span) for span in ((0, past), *spans)])


def _mask(tree: TokenTree, block: Block, device: str, past: int) -> Tensor | None:
    ends = tree.end_T[block.start : block.stop]
    if not past and not block.ancestors and (ends == ends[0]).all():
        return None
    allowed = torch.from_numpy(np.pad(tree_mask(tree, block), ((0, 0), (past, 0)), constant_values=True))
    hidden = ~allowed.to(device)
    return torch.zeros(allowed.shape, device=device).masked_fill_(hidden, float("-inf"))
