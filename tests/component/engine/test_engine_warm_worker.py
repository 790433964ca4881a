"""Jobs one after the other in one process: fresh weights and a fresh optimiser, whatever came before."""

import asyncio
import gc
import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from trainsmith import families, jobs
from trainsmith.config.engine import EngineConfig
from trainsmith.config.jail import JailConfig
from trainsmith.config.trainer import EmbeddedTrainerConfig
from trainsmith.jobs.resolution import resolve
from trainsmith.progress import Progress
from trainsmith.records import Status
from trainsmith.rollout.policies import Policies
from trainsmith.trainers.embedded import EmbeddedTrainer
from trainsmith.trainers.metrics import read
from trainsmith.trainers.order import TrainOrder

pytestmark = pytest.mark.component
TASK = families.task("strings/last-word@0")
REWARD = "float(len(reply) % 2)"
SETTINGS = {"max_steps": "3", "batch_size": "8", "group_size": "4", "lr": "1e-3"}
LORA = "\n[trainer.model.lora]\nrank = 4\ndropout = 0.2\n"


def order(place, base, *, seed=1, reward=REWARD, extra="", listen=lambda progress: None, **settings):
    """A small job whose reward a random model gets now and then."""
    folder = place / "job"
    jobs.init(folder, TASK, "reference")
    package = folder / "environment" / "last_word" / "__init__.py"
    text = re.sub(r"PREFIX = \[.*?\n\]", "PREFIX = []", package.read_text(), flags=re.S)
    package.write_text(text.replace("float(clean(reply) == answer)", reward))
    config = (folder / "rl.toml").read_text() + extra
    for key, value in (SETTINGS | settings).items():
        config = re.sub(rf"(?m)^{key} = \S+", f"{key} = {value}", config)
    (folder / "rl.toml").write_text(config)
    resolved = resolve(jobs.load(folder, TASK, trainer="embedded"), TASK, "r", "embedded", seed)
    resolved = resolved.model_copy(update={"base": f"path:{base}"})
    return TrainOrder(resolved, folder, TASK, place / "output", listen)


def worker(dtype="float32"):
    """Policies and the trainer over them."""
    policies = Policies(EngineConfig(device="cpu", dtype=dtype))
    return policies, EmbeddedTrainer(EmbeddedTrainerConfig(), policies, JailConfig())


def digest(outcome):
    assert outcome.status is Status.OK, outcome.reason
    return hashlib.sha256(Path(outcome.weights).read_bytes()).hexdigest()


def fresh(base, place, dtype, extra):
    """The digest of the job's weights, alone in a process of its own."""
    code = (
        "import asyncio, importlib.util, sys; from pathlib import Path;"
        f"spec = importlib.util.spec_from_file_location('warm', {__file__!r});"
        "warm = importlib.util.module_from_spec(spec); spec.loader.exec_module(warm);"
        f"trainer = warm.worker({dtype!r})[1];"
        f"order = warm.order(Path(sys.argv[1]), sys.argv[2], extra={extra!r});"
        "print(warm.digest(asyncio.run(trainer.train(order))))"
    )
    command = [sys.executable, "-c", code, str(place), str(base)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


async def cancelled_in_an_update(trainer, make):
    """Cancel a job while its second step is under way."""
    second = asyncio.Event()

    def listen(progress: Progress) -> None:
        if progress.step == 1:
            second.set()

    task = asyncio.ensure_future(trainer.train(make(listen=listen, max_steps="30")))
    await second.wait()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("dtype", "extra"),
    [
        ("float32", ""),
        pytest.param("bfloat16", "", marks=pytest.mark.slow),
        pytest.param("float32", LORA, marks=pytest.mark.slow),
        pytest.param("bfloat16", LORA, marks=pytest.mark.slow),
    ],
)
async def test_failed_jobs_leave_no_trace_in_the_next(tiny, tmp_path, dtype, extra):
    """Guards against weights, moments, adapters or random numbers that one job leaves to the next."""
    base, _ = tiny()
    policies, trainer = worker(dtype)
    places = iter(tmp_path / str(number) for number in range(99))

    def make(**options):
        return order(next(places), base, **({"extra": extra} | options))

    digests = {fresh(base, tmp_path / "alone", dtype, extra), digest(await trainer.train(make()))}
    assert digest(await trainer.train(make(seed=2, extra=""))) not in digests
    diverged = await trainer.train(ruined(make(extra="", max_steps="6")))
    assert diverged.status is Status.FAILED and "finite" in diverged.reason
    broken = await trainer.train(make(reward="1 / 0"))
    assert broken.status is Status.FAILED
    await cancelled_in_an_update(trainer, make)
    digests.add(digest(await trainer.train(make())))
    policies.close()
    assert len(digests) == 1


async def test_the_mismatch_is_logged_at_every_step(tiny, tmp_path):
    """Guards against a sampler that drifts from the learner unseen."""
    policies, trainer = worker("bfloat16")
    job = order(tmp_path, tiny()[0], max_steps="4")
    assert (await trainer.train(job)).status is Status.OK
    steps = read(job.output / "metrics.jsonl")
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert all(0 <= step.mismatch_kl < 1e-2 for step in steps)
    assert any(step.mismatch_kl > 0 for step in steps)
    policies.close()


@pytest.mark.slow
async def test_twenty_jobs_in_one_process_do_not_grow(tiny, tmp_path):
    """Guards against learners, environments or descriptors that outlive their job."""
    base, _ = tiny(vocabulary=20_000)
    policies, trainer = worker()
    process, sizes, files = psutil.Process(), [], []
    for number in range(20):
        place = tmp_path / str(number)
        await trainer.train(order(place, base, seed=number, extra=LORA if number % 2 else "", max_steps="2"))
        gc.collect()
        sizes.append(process.memory_info().rss)
        files.append(process.num_fds())
    policies.close()
    # Weights alone are 5 MB, a learner with its moments 20 MB.
    assert max(sizes[15:]) - max(sizes[5:10]) < 10 * 2**20
    assert files[-1] == files[5]


async def test_a_job_that_waits_opens_its_environment_and_leaves_it_in_time(tiny, tmp_path):
    """Guards against jails that stay when a job never gets its turn."""
    base, _ = tiny()
    policies, trainer = worker()
    before = len(psutil.Process().children(recursive=True))
    first, second = order(tmp_path / "a", base), order(tmp_path / "b", base, reward="1 / 0")
    async with trainer.prepare(first) as job, trainer.prepare(second) as waiting:
        await job.set_up()
        assert len(psutil.Process().children(recursive=True)) > before
        assert (await job.train()).status is Status.OK
        assert (await waiting.train()).status is Status.FAILED
    async with trainer.prepare(first):
        pass
    assert len(psutil.Process().children(recursive=True)) == before
    policies.close()


async def test_ruined_weights_fail_the_job(tiny, tmp_path):
    """Guards against a traceback, and a job without an end, when a step makes the weights NaN."""
    base, _ = tiny("llama", True)
    policies, trainer = worker()
    outcome = await trainer.train(ruined(order(tmp_path, base)))
    assert (outcome.status, outcome.weights) == (Status.FAILED, "")
    assert re.fullmatch(r"the weights are not finite after step \d: .*", outcome.reason)
    policies.close()


def ruined(job):
    """The order at a rate that the folder check would refuse."""
    config = job.job.config
    optim = config.trainer.optim.model_copy(update={"lr": 1e308})
    trainer = config.trainer.model_copy(update={"optim": optim})
    return replace(
        job, job=job.job.model_copy(update={"config": config.model_copy(update={"trainer": trainer})})
    )
