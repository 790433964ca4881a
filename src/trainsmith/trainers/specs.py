"""The engine's settings for a job: prime-rl's keys as the engine's own records."""

from __future__ import annotations

from trainsmith.engine.records import LoraSpec, OptimSpec, PrimeLoss, SchedulerSpec
from trainsmith.jobs.schema import (
    AdamW,
    AuthorConfig,
    CosineSchedule,
    LinearSchedule,
    Loss,
    Optim,
    Schedule,
    Sgd,
    SignSgd,
)


def optim_spec(config: AuthorConfig) -> OptimSpec:
    """Optimiser and schedule of a job that `jobs.honours` has passed for the embedded trainer."""
    return _optim(config.trainer.optim, _scheduler(config.trainer.scheduler, config.max_steps))


def loss_spec(loss: Loss) -> PrimeLoss:
    """The policy loss."""
    return PrimeLoss(loss.dppo_mask_low, loss.dppo_mask_high, loss.adv_tau, loss.kl_tau)


def lora_spec(config: AuthorConfig) -> LoraSpec | None:
    """Adapters; None trains all weights."""
    lora = config.trainer.model.lora
    return LoraSpec(lora.rank, lora.alpha, lora.dropout) if lora else None


def _optim(optim: Optim, scheduler: SchedulerSpec) -> OptimSpec:
    match optim:
        case AdamW():
            return OptimSpec(
                "adamw",
                optim.lr,
                optim.weight_decay,
                optim.max_norm,
                betas1=optim.betas1,
                betas2=optim.betas2,
                scheduler=scheduler,
            )
        case Sgd():
            return OptimSpec(
                "sgd",
                optim.lr,
                optim.weight_decay,
                optim.max_norm,
                momentum=optim.momentum,
                nesterov=optim.nesterov,
                scheduler=scheduler,
            )
        case SignSgd():
            return OptimSpec("sign_sgd", optim.lr, optim.weight_decay, optim.max_norm, scheduler=scheduler)
        case _:
            raise AssertionError(f"`honours` let {optim.type} through")


def _scheduler(schedule: Schedule, max_steps: int) -> SchedulerSpec:
    match schedule:
        case LinearSchedule():
            return SchedulerSpec(
                "linear", schedule.warmup_steps, schedule.decay_steps, schedule.min_lr, max_steps
            )
        case CosineSchedule():
            return SchedulerSpec("cosine", schedule.warmup_steps, min_lr=schedule.min_lr, max_steps=max_steps)
        case _:
            return SchedulerSpec("constant", max_steps=max_steps)
