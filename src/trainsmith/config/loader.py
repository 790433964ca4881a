"""TOML files and dotted overrides into a typed configuration, with prime-pydantic-config's conventions.

`@ file.toml` loads a file, `--section @ file.toml` a section, `--dotted.key value` overrides. A mistake is
one line.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel
from pydantic_config import cli
from pydantic_config.cli import ConfigFileError

from trainsmith.errors import UserError

C = TypeVar("C", bound=BaseModel)


def load(config: type[C], arguments: Sequence[str], *, prog: str, description: str = "") -> C:
    """Parse `arguments` into `config`.

    Raises:
        UserError: a file is missing or broken, a key is unknown, or a value does not fit.
    """
    try:
        parsed: C = cli(config, args=list(arguments), prog=prog, description=description)
    except ConfigFileError as error:
        raise UserError(_one_line(error.message), where=prog, fix=f"see `{prog} --help`") from error
    except (OSError, UnicodeDecodeError) as error:
        where = getattr(error, "filename", None) or prog
        raise UserError(
            f"the settings cannot be read: {error}", where=where, fix="name a TOML file"
        ) from error
    return parsed


def parse_toml(path: Path) -> dict[str, object]:
    """The raw tables of a TOML file.

    Raises:
        UserError: the file is missing, not UTF-8, or not TOML; the message has line and column.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError("no such file", where=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"not valid TOML: {error}", where=str(path), fix="mend the syntax there") from error


def _one_line(message: str) -> str:
    """Drop pydantic's headline and fold its rows: `--flag: what is wrong; --flag: ...`."""
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].startswith("Failed to validate config"):
        lines = lines[1:]
        pairs = zip(lines[::2], lines[1::2], strict=False)
        return "; ".join(f"{flag.strip()}: {what.strip()}" for flag, what in pairs)
    return " ".join(line.strip() for line in lines)
