"""The losses, one file each, token by token. A batch's loss is the sum of weight times token loss."""

from __future__ import annotations

from torch import Tensor

from trainsmith.engine.losses.cispo import cispo
from trainsmith.engine.losses.cross_entropy import cross_entropy
from trainsmith.engine.losses.importance_sampling import importance_sampling
from trainsmith.engine.losses.ppo import ppo
from trainsmith.engine.losses.prime import prime
from trainsmith.engine.losses.token_loss import TokenLoss
from trainsmith.engine.records import Cispo, CrossEntropy, ImportanceSampling, LossSpec, Ppo, PrimeLoss


def token_loss(logprobs: Tensor, sampler_logprobs: Tensor, advantages: Tensor, spec: LossSpec) -> TokenLoss:
    """The loss of every trained token, all [N]; differentiable by `logprobs`."""
    match spec:
        case PrimeLoss():
            return prime(logprobs, sampler_logprobs, advantages, spec)
        case ImportanceSampling():
            return importance_sampling(logprobs, sampler_logprobs, advantages)
        case Ppo():
            return ppo(logprobs, sampler_logprobs, advantages, spec)
        case Cispo():
            return cispo(logprobs, sampler_logprobs, advantages, spec)
        case CrossEntropy():
            return cross_entropy(logprobs)
