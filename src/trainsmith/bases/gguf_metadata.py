"""The key-value header of a GGUF file, read with the type that is asked for."""

from __future__ import annotations

import gguf
import numpy as np


class Metadata:
    """The key-value part of a GGUF file, read by type."""

    def __init__(self, reader: gguf.GGUFReader) -> None:
        self._fields = reader.fields

    def text(self, key: str) -> str:
        """A string; empty when the key is missing."""
        return str(self._fields[key].contents()) if key in self._fields else ""

    def integer(self, key: str) -> int:
        """An integer."""
        return int(self._fields[key].contents())

    def real(self, key: str) -> float:
        """A float32, as its shortest decimal."""
        return float(str(np.float32(self._fields[key].contents())))

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        field = self._fields[key]
        return [bytes(field.parts[index]).decode("utf-8") for index in field.data]

    def integers(self, key: str) -> list[int]:
        """A list of integers."""
        field = self._fields[key]
        return [int(field.parts[index][0]) for index in field.data]
