"""The CUDA decode loop against the torch sampler: on a GPU, or in Triton's interpreter on tiny models."""

import os

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from trainsmith.engine.cuda import arena as arenas  # noqa: E402
from trainsmith.engine.cuda.decode_loop import CudaDecodeLoop  # noqa: E402
from trainsmith.engine.network import plain_network  # noqa: E402
from trainsmith.engine.policy import Policy  # noqa: E402
from trainsmith.engine.records import SampleRequest  # noqa: E402
from trainsmith.engine.sampling import Sampler  # noqa: E402

pytestmark = pytest.mark.component


class Gathered:
    """Keeps what its row tells."""

    def __init__(self):
        self.tokens, self.done = [], None

    def on_token(self, token, logprob):
        self.tokens.append(token)

    def on_done(self, completion):
        self.done = completion


def samplers(directory):
    """The torch sampler on the CPU, and one over the CUDA loop, in float32."""
    exact = Policy.load(directory, device="cpu", dtype="float32")
    mine = Policy.load(directory, device=DEVICE, dtype="float32")
    stop = mine.tokenizer.stop_tokens
    loop = CudaDecodeLoop(plain_network(mine.weights), mine.architecture, mine.rotary, stop)
    return exact.sampler, Sampler(lambda: loop, stop, mine.tokenizer.decode)


def requests(temperature, groups=2, samples=3, **more):
    shared = tuple(range(40, 75))
    return [
        SampleRequest(
            (257, *shared, *range(80, 81 + 2 * group)),
            3 + group + 2 * sample,
            temperature,
            9 * group + sample,
            **more,
        )
        for group in range(groups)
        for sample in range(samples)
    ]


def same(ours, expected):
    for mine, theirs in zip(ours, expected, strict=True):
        assert mine.tokens == theirs.tokens
        assert mine.finish == theirs.finish
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "temperature"), [("llama", 0.0), ("llama-biases", 0.8), ("qwen2", 1.2), ("qwen3", 0.8)]
)
def test_completions_equal_the_torch_samplers(tiny, kind, temperature):
    """Guards against a kernel path that computes something else."""
    torch_sampler, sampler = samplers(tiny(kind)[0])
    wanted = requests(temperature)
    same(sampler.sample(wanted), torch_sampler.sample(wanted))


def test_rows_that_join_late_or_are_cancelled_leave_the_rest_alone(tiny):
    """Guards against rows mixed up when the table is put in a new order, and places that are lost."""
    torch_sampler, sampler = samplers(tiny()[0])
    wanted = requests(0.9, top_p=0.9, top_k=50)
    expected = torch_sampler.sample(wanted)
    free = sampler.loop.free_places
    gathered = [Gathered() for _ in wanted]
    rows = [sampler.submit(*pair) for pair in list(zip(wanted, gathered, strict=True))[:4]]
    sampler.step()
    sampler.cancel(rows[3])
    rows += [sampler.submit(*pair) for pair in list(zip(wanted, gathered, strict=True))[4:]]
    while sampler.step():
        pass
    kept = [index for index in range(len(wanted)) if index != 3]
    same([gathered[index].done for index in kept], [expected[index] for index in kept])
    assert gathered[3].done is None
    assert sampler.loop.free_places == free


def test_stop_tokens_end_rows_at_once_and_prompts_are_scored(tiny):
    """Guards against tokens after the end, ends by the model's own stop tokens alone, and lost scores."""
    torch_sampler, sampler = samplers(tiny()[0])
    free = [SampleRequest((5, 6, 7, 8), 8, 1.0, seed, stop_tokens=()) for seed in range(2)]
    ends = [done.tokens[2] for done in torch_sampler.sample(free)]
    wanted = [
        SampleRequest((5, 6, 7, 8), 8, 1.0, seed, stop_tokens=(end,), prompt_logprobs=True)
        for seed, end in enumerate(ends)
    ]
    ours, theirs = sampler.sample([*free, *wanted]), torch_sampler.sample([*free, *wanted])
    same(ours, theirs)
    assert {done.finish for done in ours[2:]} == {"stop"}
    assert ours[2].prompt_logprobs[1:] == pytest.approx(theirs[2].prompt_logprobs[1:], abs=1e-4)


def test_the_arena_grows_when_it_must(tiny, monkeypatch):
    """Guards against caches lost when they move, and a request that no arena is large enough for."""
    monkeypatch.setattr(arenas, "_shared", {})
    monkeypatch.setattr(arenas, "FIRST_BYTES", 64 * 3 * 2 * 16 * 2 * 4)
    torch_sampler, sampler = samplers(tiny()[0])
    wanted = requests(0.8)
    same(sampler.sample(wanted), torch_sampler.sample(wanted))
    assert sampler.loop.free_places > 64
