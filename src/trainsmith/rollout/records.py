"""Values of the rollout layer."""

from __future__ import annotations

from dataclasses import dataclass

from trainsmith.engine.records import Trajectory


@dataclass(frozen=True, slots=True)
class RolloutKey:
    """One rollout: the environment's task `index`, and the how-maniest `sample` of it in its group."""

    index: int
    sample: int


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the policy samples in a rollout."""

    temperature: float
    max_tokens: int
    """New tokens a turn."""
    seq_len: int
    """Prompt and completion tokens together; a turn that would pass it is cut short."""
    seed: int


@dataclass(frozen=True, slots=True)
class Branch:
    """One conversation of a trace as one token sequence, before advantages are known."""

    tokens: tuple[int, ...]
    mask: tuple[bool, ...]
    logprobs: tuple[float, ...]

    def trajectory(self, advantage: float, temperature: float) -> Trajectory:
        """The branch as a training sequence, sampled at `temperature`."""
        return Trajectory(self.tokens, self.mask, self.logprobs, advantage, temperature)


@dataclass(frozen=True, slots=True)
class Episode:
    """What one agent did in one rollout: a trace with its reward."""

    reward: float
    turns: int
    branches: tuple[Branch, ...]
    replies: tuple[str, ...]

    @property
    def output_tokens(self) -> int:
        """Sampled tokens."""
        return sum(sum(branch.mask) for branch in self.branches)

    @property
    def total_tokens(self) -> int:
        """Prompt and sampled tokens, as the last state of each branch holds them."""
        return sum(len(branch.tokens) for branch in self.branches)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One finished rollout. `error` is empty when every trainable trace has a finite reward."""

    key: RolloutKey
    episodes: tuple[Episode, ...]
    error: str = ""
