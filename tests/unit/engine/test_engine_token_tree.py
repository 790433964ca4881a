"""The packed tree must hold every sequence once, and attention must follow its branches exactly."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trainsmith.engine.token_tree import attention_blocks, build_tree, common_prefix, tree_mask

SEQUENCES = st.lists(st.lists(st.integers(0, 2), max_size=9), min_size=1, max_size=12)


def ancestors(sequences):
    """All (token, ancestor-or-self) pairs as a dense matrix, straight from the paths."""
    tree = build_tree(sequences)
    seen = np.zeros((len(tree), len(tree)), dtype=bool)
    for path in tree.paths:
        for position, token in enumerate(path):
            seen[token, path[: position + 1]] = True
    return tree, seen


@given(SEQUENCES)
def test_paths_spell_the_sequences_and_prefixes_are_stored_once(sequences):
    """Guards against a token lost, stored twice, or given another's position."""
    tree = build_tree(sequences)
    for sequence, path in zip(sequences, tree.paths, strict=True):
        assert tree.tokens_T[path].tolist() == sequence
        assert tree.positions_T[path].tolist() == list(range(len(sequence)))
    prefixes = {tuple(sequence[:size]) for sequence in sequences for size in range(1, len(sequence) + 1)}
    assert len(tree) == len(prefixes)


@given(SEQUENCES)
def test_interval_rule_is_the_ancestor_relation(sequences):
    """Guards against attention that leaks between branches: j <= i < end[j] must mean ancestor or self."""
    tree, seen = ancestors(sequences)
    rows = np.arange(len(tree))
    by_rule = (rows[None] <= rows[:, None]) & (rows[:, None] < tree.end_T[None])
    assert (by_rule == seen).all()


@settings(max_examples=300)
@given(SEQUENCES, st.integers(1, 12))
def test_blocks_cover_every_query_once_with_exactly_its_ancestors(sequences, limit):
    """Guards against a block that misses a key, sees a stranger's, or computes a query twice."""
    tree, seen = ancestors(sequences)
    covered = []
    for block in attention_blocks(tree, limit):
        covered += range(block.start, block.stop)
        keys = [
            key for start, stop in (*block.ancestors, (block.start, block.stop)) for key in range(start, stop)
        ]
        dense = np.zeros((block.stop - block.start, len(tree)), dtype=bool)
        dense[:, keys] = tree_mask(tree, block)
        assert (dense == seen[block.start : block.stop]).all()
    assert covered == list(range(len(tree)))


def test_wide_groups_are_cut_and_small_ones_joined():
    """Guards against one call a leaf (slow) or one dense call for everything (wasteful)."""
    header = list(range(100, 150))
    sequences = [
        [*header, prompt, prompt, sample, sample] for prompt in range(8) for sample in range(200, 208)
    ]
    blocks = attention_blocks(build_tree(sequences), limit=64)
    assert len(blocks) < 10
    assert max(block.stop - block.start for block in blocks) <= 64


def test_common_prefix():
    """Guards against an off-by-one in the shared length."""
    assert common_prefix(np.array([1, 2, 3]), np.array([1, 2])) == 2
    assert common_prefix(np.array([1, 2, 3]), np.array([1, 4, 3])) == 1
    assert common_prefix(np.array([], dtype=np.int64), np.array([1])) == 0
