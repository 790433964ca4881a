"""Tinker's `importance_sampling` (tinker-docs.thinkingmachines.ai, "Loss functions")."""

from __future__ import annotations

import torch
from torch import Tensor

from trainsmith.engine.losses.token_loss import TokenLoss, mismatch


def importance_sampling(logprobs: Tensor, sampler_logprobs: Tensor, advantages: Tensor) -> TokenLoss:
    """-A * ratio."""
    log_ratio = logprobs - sampler_logprobs
    ratio = log_ratio.exp()
    nowhere = torch.zeros_like(ratio, dtype=torch.bool)
    return TokenLoss(-ratio * advantages, nowhere, mismatch(log_ratio, ratio))
