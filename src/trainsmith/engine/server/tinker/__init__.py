"""Tinker's API, as far as its SDK 0.38 and the cookbook's RL and supervised training use it.

`service.py` has the routes. Not here: image and audio inputs, losses other than cross_entropy,
importance_sampling, ppo and cispo, top-k logprobs, optimisers other than AdamW, public checkpoints, billing.
"""
