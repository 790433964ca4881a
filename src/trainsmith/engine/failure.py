"""What sampling raises when the weights are past use. Importable without torch."""

from __future__ import annotations

from trainsmith.errors import AgentError


class NotFinite(AgentError):
    """The model's logits are NaN or infinite: an update has ruined the weights."""

    def __init__(self) -> None:
        super().__init__("logits are not finite", where="sampling", fix="train with a smaller learning rate")
