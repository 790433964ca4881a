"""One call of a command: its name, its arguments, and how it is to answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trainsmith.config.base import Config
from trainsmith.config.loader import load
from trainsmith.errors import UserError
from trainsmith.records import Record

C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class Invocation:
    """What the user typed after `trainsmith`."""

    command: str
    summary: str
    """What the command does, for its help."""
    arguments: list[str]
    json: bool
    """Print one JSON document on stdout and nothing else there."""

    @property
    def prog(self) -> str:
        """The command as typed, for messages."""
        return f"trainsmith {self.command}"

    def config(self, config: type[C], *, skip: int = 0) -> C:
        """The command's configuration from the arguments after the first `skip` positional ones."""
        arguments = ["--help"] if self.wants_help else self.arguments[skip:]
        return load(config, arguments, prog=self.prog, description=self.summary)

    def positional(self, name: str) -> str:
        """The one positional argument, which comes first."""
        if self.wants_help:
            return ""
        if not self.has_positional:
            raise UserError(f"{name} is missing", where=self.prog, fix=f"{self.prog} {name} ...")
        return self.arguments[0]

    @property
    def has_positional(self) -> bool:
        """True when the first argument is no flag and no file of settings."""
        return bool(self.arguments) and not self.arguments[0].startswith(("-", "@"))

    @property
    def wants_help(self) -> bool:
        """True when only the help is asked for."""
        return "--help" in self.arguments or "-h" in self.arguments

    def directory(self, name: str = "DIR") -> Path:
        """The one positional argument as a path."""
        return Path(self.positional(name))

    def answer(self, document: Record | Sequence[Record] | dict[str, Any], text: str) -> None:
        """Print the result: the document with `--json`, the text otherwise."""
        print(_json(document) if self.json else text)


def _json(document: Record | Sequence[Record] | dict[str, Any]) -> str:
    if isinstance(document, Record):
        return document.model_dump_json()
    if isinstance(document, dict):
        return json.dumps(document)
    return json.dumps([record.model_dump(mode="json") for record in document])
