"""What clients may name as `model`: the base under its id or its short name, and every checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.openai.refusal import UNKNOWN_MODEL, Refused
from trainsmith.engine.server.openai.wire import Json
from trainsmith.engine.server.served import Served

_OWNER = "trainsmith"


class Names:
    """The models of one server."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._started = datetime.now(UTC)
        self.base = tuple(dict.fromkeys([served.host.base, short_name(served.host.base)]))

    def weights(self, model: str | None) -> str | None:
        """The version for the host; None is the base. Raises Refused for an unknown name."""
        if model is None or model in self.base:
            return None
        try:
            return self._served.weights(model)
        except HttpError as error:
            raise unknown(error.what) from error

    def card(self, model: str) -> Json:
        """One of the cards. Raises Refused when there is none of this name."""
        for card in self.cards():
            if card["id"] == model:
                return card
        raise unknown(f"the model {model!r} is not served here")

    def cards(self) -> list[Json]:
        """The base first, then the checkpoints, the latest first."""
        saved = [each for each in self._served.store.checkpoints() if each.base == self._served.host.base]
        return [
            *(self._card(name, self._started, None) for name in self.base),
            *(self._card(each.path, each.created, self._served.host.base) for each in saved),
        ]

    def _card(self, name: str, created: datetime, parent: str | None) -> Json:
        """OpenAI's card with vLLM's `root`, `parent` and `max_model_len`, which verifiers reads.

        `root` is the directory with the tokenizer.
        """
        return {
            "id": name,
            "object": "model",
            "created": int(created.timestamp()),
            "owned_by": _OWNER,
            "root": str(self._served.host.policy.model_dir),
            "parent": parent,
            "max_model_len": self._served.host.context,
        }


def unknown(what: str) -> Refused:
    """The answer to a name that no model has."""
    return Refused(what, param="model", code=UNKNOWN_MODEL, status=404)


def short_name(base: str) -> str:
    """A base's id without its kind, revision and folders."""
    kind, _, rest = base.partition(":")
    if kind == "hf":
        return rest.partition("@")[0]
    return Path(rest).name or base if kind == "path" else base
