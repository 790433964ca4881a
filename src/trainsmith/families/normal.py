"""The normal form of a question: what makes two questions the same one."""

from __future__ import annotations

import unicodedata


def normalise(text: str) -> str:
    """Text without differences of case, white space, punctuation at its ends, or Unicode form."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(plain.split()).strip(" .,;:!?\"'`")
