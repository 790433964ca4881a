"""`trainsmith bases`: the base models."""

from __future__ import annotations

from trainsmith import bases
from trainsmith.cli.invocation import Invocation
from trainsmith.config.commands import ListConfig
from trainsmith.records import Record


class BaseRow(Record):
    """One base model."""

    id: str
    revision: str
    context: int
    cached: bool
    description: str


def run(invocation: Invocation) -> int:
    """List the base models."""
    invocation.config(ListConfig)
    rows = [_row(name) for name in bases.names()]
    lines = [
        f"{row.id:<18} {row.revision:<14} context {row.context:<6} "
        f"{'cached' if row.cached else 'not fetched yet':<16} {row.description}"
        for row in rows
    ]
    invocation.answer(rows, "\n".join(lines))
    return 0


def _row(name: str) -> BaseRow:
    base = bases.get(name)
    return BaseRow(
        id=base.id,
        revision=base.revision,
        context=base.context,
        cached=bases.cached(name),
        description=base.description,
    )
