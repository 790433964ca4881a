"""verifiers' own program, `vf-eval`, with both of its clients on our server."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

pytestmark = pytest.mark.component
PROGRAM = Path(sys.executable).parent / "vf-eval"


@pytest.fixture
def evaluate(spoken, environments, tmp_path):
    """Call with a taskset and options: every trace that `vf-eval` has written."""

    def run(taskset, *options):
        client = ["--client.base-url", f"{spoken.url}/v1", "--client.api-key-var", "TRAINSMITH_TOKEN"]
        seat = ["--env.agent.harness.id", "http_harness", "--env.agent.runtime.type", "subprocess"]
        amount = ["-n", "3", "-r", "2", "--sampling.max-tokens", "8", "--sampling.temperature", "1.0"]
        place = ["--no-push", "--no-rich", "-o", str(tmp_path / "out")]
        own = {"TRAINSMITH_TOKEN": spoken.token, "PYTHONPATH": str(environments), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            [PROGRAM, taskset, "-m", "parrot", *client, *seat, *amount, *place, *options],
            env=os.environ | own,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        (file,) = tmp_path.glob("out/*/traces.jsonl")
        episodes = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert all(episode["ok"] and not episode["errors"] for episode in episodes), done.stdout
        return [trace for episode in episodes for trace in episode["traces"]]

    return run


def paths(nodes):
    """For each sampled node: all tokens up to its end, which are sampled, and the sampler's logprobs."""
    for node in nodes:
        if node["sampled"]:
            before, parent = [], node.get("parent")
            while parent is not None:
                before = nodes[parent]["token_ids"] + before
                parent = nodes[parent].get("parent")
            yield before + node["token_ids"], [False] * len(before) + node["mask"], node["logprobs"]


def test_the_evaluating_client(evaluate):
    """Guards against replies that verifiers' relay cannot read."""
    traces = evaluate("arith", "--client.type", "eval")
    assert len(traces) == 6
    for trace in traces:
        assert trace["ok"] and set(trace["rewards"]) == {"correct", "formatted"}
        assert trace["num_output_tokens"] in range(1, 9)


def test_the_training_client_over_several_turns(evaluate, parrot):
    """Guards against logprobs that are not the policy's on verifiers' own tokens, turn after turn."""
    renderer = ["--client.renderer-model-name", str(parrot), "--client.renderer.name", "default"]
    traces = evaluate("guess", "--client.type", "train", *renderer)
    assert len(traces) == 6
    model = AutoModelForCausalLM.from_pretrained(parrot, dtype=torch.float32).eval()
    sampled = 0
    for tokens, mask, told in (each for trace in traces for each in paths(trace["nodes"])):
        with torch.no_grad():
            logprobs = model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
        places = [place for place, own in enumerate(mask) if own]
        expected = [float(logprobs[place - 1, tokens[place]]) for place in places]
        assert told == pytest.approx(expected, abs=1e-3)
        sampled += len(told)
    assert sampled > 50
