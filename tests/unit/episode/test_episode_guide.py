"""The guide's length, and its table of keys against the schema."""

from __future__ import annotations

import re

from trainsmith import jobs, reward
from trainsmith.config.reward import RewardConfig
from trainsmith.episode import guide

HEADER = re.compile(r"\[+([\w.]+)\]+")
LINE = re.compile(r"(?:# )?(?P<key>[\w.]+) = (?P<value>[^#]+?)  # (?P<comment>.+)")
SHOWN_ELSEWHERE = {
    "orchestrator.train.source.env.agent.timeout.setup",
    "orchestrator.train.source.env.agent.timeout.rollout",
    "orchestrator.train.source.env.agent.timeout.finalize",
    "trainer.optim.momentum",
    "trainer.optim.nesterov",
    "trainer.model.lora.alpha",
    "trainer.model.lora.dropout",
}
"""Keys that the guide names in the comment of another."""
LEFT_OUT = {
    "orchestrator.train.source.name",
    "orchestrator.train.source.ratio",
    "trainer.loss.type",
    "inference.vllm.max_model_len",
}
"""Keys that change nothing about the training."""


def shown() -> dict[str, str]:
    """Dotted keys of the guide's rl.toml, commented ones too, with their comments."""
    block = re.search(r"```toml\n(.*?)```", guide.text(), re.DOTALL)
    assert block is not None
    table, found = "", {}
    for line in block[1].splitlines():
        if header := HEADER.fullmatch(line):
            table = f"{header[1]}."
        elif line:
            entry = LINE.fullmatch(line)
            assert entry is not None, line
            found[table + entry["key"]] = entry["comment"]
    return found


def test_guide_is_short() -> None:
    """Fault: the guide eats the context of a small agent (2,000 tokens; see the slow test for the count)."""
    assert len(guide.text()) <= 7_500
    assert guide.text().isascii()
    assert max(map(len, guide.text().splitlines())) <= 120


def test_guide_shows_the_keys_that_matter() -> None:
    """Fault: a key can be set that no agent is told of, or the guide names one that is refused."""
    table = jobs.keys()
    known = {key.path for key in table if "curriculum" not in key.path and key.variants != ("muon",)}
    in_guide = {path for path in shown() if path != "orchestrator.train.source.env.taskset.num_tasks"}
    assert in_guide | SHOWN_ELSEWHERE | LEFT_OUT == known
    assert not any(path.rpartition(".")[2] not in guide.text() for path in SHOWN_ELSEWHERE)


def test_defaults_in_the_guide_are_the_schema_s() -> None:
    """Fault: the guide tells a default that is not the one in force."""
    defaults = {key.path: key for key in reversed(jobs.keys())}
    for path, comment in shown().items():
        key = defaults.get(path)
        first = re.split(r"[;:,]", comment)[0]
        if key is None or key.name == "type" or first.startswith(("off", "no limit", "up to")):
            continue
        if key.required or key.name == "group_size":
            assert first == "required", path
        elif key.default in ("true", "false"):
            assert first == key.default, path
        else:
            assert float(first) == float(key.default), path


def test_reward_in_the_guide_is_the_reward() -> None:
    """Fault: the guide promises another reward than is paid."""
    config = RewardConfig()
    text = " ".join(guide.text().split())
    assert (
        f"R = {config.validation:.2f} validation + {config.quality:.2f} quality + {config.speed:.2f} speed"
        in text
    )
    assert f"quality = {config.level} post + {1 - config.level} max(0, (post - b) / (1 - b))" in text
    inputs = reward.RewardInputs(
        validation_attempt=2, max_validations=3, post=0.0, baseline=0.0, tokens=0, budget=1
    )
    assert abs(reward.reward(inputs, config).validation - 2 / 3) < 1e-9
