"""The base of all configurations: frozen, unknown keys refused, conventions of prime-pydantic-config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ConfigDict

if TYPE_CHECKING:  # the library ships no types; its base is a pydantic model
    from pydantic import BaseModel as BaseConfig
else:
    from pydantic_config import BaseConfig


class Config(BaseConfig):
    """A frozen configuration section."""

    model_config = ConfigDict(frozen=True, extra="forbid")
