"""Tinker's `ppo` (tinker-docs.thinkingmachines.ai, "Loss functions"; arXiv 1707.06347), token by token."""

from __future__ import annotations

import torch
from torch import Tensor

from trainsmith.engine.losses.token_loss import TokenLoss, mismatch
from trainsmith.engine.records import Ppo


def ppo(logprobs: Tensor, sampler_logprobs: Tensor, advantages: Tensor, spec: Ppo) -> TokenLoss:
    """-min(A * ratio, A * clamp(ratio)): no gradient once the ratio has gone where its advantage pushes."""
    log_ratio = logprobs - sampler_logprobs
    ratio = log_ratio.exp()
    unclipped = ratio * advantages
    clipped = torch.clamp(ratio, spec.clip_low_threshold, spec.clip_high_threshold) * advantages
    return TokenLoss(-torch.min(unclipped, clipped), clipped < unclipped, mismatch(log_ratio, ratio))
