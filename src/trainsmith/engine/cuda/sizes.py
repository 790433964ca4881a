"""Sizes that captured graphs are padded to: few, so that few graphs serve all batches."""

from __future__ import annotations


def rounded(count: int) -> int:
    """Tokens, rows or terms: steps of 256 up to 2048, then of an eighth of the next power of two."""
    grain = 256 if count <= 2048 else 2 ** ((count - 1).bit_length() - 3)
    return max(grain, -(-count // grain) * grain)


def rounded_rows(rows: int) -> int:
    """Rows of a decode step: powers of two, and the middle between two of them."""
    power = 1 << max(0, (rows - 1).bit_length())
    return 3 * power // 4 if power >= 4 and rows <= 3 * power // 4 else power
