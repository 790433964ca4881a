"""What a learner trains: the network to differentiate, its tensors, the way into samples and files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from trainsmith.engine.network import Network
from trainsmith.engine.weights import Weights


class Trainable(Protocol):
    """A policy's weights under training."""

    network: Network
    """To differentiate; adapters drop out here."""
    sampling: Network
    """To sample with: follows the training, nothing drops out."""
    tensors: list[Tensor]
    """Trained float32 tensors."""

    def start_gradients(self) -> None:
        """Forget the gradients that there are."""

    def finish_gradients(self) -> None:
        """Make the gradient of whatever no pass has reached since the start zero."""

    def publish(self) -> None:
        """Bring the trained tensors into `sampling`."""

    def merged(self) -> Weights:
        """All weights as trained, float32."""

    def snapshot(self) -> Network:
        """`sampling` as it is now, untouched by further training."""

    def named(self) -> Mapping[str, Tensor]:
        """What is trained, under the names that it has in files: views, float32."""
