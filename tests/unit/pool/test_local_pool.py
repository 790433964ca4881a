"""The order in which the local pool works on jobs that come at the same time."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from trainsmith import families, jobs
from trainsmith.config.grading import GradingConfig
from trainsmith.config.reward import RewardConfig
from trainsmith.errors import MachineError, UserError
from trainsmith.grading.baselines import BaseScore
from trainsmith.ledger import Ledger
from trainsmith.pool.local import LocalPool
from trainsmith.records import HiddenScore, Status, TrainOutcome
from trainsmith.runs import RunDirectory

TASK = families.task("strings/last-word@0")


class Machine:
    """What happens, in order; and how many jobs are prepared, and worked on, at once."""

    def __init__(self):
        self.events, self.prepared, self.busy, self.most = [], 0, 0, {"prepared": 0, "busy": 0}

    def note(self, what, seed):
        self.events.append((what, seed))
        self.most = {name: max(most, getattr(self, name)) for name, most in self.most.items()}


class Trainer:
    """Prepares at once and trains as soon as the test lets it."""

    def __init__(self, machine, broken):
        self.machine, self.broken = machine, broken

    @asynccontextmanager
    async def prepare(self, order):
        self.machine.prepared += 1
        self.machine.note("prepare", order.job.seed)
        try:
            yield Job(self.machine, order.job.seed, self.broken.get(order.job.seed))
        finally:
            self.machine.prepared -= 1


class Job:
    def __init__(self, machine, seed, broken):
        self.machine, self.seed, self.broken = machine, seed, broken

    async def set_up(self):
        if self.broken:
            raise self.broken
        self.machine.busy += 1
        self.machine.note("set up", self.seed)
        await pause()

    async def train(self):
        self.machine.note("train", self.seed)
        await pause()
        return TrainOutcome(status=Status.NO_SIGNAL, reason="a fake")


class Evaluator:
    """Knows every score already."""

    def __init__(self, machine):
        self.machine, self.config, self.key = machine, GradingConfig(), "i"

    def items_key(self, task):
        return self.key

    async def bases(self, task, listen):
        score = HiddenScore(model="m", items="i", scores=(0.0, 1.0))
        return tuple(BaseScore(base=base, score=score) for base in task.bases)

    async def examples(self, task, base, weights, folder):
        await pause()
        self.machine.busy -= 1
        self.machine.note("graded", folder)


async def pause():
    """Let every other task go on as far as it can."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
def pool(tmp_path):
    """Call with the errors of the seeds that break: (start(seed), the machine)."""
    ledgers = []

    def make(broken=None):
        machine, job = Machine(), tmp_path / "job"
        machine.evaluator = Evaluator(machine)
        jobs.init(job, TASK, "reference")
        ledgers.append(Ledger.open(tmp_path / "run"))
        local = LocalPool(
            RunDirectory(tmp_path / "run"),
            ledgers[0],
            machine.evaluator,
            asyncio.Lock(),
            Trainer(machine, broken or {}),
            trainer_name="embedded",
            keep_weights=False,
            rewards=RewardConfig(),
        )
        machine.ledger, machine.jobs = ledgers[0], tmp_path / "run" / "jobs"
        return (lambda seed: asyncio.ensure_future(local.run(job, TASK, seed=seed))), machine

    yield make
    for ledger in ledgers:
        ledger.close()


async def test_only_the_next_job_is_prepared_while_one_is_worked_on(pool):
    """Guards against two jobs on one policy at once, and against an open jail for every job in the line."""
    start, machine = pool()
    results = await asyncio.gather(*(start(seed) for seed in range(5)))
    assert [result.status for result in results] == [Status.NO_SIGNAL] * 5
    assert machine.most == {"prepared": 2, "busy": 1}
    before_grading = machine.events[: [what for what, _ in machine.events].index("graded")]
    assert ("prepare", 1) in before_grading and ("set up", 1) not in before_grading


async def test_a_broken_or_cancelled_job_gives_its_turn_away(pool):
    """Guards against a lock that is never released, and a preparation that is never ended."""
    start, machine = pool(broken={0: MachineError("no jail")})
    broken, waiting, last = start(0), start(1), start(2)
    with pytest.raises(MachineError):
        await broken
    await pause()
    cancelled = start(3)
    await pause()
    cancelled.cancel()
    assert [result.status for result in await asyncio.gather(waiting, last)] == [Status.NO_SIGNAL] * 2
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert (machine.prepared, machine.busy) == (0, 0)
    assert (await start(3)).status is Status.NO_SIGNAL


async def test_an_unexpected_error_makes_the_job_void(pool):
    """Guards against a claim that stays in the ledger, without a reason, after a bug met a job."""
    start, machine = pool(broken={0: RuntimeError("index out of bounds")})
    with pytest.raises(RuntimeError, match="out of bounds"):
        await start(0)
    (identity,) = (folder.name for folder in machine.jobs.iterdir())
    row = machine.ledger.jobs.row(identity)
    assert (row.state, row.result.reason) == ("void", "RuntimeError: index out of bounds")


@pytest.mark.parametrize(
    ("grading", "key", "said"),
    [
        (GradingConfig(seed=5), "i", r"seed 0, not 5.*--grading\.seed 0, or another --run"),
        (GradingConfig(level=0.9), "i", r"level 0\.95, not 0\.9.*--grading\.level 0\.95"),
        (GradingConfig(), "other", r"hidden items i, not other.*TRAINSMITH_STATE"),
    ],
)
async def test_a_result_answers_only_for_its_own_grading(pool, grading, key, said):
    """Guards against a recorded score that passes for one under other settings or hidden items."""
    start, machine = pool()
    first = await start(0)
    assert await start(0) == first
    machine.evaluator.config, machine.evaluator.key = grading, key
    with pytest.raises(UserError, match=said):
        await start(0)
