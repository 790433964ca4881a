"""The identity of a job: what changes it, what does not, and what the completed file holds."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainsmith.jobs import Job, Placement, ResolvedJob, load, resolve
from trainsmith.jobs.resolution import Conditions
from trainsmith.jobs.tree import FileDigest
from trainsmith.records import Task

MakeJob = Callable[..., Path]
Edited = Callable[[dict[str, Any]], str]
WITH_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def _identity(job: Job, task: Task, **changed: Any) -> str:
    arguments: dict[str, Any] = {"base_revision": "r0", "trainer": "embedded", "seed": 0, **changed}
    return resolve(job, task, **arguments).identity


@pytest.fixture
def job(make_job: MakeJob, task: Task) -> Job:
    return load(make_job(), task)


def test_it_is_a_sha256_and_stays_the_same(job: Job, task: Task) -> None:
    """Fault: identities change between versions unnoticed, and recorded results are trained again."""
    assert _identity(job, task) == "32e45f23987b11bdfc4d60f4da7b819ea2262e74978599c227ea9f316026fee4"


@pytest.mark.parametrize(
    "changed",
    [{"base_revision": "r1"}, {"trainer": "prime_rl"}, {"seed": 1}, {"seed": -1}],
)
def test_every_part_changes_it(job: Job, task: Task, changed: dict[str, Any]) -> None:
    """Fault: another seed, base or trainer is answered with a recorded result."""
    assert _identity(job, task, **changed) != _identity(job, task)


@pytest.mark.parametrize("changed", [{"engine": "auto/float32"}, {"no_signal_steps": 2}])
def test_the_conditions_change_it(job: Job, task: Task, changed: dict[str, Any]) -> None:
    """Fault: another precision or trainer setting is answered with a result that was not trained so."""
    assert _identity(job, task, conditions=Conditions(**changed)) != _identity(job, task)
    assert _identity(job, task, conditions=Conditions()) == _identity(job, task)


def test_the_task_changes_it(job: Job, task: Task) -> None:
    """Fault: the same job for two tasks shares one result."""
    assert _identity(job, task.model_copy(update={"id": "strings/last-word@1"})) != _identity(job, task)


CHANGES: list[dict[str, Any]] = [
    {"max_steps": 41},
    {"seq_len": 193},
    {"model.name": "smollm2-135m-28l"},
    {"orchestrator.batch_size": 112},
    {"orchestrator.group_size": 8},
    {"orchestrator.max_off_policy_steps": 0},
    {"orchestrator.algo.type": "max_rl"},
    {"orchestrator.algo.length_penalty": {}},
    {"orchestrator.train.filter_zero_advantages": False},
    {"orchestrator.train.sampling.temperature": 0.9},
    {"orchestrator.train.sampling.max_completion_tokens": None},
    {"source.name": "words"},
    {"source.ratio": 2.0},
    {"source.env.taskset.seed": 2},
    {"source.env.taskset.seed": 1.0},
    {"source.env.taskset.more": {"a": [1, {"b": True}]}},
    {"source.env.agent.max_turns": 1},
    {"source.env.agent.timeout.scoring": 1},
    {"trainer.optim.type": "sgd"},
    {"trainer.optim.lr": 3.0000001e-5},
    {"trainer.optim.max_norm": "None"},
    {"trainer.scheduler.type": "cosine"},
    {"trainer.loss.kl_tau": 0},
    {"trainer.model.lora": {}},
    {"inference.vllm.max_model_len": 200},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_every_key_changes_it(
    make_job: MakeJob, job: Job, task: Task, edited: Edited, changes: dict[str, Any]
) -> None:
    """Fault: a key that matters is left out of the identity."""
    assert _identity(load(make_job({"rl.toml": edited(changes)}), task), task) != _identity(job, task)


SAME = {
    "comments": lambda text: "# a comment\n" + text.replace("\n", "  # why\n", 1),
    "spacing": lambda text: text.replace(" = ", "=").replace("\n\n", "\n\n\n"),
    "written-out defaults": lambda text: (
        text.replace("lr = 3e-5", 'type = "adamw"\nlr = 3e-5\nweight_decay = 0.01\nmax_norm = 1')
        + '[trainer.loss]\ntype = "default"\n[inference.vllm]\nmax_model_len = 192\n'
    ),
    "default name": lambda text: text.replace(
        "[[orchestrator.train.source]]\n", '[[orchestrator.train.source]]\nname = "last_word"\n'
    ),
    "the base's numbers": lambda text: text.replace("3e-5", "0.00003").replace(
        "seq_len = 192", "seq_len = 0xC0"
    ),
    "windows lines": lambda text: text.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_what_rl_toml_does_not_say_does_not_change_it(
    make_job: MakeJob, job: Job, task: Task, rl_toml: str, change: Callable[[str], str]
) -> None:
    """Fault: a comment or a reordered key costs a training of what is already known."""
    text = change(rl_toml)
    assert text != rl_toml
    assert _identity(load(make_job({"rl.toml": text}), task), task) == _identity(job, task)


@WITH_FOLDER
@given(data=st.data())
def test_the_order_of_keys_does_not_change_it(
    data: st.DataObject, make_job: MakeJob, job: Job, task: Task, rl_toml: str
) -> None:
    """Fault: the identity depends on the order in which the author wrote keys and tables."""
    tables = rl_toml.split("\n\n")
    top, (source, *others) = (
        tables[0],
        [t for t in tables if "source]]" in t] + [t for t in tables[1:] if "source]]" not in t],
    )
    shuffled = data.draw(st.permutations([source, *others]))
    lines = data.draw(st.permutations(top.splitlines()))
    text = "\n".join(lines) + "\n\n" + "\n\n".join(shuffled)
    assert _identity(load(make_job({"rl.toml": text}), task), task) == _identity(job, task)


def test_a_comment_in_code_changes_it(make_job: MakeJob, job: Job, task: Task) -> None:
    """Fault: files are compared by anything less than their bytes."""
    changed = make_job({"environment/last_word/__init__.py": "from last_word.rewards import best  # x\n"})
    assert _identity(load(changed, task), task) != _identity(job, task)


def test_times_and_modes_do_not_change_it(make_job: MakeJob, job: Job, task: Task) -> None:
    """Fault: a copied or checked-out job is another job."""
    folder = make_job()
    for path in folder.rglob("*"):
        path.chmod(0o700)
    assert _identity(load(folder, task), task) == _identity(job, task)


_FILES = st.dictionaries(st.text("abc/", min_size=1, max_size=6), st.text("01", max_size=3), max_size=5)


@WITH_FOLDER
@given(first=_FILES, second=_FILES, data=st.data())
def test_it_is_the_same_exactly_for_the_same_files(
    first: dict[str, str], second: dict[str, str], data: st.DataObject, job: Job, task: Task
) -> None:
    """Fault: two sets of files share an identity, or the order in which they are listed counts."""

    def with_files(files: list[tuple[str, str]]) -> Job:
        digests = tuple(FileDigest(path=path, size=len(text), sha256=text) for path, text in files)
        return job.model_copy(update={"files": digests})

    one = _identity(with_files(list(first.items())), task)
    assert _identity(with_files(data.draw(st.permutations(list(first.items())))), task) == one
    assert (_identity(with_files(list(second.items())), task) == one) == (first == second)


def test_the_place_does_not_change_it(job: Job, task: Task) -> None:
    """Fault: the same job on another host, port or folder is trained again."""
    place = Placement(output_dir="/elsewhere", server_port=9000, model="/models/smollm2", train_gpus=2)
    assert _identity(job, task, placement=place) == _identity(job, task)


def test_a_resolved_job_goes_through_json(job: Job, task: Task) -> None:
    """Fault: the record that crosses to a pool's host comes back different, and so does its identity."""
    resolved = resolve(job, task, "r0", "embedded", 0)
    assert ResolvedJob.model_validate_json(resolved.model_dump_json()) == resolved
    assert resolved.taskset_args == '{"num_tasks":512,"seed":1}'


def test_the_completed_file_says_what_the_author_said(job: Job, task: Task) -> None:
    """Fault: completion drops or changes a key of the author's."""
    completed = tomllib.loads(resolve(job, task, "r0", "prime_rl", 7).toml)
    source = completed["orchestrator"]["train"]["source"][0]
    assert completed["max_steps"] == 40
    assert completed["trainer"]["optim"]["lr"] == 3e-5
    assert source["env"]["taskset"] == {"id": "last_word", "num_tasks": 512, "seed": 1}
    assert source["name"] == "last_word"


def test_the_completed_file_adds_what_is_trainsmiths(job: Job, task: Task) -> None:
    """Fault: rollouts go to a remote paid sandbox, thinking is on, or two runs share a port or a folder."""
    place = Placement(
        output_dir="/runs/1", run_name="job", server_port=9001, environment_port=9100, harness="h"
    )
    completed = tomllib.loads(resolve(job, task, "r0", "prime_rl", 7, place).toml)
    orchestrator = completed["orchestrator"]
    agent = orchestrator["train"]["source"][0]["env"]["agent"]
    assert agent == {"timeout": {}, "runtime": {"type": "subprocess"}, "harness": {"id": "h"}}
    assert orchestrator["renderer"] == {"name": "default", "enable_thinking": False}
    assert orchestrator["env_server_base_port"] == 9100
    assert completed["inference"]["server"] == {"port": 9001}
    assert completed["inference"]["vllm"]["max_model_len"] == 192
    assert completed["weight_broadcast"] == {"type": "filesystem"}
    assert (completed["output_dir"], completed["run"]) == ("/runs/1", {"name": "job"})


def test_no_gradient_clipping_is_written_out(make_job: MakeJob, task: Task, edited: Edited) -> None:
    """Fault: clipping that the author turned off comes back as prime-rl's default of 1.0."""
    job = load(make_job({"rl.toml": edited({"trainer.optim.max_norm": "None"})}), task)
    assert job.config.trainer.optim.max_norm is None
    assert (
        tomllib.loads(resolve(job, task, "r", "prime_rl", 0).toml)["trainer"]["optim"]["max_norm"] == "None"
    )
