"""An agent that follows a script whatever it observes: for demonstrations, anchors and tests."""

from __future__ import annotations

from collections.abc import Iterable

from trainsmith.episode import Action, Stop, tools
from trainsmith.records import Briefing, Observation

DONE = Action(call=Stop(reason="the script is at its end"))


class ScriptedAgent:
    """Plays its actions in order, then stops. Good for one episode."""

    def __init__(self, name: str, actions: Iterable[Action]) -> None:
        self._name = name
        self._actions = iter(tuple(actions))

    @property
    def name(self) -> str:
        """Who it is, for records."""
        return self._name

    async def begin(self, briefing: Briefing) -> None:
        """A script needs no briefing."""

    async def act(self, observation: Observation) -> Action:
        """The next action of the script, or a stop."""
        return next(self._actions, DONE)


def call(note: str, tool: str, arguments: dict[str, str] | str | None = None) -> Action:
    """An action read as a model's call would be, mistakes included; `arguments` may be JSON text."""
    return Action(call=tools.parse(tool, arguments), note=note)
