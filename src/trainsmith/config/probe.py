"""Limits of the probe: how much of a job it looks at, for how long, and from where on a figure is a fault."""

from __future__ import annotations

from pydantic import Field

from trainsmith.config.base import Config


class ProbeConfig(Config):
    """The vetted limits; every one is a number that a check's evidence or fix names."""

    total_seconds: float = Field(default=600.0, gt=0)
    """Wall limit of a whole probe, the fetch and start of the base model included. Every part that
    depends on the job has a shorter limit of its own, so passing this one is the machine's fault."""

    min_tasks: int = Field(default=64, ge=2)
    """Fewest distinct tasks, told apart by prompt and fields, never by index."""
    examined_tasks: int = Field(default=512, ge=2)
    """Tasks read from the environment."""
    examined_characters: int = Field(default=4_000_000, ge=1)
    """Characters of prompts and fields from which on no more tasks are read."""

    open_seconds: float = Field(default=20.0, gt=0)
    """Wall limit of the package's import and load()."""

    printed_bytes: int = Field(default=1_000_000, ge=0)
    """What import and load() may print."""

    canned_tasks: int = Field(default=16, ge=2)
    """Tasks that get the canned replies."""
    scout_tasks: int = Field(default=4, ge=1)
    """The first of them, which get every form of every field as a reply; the others only the best form."""
    constant_tasks: int = Field(default=64, ge=2)
    """Tasks on which one and the same answer is tried: enough to tell a fair coin from a lopsided one."""
    canned_seconds: float = Field(default=12.0, gt=0)
    """Wall limit of all canned replies; what has not run by then counts as too slow."""
    reply_seconds: float = Field(default=2.0, gt=0)
    """Wall limit of one canned rollout."""
    max_turns: int = Field(default=32, ge=1)
    """Turns that a conversation may have when the model says the same in every turn."""
    mean_reply_seconds: float = Field(default=0.05, gt=0)
    """Largest mean time of a rollout that waits for no model, scoring included, one after another."""
    longest_reply: int = Field(default=4096, ge=64)
    """Characters of the longest canned reply; less where `max_completion_tokens` allows less."""

    max_reward: float = Field(default=10.0, gt=0)
    """Largest absolute reward of a rollout."""
    gameable: float = Field(default=0.75, gt=0, le=1)
    """Share of the way from the worst to the right reply from which a reply without content is a fault."""
    leaked: float = Field(default=0.9, gt=0, le=1)
    """Share of the tasks whose prompt spells out the answer from which it counts as a leak."""

    signal_tasks: int = Field(default=8, ge=1)
    """Tasks sampled from the base model at once."""
    signal_samples: int = Field(default=4, ge=2)
    """Replies a task: one small group."""
    signal_rounds: int = Field(default=3, ge=1)
    """How many times as many tasks are tried before a job counts as without signal."""
    signal_tokens: int = Field(default=4096, ge=1)
    """New tokens that are sampled in one go at most; longer replies mean fewer tasks at once."""
    signal_reply_seconds: float = Field(default=20.0, gt=0)
    """Limit of the environment's own time in a rollout with the model, which runs beside many others."""
    signal_seconds: float = Field(default=60.0, gt=0)
    """Wall limit of the signal test, the start of the model not included."""
