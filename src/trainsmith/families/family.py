"""A family: a named set of kinds. The object that a plug-in's entry point names."""

from __future__ import annotations

from dataclasses import dataclass

from trainsmith.families.kind import AnyKind


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds of one skill area."""

    name: str
    """The part of a task id before `/`; the entry point has the same name."""
    description: str
    kinds: tuple[AnyKind, ...]

    def kind(self, name: str) -> AnyKind | None:
        """The kind of that name, if there is one."""
        return next((kind for kind in self.kinds if kind.name == name), None)
