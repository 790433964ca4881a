"""What the torch thread owns: the policy, the training runs' learners and the samplers."""

from __future__ import annotations

from pathlib import Path

from trainsmith.engine.learner import Learner
from trainsmith.engine.learner_state import load_network, read_manifest
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import LoraSpec, OptimSpec
from trainsmith.engine.sampling import Sampler
from trainsmith.engine.server.samplers import Samplers
from trainsmith.errors import UserError


class Models:
    """To be touched on the torch thread only."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.samplers = Samplers(self._sampler, policy.check)
        self._learners: dict[str, Learner] = {}

    def create(self, model_id: str, lora: LoraSpec, seed: int) -> None:
        """A fresh LoRA learner. Raises UserError when there is one of this name."""
        if model_id in self._learners:
            raise UserError("there is a training run of this name", where=model_id)
        self._learners[model_id] = Learner(self.policy, OptimSpec(), lora=lora, seed=seed, shared=True)

    def learner(self, model_id: str) -> Learner:
        """Raises UserError when there is none."""
        if model_id not in self._learners:
            raise UserError("no such training run is loaded", where=model_id, fix="load a checkpoint")
        return self._learners[model_id]

    def snapshot(self, model_id: str, directory: Path) -> None:
        """Write the weights, and keep a sampler of them in memory."""
        learner = self.learner(model_id)
        learner.save_state(directory, optimiser=False)
        self.samplers.hold(str(directory), self.policy.sampler_for(learner.snapshot()))

    def check_saved(self, directory: Path) -> None:
        """Raise UserError when no state is saved there."""
        read_manifest(directory)

    def drop(self, name: str) -> None:
        """Forget a learner or a version of weights."""
        self._learners.pop(name, None)
        self.samplers.drop(name)

    def _sampler(self, weights: str | None) -> Sampler:
        if weights is None:
            return self.policy.sampler
        return self.policy.sampler_for(load_network(self.policy, Path(weights)))
