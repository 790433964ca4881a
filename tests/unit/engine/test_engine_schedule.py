"""Learning rates must be those of torch's schedulers, put together as prime-rl does."""

import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from trainsmith.engine.records import OptimSpec, SchedulerSpec
from trainsmith.engine.schedule import learning_rate
from trainsmith.errors import UserError

PEAK = 3e-4


def rates_of(build, steps):
    optimiser = SGD([torch.zeros(1, requires_grad=True)], lr=PEAK)
    scheduler = build(optimiser)
    rates = []
    for _ in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


def linear_phases(warmup, decay, low, steps):
    def build(optimiser):
        flat = steps - decay - warmup
        rise = LinearLR(optimiser, start_factor=low, end_factor=1.0, total_iters=warmup)
        hold = LinearLR(optimiser, start_factor=1.0, end_factor=1.0, total_iters=flat)
        fall = LinearLR(optimiser, start_factor=1.0, end_factor=low, total_iters=decay - 1)
        return SequentialLR(optimiser, [rise, hold, fall], [warmup, steps - decay])

    return build


@pytest.mark.parametrize(
    ("warmup", "decay", "min_lr"), [(5, 7, 0.0), (5, 7, 1e-5), (1, 2, 0.0), (10, 10, 1e-5)]
)
def test_linear(warmup, decay, min_lr):
    """Guards against a phase that starts or ends a step off."""
    low = min_lr / PEAK if min_lr else 1e-8
    expected = rates_of(linear_phases(warmup, decay, low, 20), 20)
    spec = OptimSpec(lr=PEAK, scheduler=SchedulerSpec("linear", warmup, decay, min_lr, max_steps=20))
    assert [learning_rate(spec, step) for step in range(20)] == pytest.approx(expected, rel=1e-9, abs=1e-16)


def test_a_decay_of_one_step_stays_at_the_peak():
    """Guards against a division by zero, which is what torch's own schedulers do here."""
    spec = OptimSpec(lr=PEAK, scheduler=SchedulerSpec("linear", 0, 1, max_steps=3))
    assert [learning_rate(spec, step) for step in range(5)] == [
        PEAK,
        PEAK,
        PEAK,
        pytest.approx(PEAK * 1e-8),
        pytest.approx(PEAK * 1e-8),
    ]


def test_linear_warmup_alone_needs_no_max_steps():
    """Guards against refusing, or decaying, a run that only warms up."""
    expected = rates_of(lambda o: LinearLR(o, start_factor=1e-8, end_factor=1.0, total_iters=4), 9)
    spec = OptimSpec(lr=PEAK, scheduler=SchedulerSpec("linear", 4, 0))
    assert [learning_rate(spec, step) for step in range(9)] == pytest.approx(expected, rel=1e-9, abs=1e-16)


@pytest.mark.parametrize(("warmup", "min_lr"), [(0, 0.0), (4, 0.0), (4, 1e-5)])
def test_cosine(warmup, min_lr):
    """Guards against a cosine that ends early or ignores its floor."""

    def build(optimiser):
        fall = CosineAnnealingLR(optimiser, T_max=20 - warmup, eta_min=min_lr)
        if not warmup:
            return fall
        rise = LinearLR(optimiser, start_factor=min_lr / PEAK or 1e-8, end_factor=1.0, total_iters=warmup)
        return SequentialLR(optimiser, [rise, fall], [warmup])

    expected = rates_of(build, 20)
    spec = OptimSpec(lr=PEAK, scheduler=SchedulerSpec("cosine", warmup, 0, min_lr, max_steps=20))
    assert [learning_rate(spec, step) for step in range(20)] == pytest.approx(expected, rel=1e-7, abs=1e-16)


def test_constant():
    """Guards against warm-up keys that act although the type ignores them."""
    assert {learning_rate(OptimSpec(lr=PEAK), step) for step in range(30)} == {PEAK}


@pytest.mark.parametrize(
    "scheduler",
    [
        SchedulerSpec("linear", 0, 0),
        SchedulerSpec("linear", 1, 1),
        SchedulerSpec("linear", 6, 6, max_steps=10),
        SchedulerSpec("cosine", 1),
        SchedulerSpec("cosine", 10, max_steps=10),
    ],
)
def test_phases_that_do_not_fit_are_refused(scheduler):
    """Guards against a schedule that prime-rl would refuse only after the model is loaded."""
    with pytest.raises(UserError, match="scheduler"):
        learning_rate(OptimSpec(scheduler=scheduler), 0)
