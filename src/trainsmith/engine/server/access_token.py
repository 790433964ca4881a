"""The token that every request must carry: the user's, or one made at first use for its owner's eyes only.

It begins with `tml-` because Tinker's SDK takes no other.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from trainsmith.errors import UserError

VARIABLE = "TRAINSMITH_TOKEN"
PREFIX = "tml-"
_SHORTEST = 16


def access_token(file: Path | None, kept: Path) -> str:
    """The token of `file`, else of the environment, else the one at `kept`, which is made if missing.

    Raises UserError for a token that is too short, of another form, or readable by others.
    """
    if file is not None:
        return _checked(_read(file), str(file))
    if VARIABLE in os.environ:
        return _checked(os.environ[VARIABLE].strip(), VARIABLE)
    if not kept.exists():
        _make(kept)
    return _checked(_read(kept), str(kept))


def _read(file: Path) -> str:
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the token: {error}", where=str(file)) from error
    if stat.S_IMODE(mode) & 0o077:
        raise UserError("others may read the token", where=str(file), fix=f"chmod 600 {file}")
    return text


def _checked(token: str, where: str) -> str:
    if not token.startswith(PREFIX) or len(token) < _SHORTEST or not token.isascii() or " " in token:
        what = f"a token begins with {PREFIX!r} and has at least {_SHORTEST} ASCII characters"
        raise UserError(what, where=where, fix="remove it, and a token is made")
    return token


def _make(path: Path) -> None:
    """Write a whole file first, then link it: of two servers at once, both read the same token."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{PREFIX}{secrets.token_hex(24)}\n")
    try:
        os.link(draft, path)
    except FileExistsError:
        return  # another server made it first; its token is the one
    finally:
        draft.unlink()
