"""The learning rate of each step, as a pure function; phases and their ends are prime-rl's. Free of torch.

linear: `warmup_steps` up from `min_lr`, flat, `decay_steps` down to `min_lr` at step max_steps - 1.
cosine: the same warm-up, then half a cosine that reaches `min_lr` at max_steps.
"""

from __future__ import annotations

import math

from trainsmith.engine.records import OptimSpec, SchedulerSpec
from trainsmith.errors import UserError

_NEARLY_ZERO = 1e-8
"""The share of the peak that stands for a `min_lr` of 0 at the ends of linear phases, as in prime-rl."""


def learning_rate(spec: OptimSpec, step: int) -> float:
    """The learning rate of step `step`, counted from 0. Raises UserError for phases that do not fit."""
    scheduler = spec.scheduler
    check_scheduler(scheduler)
    if scheduler.type == "constant" or spec.lr == 0:
        return spec.lr
    low = scheduler.min_lr / spec.lr if scheduler.min_lr > 0 else _NEARLY_ZERO
    if step < scheduler.warmup_steps:
        return spec.lr * (low + (1 - low) * step / scheduler.warmup_steps)
    if scheduler.type == "cosine":
        return _cosine(spec, step)
    if scheduler.decay_steps == 0:
        return spec.lr
    into_decay = step - (_all_steps(scheduler) - scheduler.decay_steps)
    if into_decay <= 0:
        return spec.lr
    return spec.lr * (1 + (low - 1) * min(1.0, into_decay / max(1, scheduler.decay_steps - 1)))


def check_scheduler(scheduler: SchedulerSpec) -> None:
    """Raise UserError when the phases do not fit into the run."""
    if scheduler.type == "constant":
        return
    warmup, decay = scheduler.warmup_steps, scheduler.decay_steps
    if scheduler.type == "linear" and warmup == 0 and decay == 0:
        raise UserError("linear without warm-up or decay", where="scheduler", fix="use type = 'constant'")
    if scheduler.type == "linear" and decay == 0:
        return
    if scheduler.max_steps is None:
        raise UserError(f"{scheduler.type} needs max_steps", where="scheduler", fix="set max_steps")
    if scheduler.type == "linear" and warmup + decay > scheduler.max_steps:
        what = f"warmup_steps + decay_steps = {warmup + decay} exceed max_steps = {scheduler.max_steps}"
        raise UserError(what, where="scheduler", fix="shorten a phase")
    if scheduler.type == "cosine" and warmup >= scheduler.max_steps:
        what = f"warmup_steps = {warmup} must be less than max_steps = {scheduler.max_steps}"
        raise UserError(what, where="scheduler", fix="shorten the warm-up")


def _cosine(spec: OptimSpec, step: int) -> float:
    scheduler = spec.scheduler
    span = _all_steps(scheduler) - scheduler.warmup_steps
    swing = (1 + math.cos(math.pi * (step - scheduler.warmup_steps) / span)) / 2
    return scheduler.min_lr + (spec.lr - scheduler.min_lr) * swing


def _all_steps(scheduler: SchedulerSpec) -> int:
    assert scheduler.max_steps is not None, "check_scheduler has refused this"
    return scheduler.max_steps
