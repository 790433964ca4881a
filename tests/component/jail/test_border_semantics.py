"""The in-process boundary against verifiers' own server: the same package and replies, the same outcome."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainsmith.jail.border import EnvironmentRollout, GenerateCall, GenerateReply
from trainsmith.jail.border.worker.quick import PINNED

pytestmark = pytest.mark.component

ENVIRONMENTS = Path(__file__).parents[2] / "environments"
REFERENCE = Path(__file__).parent / "inmates" / "reference.py"


def test_verifiers_is_the_pinned_version():
    """Guards against a version whose inside the boundary does not know."""
    assert importlib.metadata.version("verifiers") == PINNED


def test_the_boundary_does_what_verifiers_server_does(loop, bubblewrap, tmp_path):
    """Guards against hooks, stops, limits or time-outs that differ from verifiers' own order of calls."""
    reference = subprocess.Popen(
        [sys.executable, str(REFERENCE), str(ENVIRONMENTS)],
        env={**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    env = loop.environment(bubblewrap, "semantics")

    async def play() -> list[EnvironmentRollout]:
        return [await env.rollout(index, say) for index in range(env.info.tasks)]

    ours = [_summary(result) for result in loop.run(play())]
    said, complaints = reference.communicate(timeout=120)
    assert reference.returncode == 0, complaints
    theirs = json.loads(said)
    assert len(ours) == len(theirs) == 5
    for kind, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == other, f"task {kind}"
    assert {trace["stop"] for result in ours for trace in result["traces"]} >= {
        "bad_word",
        "enough",
        "max_turns",
    }
    assert any(trace["timed_out"] for result in ours for trace in result["traces"])


async def say(call: GenerateCall) -> GenerateReply:
    """The reference's model."""
    contents = [message.content for message in call.messages]
    text = "zzz" if contents[-1] == "more 2" and "q0" in contents else f"reply to {contents[-1]}"
    await asyncio.sleep(1.5 if contents[-1] == "more 1" and "q4" in contents else 0.0)
    return GenerateReply(text=text, finish="stop", prompt_tokens=1, completion_tokens=1)


def _summary(result: EnvironmentRollout) -> dict[str, Any]:
    return {
        "ok": result.ok,
        "errors": [error.partition(":")[0] for error in result.errors],
        "traces": [
            {
                "agent": trace.agent,
                "trainable": trace.trainable,
                "ok": trace.ok,
                "stop": trace.stop,
                "timed_out": trace.timed_out,
                "turns": trace.turns,
                "rewards": {reward.name: [reward.value, reward.weight] for reward in trace.rewards},
                "metrics": {metric.name: metric.value for metric in trace.metrics},
                "errors": [error.partition(":")[0] for error in trace.errors],
            }
            for trace in result.traces
        ],
    }
