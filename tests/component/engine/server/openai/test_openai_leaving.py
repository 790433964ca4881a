"""Clients that leave before their reply is complete."""

import time

import httpx
import pytest

pytestmark = pytest.mark.component

LONG = 100_000
"""Tokens that take minutes."""
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = {"model": "patient", "messages": MESSAGES, "max_tokens": LONG, "ignore_eos": True}
TEXT = {"model": "patient", "prompt": "hi", "max_tokens": LONG, "ignore_eos": True}
TOKENS = {"token_ids": [1, 2, 3], "sampling_params": {"max_tokens": LONG, "ignore_eos": True}}


@pytest.fixture(scope="module")
def patient(tmp_path_factory, write_tiny, launch):
    """A server over a tiny model with a very long context."""
    directory = tmp_path_factory.mktemp("bases") / "patient"
    write_tiny(directory, context=LONG + 1000)
    running = launch(f"path:{directory}", tmp_path_factory.mktemp("state"))
    yield running
    running.end()


def rows(client):
    """How many replies the server is sampling."""
    return client.get("/api/v1/healthz").json()["rows"]


def becomes(client, number):
    """Whether it comes to this many."""
    for _ in range(300):
        if rows(client) == number:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", CHAT), ("/v1/completions", TEXT), ("/inference/v1/generate", TOKENS)],
)
def test_a_client_that_leaves_ends_its_rows(patient, path, body, stream):
    """Guards against replies that are sampled to their end for nobody."""
    headers = {"Authorization": f"Bearer {patient.token}"}
    with httpx.Client(headers=headers, base_url=patient.url, timeout=60) as client:
        if stream:
            with client.stream("POST", path, json={**body, "stream": True}) as answer:
                lines = answer.iter_lines()
                assert all(line.startswith("data: {") for line in [next(lines) for _ in range(9)] if line)
                assert becomes(client, 1)
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post(path, json=body, timeout=httpx.Timeout(60, read=2))
        assert becomes(client, 0), "the server goes on sampling for a client that has gone"
