"""Make verifiers import and run faster inside the jail. Imported first; changes no result.

Two thirds of the import are the `anthropic` SDK (for a dialect that no rollout here speaks) and `math_verify`
with sympy (for score helpers that few packages call). Both get stand-ins while verifiers is imported;
`math_verify` becomes the real one at its first use. Only for the pinned version of verifiers; with any other,
everything is imported as usual.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

PINNED = "0.4.0"
_STAND_INS = ("anthropic", "anthropic.types", "math_verify", "math_verify.errors")


@contextlib.contextmanager
def light_imports() -> Iterator[None]:
    """Import verifiers inside this block.

    Afterwards a package that imports one of the modules gets the real one.
    """
    if importlib.metadata.version("verifiers") != PINNED or any(name in sys.modules for name in _STAND_INS):
        yield
        return
    modules = {name: types.ModuleType(name) for name in _STAND_INS}
    _fill(modules["anthropic.types"], {name: type(name, (), {}) for name in ("Message", "Usage")})
    _fill(modules["math_verify"], {name: _at_first_use(name) for name in ("parse", "verify")})
    _fill(modules["math_verify.errors"], {"TimeoutException": type("TimeoutException", (Exception,), {})})
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in _STAND_INS:
            del sys.modules[name]


def remember_signatures() -> None:
    """pydantic reads the signatures of default factories whenever it builds a record: 40 % of a rollout."""
    with contextlib.suppress(ImportError, AttributeError):
        import pydantic._internal._fields as internal

        original = internal.takes_validated_data_argument
        internal.takes_validated_data_argument = functools.cache(original)  # type: ignore[assignment]


def _fill(module: types.ModuleType, names: dict[str, Any]) -> None:
    module.__dict__.update(names)


def _at_first_use(name: str) -> Callable[..., Any]:
    """A function that puts the real math_verify into verifiers' score helpers and calls its namesake."""

    def call(*arguments: Any, **options: Any) -> Any:
        import math_verify  # type: ignore[import-untyped]
        import verifiers.v1.utils.score as score
        from math_verify.errors import TimeoutException  # type: ignore[import-untyped]

        score.parse, score.verify = math_verify.parse, math_verify.verify
        score.MathVerifyTimeout = TimeoutException
        return getattr(math_verify, name)(*arguments, **options)

    return call
