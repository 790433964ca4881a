"""The schema against prime-rl's published defaults, the key table, and the list of refused keys."""

from __future__ import annotations

import pickle
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from trainsmith.errors import UserError
from trainsmith.jail.border import TimeLimits, environment
from trainsmith.jobs import AuthorConfig, JobError, honours, keys, refusals
from trainsmith.jobs.forbidden import KEYS, VALUES, reason
from trainsmith.jobs.keys import find
from trainsmith.jobs.limits import MAX_HOOK_SECONDS, MAX_ROLLOUT_SECONDS, MAX_TURNS

SOURCE = "orchestrator.train.source"
TASKSET = {"id": "x"}
MINIMAL = {
    "max_steps": 4,
    "model": {"name": "smollm2-135m"},
    "orchestrator": {"group_size": 8, "train": {"source": [{"env": {"taskset": TASKSET}}]}},
}


def _config(**changes: object) -> AuthorConfig:
    return AuthorConfig.model_validate({**MINIMAL, **changes})


def _source(**changes: object) -> AuthorConfig:
    source = {"env": {"taskset": TASKSET}, **changes}
    return _config(orchestrator={"group_size": 8, "train": {"source": [source]}})


def test_defaults_are_prime_rls() -> None:
    """Fault: a key left out means one thing in the embedded trainer and another in prime-rl."""
    config = _config()
    assert config.seq_len == 2048
    assert (config.orchestrator.batch_size, config.orchestrator.max_off_policy_steps) == (128, 8)
    assert (config.orchestrator.algo.type, config.orchestrator.train.filter_zero_advantages) == ("grpo", True)
    assert config.orchestrator.train.sampling.temperature == 1.0
    assert config.trainer.optim.model_dump() == {
        "type": "adamw",
        "lr": 1e-6,
        "weight_decay": 0.01,
        "max_norm": 1.0,
        "betas1": 0.9,
        "betas2": 0.999,
    }
    assert config.trainer.scheduler.type == "constant"
    assert config.trainer.loss.model_dump() == {
        "type": "default",
        "dppo_mask_low": 0.2,
        "dppo_mask_high": 0.2,
        "adv_tau": 1.0,
        "kl_tau": 1e-3,
    }
    assert config.trainer.model.lora is None


def test_a_variants_type_may_be_left_out_only_for_the_default() -> None:
    """Fault: prime-rl takes a table without `type` as its default variant, trainsmith as another."""
    assert _config(trainer={"optim": {"betas1": 0.8}}).trainer.optim.type == "adamw"
    assert (
        _config(trainer={"scheduler": {"type": "linear", "decay_steps": 0}}).trainer.scheduler.type
        == "linear"
    )


def test_configs_cannot_be_changed() -> None:
    """Fault: a resolved config is changed after its identity was taken."""
    with pytest.raises(ValueError, match="frozen"):
        _config().seq_len = 1  # type: ignore[misc]


def test_none_turns_off_what_may_be_off() -> None:
    """Fault: prime-rl's own spelling of "no clipping" is refused, or turns off what must be on."""
    assert _config(trainer={"optim": {"max_norm": "None"}}).trainer.optim.max_norm is None
    assert _config(model={"name": "None"}).model.name == "None"


def _leaves(model: BaseModel, prefix: str = "") -> list[str]:
    paths = []
    for name, value in model:
        parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            path = f"{prefix}{name}"
            paths += _leaves(part, f"{path}.") if isinstance(part, BaseModel) else [path]
    return paths


def test_every_key_of_a_config_is_in_the_table() -> None:
    """Fault: a key that may be set is missing from messages, skeleton and guide."""
    config = _config(
        trainer={
            "model": {"lora": {}},
            "scheduler": {"type": "cosine", "warmup_steps": 1},
            "optim": {"type": "muon"},
        }
    )
    assert [path for path in _leaves(config) if find(path) is None and not path.endswith("curriculum")] == [
        "orchestrator.algo.length_penalty"
    ]


def test_every_key_is_described() -> None:
    """Fault: an agent is shown a key without its meaning or its bounds."""
    assert len(keys()) > 50
    for key in keys():
        assert key.expects, key
        assert key.meaning, key
        assert key.required or key.default or key.meaning, key


def test_the_table_names_variants_only_where_they_differ() -> None:
    """Fault: the guide says that `lr` belongs to one optimiser."""
    learning_rates = [key for key in keys() if key.path == "trainer.optim.lr"]
    assert [key.variants for key in learning_rates] == [()]
    assert {key.variants for key in keys() if key.path == "trainer.optim.betas2"} == {("adamw",), ("muon",)}
    optim = find("trainer.optim.type")
    assert optim is not None
    assert optim.expects == '"adamw", "sgd", "sign_sgd" or "muon"'


def test_no_key_is_both_allowed_and_refused() -> None:
    """Fault: the list of refused keys contradicts the schema."""
    assert [key.path for key in keys() if reason(key.path) and "*" not in key.path] == []
    assert [value for path, value in VALUES if f'"{value}"' in (find(path) or keys()[0]).expects] == []
    assert all(refused.why and refused.fix for refused in (*KEYS.values(), *VALUES.values()))


@pytest.mark.parametrize(
    ("config", "where"),
    [
        (_config(trainer={"optim": {"type": "muon"}}), "trainer.optim.type"),
        (
            _source(curriculum={"sampler": {"type": "difficulty_pool"}}),
            f"{SOURCE}.curriculum.sampler.type",
        ),
        (_source(curriculum={"gates": {"a": {}}}), f"{SOURCE}.curriculum.gates"),
        (_source(env={"taskset": TASKSET, "agent": {"max_turns": 65}}), f"{SOURCE}.env.agent.max_turns"),
        (
            _source(env={"taskset": TASKSET, "agent": {"timeout": {"scoring": 21}}}),
            f"{SOURCE}.env.agent.timeout.scoring",
        ),
    ],
)
def test_a_trainer_refuses_what_it_cannot_do(config: AuthorConfig, where: str) -> None:
    """Fault: a key that a trainer cannot honour is ignored, and the agent is scored for what was not done."""
    with pytest.raises(JobError) as caught:
        honours(config, "embedded")
    assert [problem.where for problem in caught.value.problems] == [f"rl.toml: {where}"]
    assert caught.value.problems[0].fix
    honours(config, "prime_rl")


def test_rollout_limits_are_the_jails() -> None:
    """Fault: a time or turn limit passes the check and is then cut by the jail without a word."""
    times = TimeLimits()
    assert (times.rollout_seconds, times.hook_seconds) == (MAX_ROLLOUT_SECONDS, MAX_HOOK_SECONDS)
    assert environment.MAX_TURNS == MAX_TURNS


@pytest.mark.parametrize("steps", [0, 8, 100])
def test_the_embedded_trainer_honours_every_staleness(steps: int) -> None:
    """Fault: prime-rl's default of 8 is refused by a trainer that is always within it."""
    config = _config(orchestrator={**MINIMAL["orchestrator"], "max_off_policy_steps": steps})  # type: ignore[dict-item]
    assert refusals(config, "embedded") == ()


def test_an_unknown_trainer_is_the_users_mistake() -> None:
    """Fault: a slip in trainer.type is scored as the author's failure."""
    with pytest.raises(UserError, match="there is no trainer 'prime-rl'"):
        honours(_config(), "prime-rl")


def test_job_errors_survive_a_process_border() -> None:
    """Fault: an error raised in a pool's worker cannot be unpickled, and hides the author's mistake."""
    with pytest.raises(JobError) as caught:
        honours(_config(trainer={"optim": {"type": "muon"}}), "embedded")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_every_shipped_file_is_within_its_schema() -> None:
    """Fault: an example in the documentation is refused."""
    root = Path(__file__).parents[3]
    for path in (*root.glob("configs/jobs/**/rl.toml"), *root.glob("docs/**/rl.toml")):
        AuthorConfig.model_validate(tomllib.loads(path.read_text()))
