"""Tinker's `cispo` (tinker-docs.thinkingmachines.ai, "Loss functions"; arXiv 2506.13585)."""

from __future__ import annotations

import torch
from torch import Tensor

from trainsmith.engine.losses.token_loss import TokenLoss, mismatch
from trainsmith.engine.records import Cispo


def cispo(logprobs: Tensor, sampler_logprobs: Tensor, advantages: Tensor, spec: Cispo) -> TokenLoss:
    """-A * clamp(ratio) * logprob, with the clamped ratio as a constant: every token keeps a gradient."""
    log_ratio = logprobs - sampler_logprobs
    ratio = log_ratio.exp()
    weight = torch.clamp(ratio, spec.clip_low_threshold, spec.clip_high_threshold).detach()
    return TokenLoss(-weight * logprobs * advantages, weight != ratio, mismatch(log_ratio, ratio))
