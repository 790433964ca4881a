"""How a plain reply is read, and the scores that are made of it.

These functions are written out into reference jobs as they stand, so they use nothing but the language.
"""

from __future__ import annotations


def clean(reply: str) -> str:
    """The answer in a reply: one line of single spaces, without a full stop at its end."""
    return " ".join(reply.split()).removesuffix(".").rstrip()


def exact(reply: str, answer: str) -> float:
    """1 for the answer and nothing else, 0 for anything else."""
    return float(clean(reply) == answer)
