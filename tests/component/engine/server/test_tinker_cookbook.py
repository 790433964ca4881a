"""tinker-cookbook's own training loops, as they are, against a real server."""

import functools
import json
import signal
from pathlib import Path

import chz
import pytest
from tinker_cookbook import renderers, tokenizer_utils
from tinker_cookbook.renderers.qwen3 import Qwen3InstructRenderer
from tinker_cookbook.rl import train as rl_train
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.types import RLDataset, RLDatasetBuilder
from tinker_cookbook.supervised import train as supervised_train
from tinker_cookbook.supervised.data import conversation_to_datum
from tinker_cookbook.supervised.types import SupervisedDataset, SupervisedDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer
from transformers import AutoTokenizer

pytestmark = [pytest.mark.component, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RENDERER = "test/chatml"
renderers.register_renderer(RENDERER, lambda tokenizer, _: Qwen3InstructRenderer(tokenizer))


class LowTokens(ProblemEnv):
    """Rewards the share of a reply's tokens that are among the first forty."""

    async def step(self, action, *, extra=None):
        done = await super().step(action, extra=extra)
        done.reward = sum(token < 40 for token in action) / max(1, len(action))
        return done

    def get_question(self):
        return "write"

    def check_answer(self, sample_str):
        return False

    def check_format(self, sample_str):
        return True

    def get_reference_answer(self):
        return "ABC"


class Groups(RLDataset):
    def __init__(self, renderer, length):
        self.renderer, self.length = renderer, length

    def get_batch(self, index):
        make = functools.partial(LowTokens, self.renderer)
        return [ProblemGroupBuilder(env_thunk=make, num_envs=16) for _ in range(3)]

    def __len__(self):
        return self.length


@chz.chz
class GroupsBuilder(RLDatasetBuilder):
    model: str
    length: int

    async def __call__(self):
        return Groups(renderers.get_renderer(RENDERER, get_tokenizer(self.model)), self.length), None


class Greetings(SupervisedDataset):
    def __init__(self, renderer):
        self.renderer = renderer

    def get_batch(self, index):
        turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello you"}]
        return [conversation_to_datum(turns, self.renderer, 128) for _ in range(4)]

    def __len__(self):
        return 12

    def set_epoch(self, seed=0):
        """One epoch is as the other."""


@chz.chz
class GreetingsBuilder(SupervisedDatasetBuilder):
    model: str

    def __call__(self):
        return Greetings(renderers.get_renderer(RENDERER, get_tokenizer(self.model))), None


@pytest.fixture
def known(base):
    """The cookbook finds the tokenizer of a local model by its registered name."""
    directory = base.removeprefix("path:")
    tokenizer_utils.register_tokenizer(base, lambda: AutoTokenizer.from_pretrained(directory))
    return base


def metrics(folder):
    lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "progress/batch" in line or "step" in line]


def rewards(folder):
    return [line["env/all/reward/total"] for line in metrics(folder) if "env/all/reward/total" in line]


def rl_config(server, folder, steps, **changes):
    settings = {
        "learning_rate": 1e-2,
        "dataset_builder": GroupsBuilder(model=server.model, length=steps),
        "model_name": server.model,
        "recipe_name": "test",
        "max_tokens": 12,
        "log_path": str(folder),
        "renderer_name": RENDERER,
        "lora_rank": 4,
        "eval_every": 0,
        "save_every": 2,
        "loss_fn": "importance_sampling",
        "base_url": server.url,
        "num_groups_to_log": 0,
    }
    return rl_train.Config(**settings | changes)


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_rl_train_main_learns(server, known, tmp_path, monkeypatch, mode):
    """Guards against anything in the cookbook's RL loop that the server does not serve, or serves wrongly."""
    monkeypatch.setenv("TINKER_API_KEY", server.token)
    changes, steps = {}, 12
    if mode == "async":
        steps = 24
        changes = {
            "async_config": rl_train.AsyncConfig(max_steps_off_policy=1, groups_per_batch=3),
            "loss_fn": "ppo",
        }
    await rl_train.main(rl_config(server, tmp_path, steps, **changes))
    seen = rewards(tmp_path)
    assert len(seen) == steps or mode == "async", "the async loop leaves out what is stale"
    assert max(seen[-3:]) > seen[0] + 0.08, seen
    if mode == "sync":
        gaps = [abs(line["optim/kl_sample_train_v1"]) for line in metrics(tmp_path)]
        assert max(gaps) < 1e-4, "the learner's logprobs are the sampler's"
        assert max(abs(line["optim/kl_sample_train_v2"]) for line in metrics(tmp_path)) < 1e-6


async def test_rl_train_main_resumes_after_a_kill(servers, known, tmp_path, monkeypatch):
    """Guards against checkpoints that the cookbook cannot go on from once the server was killed."""
    first = servers()
    monkeypatch.setenv("TINKER_API_KEY", first.token)
    await rl_train.main(rl_config(first, tmp_path / "log", 2, save_every=1))
    first.end(signal.SIGKILL)
    second = servers()
    await rl_train.main(rl_config(second, tmp_path / "log", 4, save_every=1))
    assert len(rewards(tmp_path / "log")) == 4
    runs = list(second.state.glob("runs/*/run.json"))
    assert len(runs) == 2, "the second part is a run of its own, from the first one's checkpoint"


async def test_supervised_training_learns(server, known, tmp_path, monkeypatch):
    """Guards against a supervised loop whose loss does not fall, or whose checkpoints are refused."""
    monkeypatch.setenv("TINKER_API_KEY", server.token)
    config = supervised_train.Config(
        log_path=str(tmp_path),
        model_name=server.model,
        recipe_name="test",
        renderer_name=RENDERER,
        dataset_builder=GreetingsBuilder(model=server.model),
        learning_rate=2e-2,
        lora_rank=4,
        eval_every=0,
        save_every=5,
        base_url=server.url,
    )
    await supervised_train.main(config)
    losses = [line["train_mean_nll"] for line in metrics(tmp_path)]
    assert len(losses) == 12 and losses[-1] < 0.5 * losses[0], losses
    saved = [json.loads(line) for line in (tmp_path / "checkpoints.jsonl").read_text().splitlines()]
    assert all(each["state_path"].startswith("tinker://") for each in saved)
