"""A server over a tiny model that knows a few replies by heart, so that what clients read is known."""

import json
from pathlib import Path

import openai
import pytest
import torch

from trainsmith.engine.chat import ChatTokenizer
from trainsmith.engine.conversation import Tool, Turn

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]
CALL = '<tool_call>\n{"name": "read_file", "arguments": {"path": "rl.toml"}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": read_file}\n</tool_call>'
REPLIES = {
    "text": "It’s naïve: 漢字 🙂 END and more",
    "calls": f"I look.\n{CALL}\n{CALL}",
    "broken call": f"{BROKEN} sorry",
}
"""What the model replies to each of these, with tools or without."""
MOST_STEPS = 2000


def taught(tokenizer, question, reply, tools):
    """The tokens of one conversation, and where its reply begins."""
    offered = [Tool("read_file", json.dumps(each, ensure_ascii=False)) for each in tools]
    prompt = tokenizer.encode_conversation([Turn("user", question)], offered)
    return [*prompt, *tokenizer.encode_text(reply), *tokenizer.stop_tokens], len(prompt)


def teach(model, lessons):
    """Train until every reply is the likeliest by far."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(MOST_STEPS):
        worst = 0.0
        for tokens, begin in lessons:
            logits = model(torch.tensor([tokens])).logits[0, begin - 1 : -1]
            losses = torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[begin:]), reduction="none")
            losses.mean().backward()
            worst = max(worst, float(losses.detach().max()))
        if worst < 0.05:
            return
        optimiser.step()
        optimiser.zero_grad()
    raise AssertionError("the tiny model did not learn its replies")


@pytest.fixture(scope="session")
def parrot(tmp_path_factory, write_tiny):
    """The directory of the model."""
    directory = tmp_path_factory.mktemp("parrots") / "parrot"
    model = write_tiny(directory, context=2048)
    tokenizer = ChatTokenizer.load(directory)
    # One thread: tests share the machine, and small products on two contended cores take many times as long.
    torch.set_num_threads(1)
    lessons = [taught(tokenizer, *each, TOOLS if "call" in each[0] else []) for each in REPLIES.items()]
    torch.manual_seed(0)
    teach(model, lessons)
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def spoken(parrot, launch, tmp_path_factory):
    """The server over it."""
    running = launch(f"path:{parrot}", tmp_path_factory.mktemp("state"))
    yield running
    assert running.process.poll() is None, "no request may end the server"
    running.end()


@pytest.fixture
def client(spoken):
    """OpenAI's client of that server."""
    with openai.OpenAI(base_url=f"{spoken.url}/v1", api_key=spoken.token, max_retries=0) as made:
        yield made


@pytest.fixture
def ask(client):
    """Call with a question, and what `chat.completions.create` takes: greedy unless said otherwise."""

    def make(question, **options):
        settings = {"model": "parrot", "temperature": 0, **options}
        return client.chat.completions.create(messages=[{"role": "user", "content": question}], **settings)

    return make


@pytest.fixture(scope="session")
def replies():
    """What the model replies to each question."""
    return REPLIES


@pytest.fixture(scope="session")
def tools():
    """What it may call."""
    return TOOLS


@pytest.fixture(scope="session")
def environments():
    """The folder of the tests' verifiers packages."""
    return Path(__file__).parents[4] / "environments"
