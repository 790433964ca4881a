"""What every loss gives for each trained token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenLoss:
    """One value a trained token, [N] each. The loss is not yet weighted."""

    loss: Tensor
    masked: Tensor
    """Where the loss masks or clips the policy gradient."""
    mismatch_kl: Tensor
    """exp(d) - d - 1 with d = learner's minus sampler's logprob, without gradient."""


def mismatch(log_ratio: Tensor, ratio: Tensor) -> Tensor:
    """The estimate of KL(sampler, learner) of each token (k3 of http://joschu.net/blog/kl-approx.html)."""
    return (ratio - log_ratio - 1).detach()
