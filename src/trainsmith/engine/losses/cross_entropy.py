"""Tinker's `cross_entropy` (tinker-docs.thinkingmachines.ai, "Loss functions").

The SDK sends gradients of custom losses through it, as weights of either sign.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainsmith.engine.losses.token_loss import TokenLoss


def cross_entropy(logprobs: Tensor) -> TokenLoss:
    """The negative logprob; there is no sampler to differ from."""
    nowhere = torch.zeros_like(logprobs, dtype=torch.bool)
    return TokenLoss(-logprobs, nowhere, torch.zeros_like(logprobs).detach())
