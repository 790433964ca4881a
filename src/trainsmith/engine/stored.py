"""The weights of a model directory as stored, ready to be written back without waiting for a disk.

On a CPU the files are mapped anew each time, which costs milliseconds and no memory; on a GPU one copy in the
stored type stays on the device.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.weights import Weights, copy_named, empty_weights, read_named


class Stored:
    """The pristine weights of one model on one device."""

    def __init__(self, model_dir: Path, architecture: Architecture, device: str) -> None:
        self._model_dir = model_dir
        self._architecture = architecture
        self._device = device
        self._kept: dict[str, Tensor] | None = None

    def restore(self, weights: Weights) -> None:
        """Write them into `weights`, in place. Raises UserError when the directory has been damaged."""
        copy_named(self._named(), weights, self._architecture)

    def exact(self) -> Weights:
        """A copy in float32."""
        weights = empty_weights(self._architecture, self._device, torch.float32)
        self.restore(weights)
        return weights

    def _named(self) -> dict[str, Tensor]:
        if self._device == "cpu":
            return read_named(self._model_dir, self._architecture)
        if self._kept is None:
            named = read_named(self._model_dir, self._architecture)
            self._kept = {name: tensor.to(self._device) for name, tensor in named.items()}
        return self._kept
