"""Rollouts: jailed environments on one side, the policy's sampler on the other.

`collect` plays many rollouts at once and returns their rewards and token trajectories. Tokens, weights and
logprobs stay on this, the trusted side; the environment sees text only.
"""
