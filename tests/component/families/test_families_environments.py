"""The reference environments, run by verifiers itself, without a model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainsmith import families

pytestmark = pytest.mark.component

SEEDS = (0, 1)
IDS = [task_id.replace("@0", f"@{seed}") for task_id in families.task_ids() for seed in SEEDS]

PLAY = '''
import asyncio, importlib, json, sys
import verifiers.v1 as vf
from verifiers.v1.state import state_cls

def trace(task, reply):
    """A finished trace in which the model said `reply`."""
    nodes = []
    for message in [*task.data.prompt, vf.AssistantMessage(content=reply)]:
        parent = len(nodes) - 1 if nodes else None
        nodes.append(vf.MessageNode(parent=parent, message=message, sampled=False))
    nodes[-1] = nodes[-1].model_copy(update={"sampled": True})
    agent = vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig()), name="agent", trainable=False)
    about = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    return vf.Trace(task=about, state=state_cls(type(task))(), nodes=nodes, agent=agent)

async def score(task, reply):
    played = trace(task, reply)
    await task.score(played)
    return played.reward

async def main():
    found = {}
    for folder, package in json.load(sys.stdin):
        sys.path.insert(0, folder)
        sys.modules.pop(package, None)
        agent = {"runtime": {"type": "subprocess"}}
        config = vf.resolve_env_config({"taskset": {"id": package}, "agent": agent})
        tasks = list(vf.load_taskset(config.taskset))
        again = list(vf.load_taskset(config.taskset))
        sys.path.remove(folder)
        first = tasks[0]
        found[folder] = {
            "exports": importlib.import_module(package).__all__,
            "prompts": [[[m.role, m.content] for m in task.data.prompt] for task in tasks],
            "answers": [task.data.answer for task in tasks],
            "alike": [task.key for task in tasks] == [task.key for task in again],
            "right": [await score(task, task.data.answer) for task in tasks[:20]],
            "hollow": [await score(task, said) for task in tasks[:5]
                       for said in ("", "no idea", task.data.prompt[-1].content, task.data.answer + " x")],
        }
    json.dump(found, sys.stdout)

asyncio.run(main())
'''


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """All environments, written out and run in one process without trainsmith in it."""
    root = tmp_path_factory.mktemp("jobs")
    work, places = [], {}
    for task_id in IDS:
        folder = root / task_id.replace("/", "-")
        _, file = families.reference_job(families.task(task_id))
        path = folder / file.path
        path.parent.mkdir(parents=True)
        path.write_text(file.content)
        places[task_id] = str(folder / "environment")
        work.append((places[task_id], path.parent.name))
    done = subprocess.run(
        [sys.executable, "-c", PLAY],
        input=json.dumps(work),
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    return {task_id: found[place] for task_id, place in places.items()}


@pytest.mark.parametrize("task_id", IDS)
def test_verifiers_loads_what_hidden_items_avoid(task_id: str, played: dict[str, dict[str, object]]) -> None:
    """Fault: the environment trains on other questions than those that are kept out of the hidden items."""
    task, found = families.task(task_id), played[task_id]
    items = families.training_items(task)
    assert found["exports"] == ["Questions"]
    assert found["alike"]
    assert found["answers"] == [item.answer for item in items]
    assert found["prompts"] == [
        [[message.role, message.content] for message in task.messages(item.question)] for item in items
    ]


@pytest.mark.parametrize("task_id", IDS)
def test_verifiers_rewards_the_answer_alone(task_id: str, played: dict[str, dict[str, object]]) -> None:
    """Fault: the reward does not reach verifiers, or pays for hollow replies."""
    assert set(map(float, played[task_id]["right"])) == {1.0}
    assert set(map(float, played[task_id]["hollow"])) == {0.0}


def test_items_are_the_same_in_a_process_with_another_hash_seed() -> None:
    """Fault: an item depends on the order of a set or on `hash()`."""
    code = (
        "from trainsmith import families\n"
        "for i in families.task_ids():\n"
        "    t = families.task(i)\n"
        "    items = (*families.hidden_items(t, b's'), *families.training_items(t), *t.examples)\n"
        "    print(families.items_key(items))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_no_file_is_left_out_of_the_package() -> None:
    """Fault: a template or the calibration is not shipped."""
    folder = Path(families.__file__).parent
    assert (folder / "environment.py.tmpl").is_file()
    assert (folder / "calibration.json").is_file()
