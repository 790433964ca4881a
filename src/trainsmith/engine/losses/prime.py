"""prime-rl's default reinforcement-learning loss.

Sources: prime-rl's `default_loss_fn`; DPPO's binary total-variation mask (arXiv 2602.04879); the squared
log-ratio of Kimi K2.5 (arXiv 2602.02276).
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainsmith.engine.losses.token_loss import TokenLoss, mismatch
from trainsmith.engine.records import PrimeLoss


def prime(logprobs: Tensor, sampler_logprobs: Tensor, advantages: Tensor, spec: PrimeLoss) -> TokenLoss:
    """-keep * adv_tau * A * ratio + kl_tau * log(ratio)^2.

    keep is 0 once the token's probability moved too far in the direction that its advantage pushes.
    """
    log_ratio = logprobs - sampler_logprobs
    ratio = log_ratio.exp()
    moved = logprobs.exp() - sampler_logprobs.exp()
    masked = torch.where(advantages > 0, moved > spec.dppo_mask_high, moved < -spec.dppo_mask_low)
    policy_gradient = ~masked * (spec.adv_tau * advantages) * ratio
    loss = -policy_gradient + spec.kl_tau * log_ratio**2
    return TokenLoss(loss, masked, mismatch(log_ratio, ratio))
