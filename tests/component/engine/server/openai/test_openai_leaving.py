"""Clients that leave before their reply is complete."""

import time

import httpx
import psutil
import pytest

pytestmark = pytest.mark.component

LONG = 100_000
"""Tokens that take minutes."""
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = {"model": "patient", "messages": MESSAGES, "max_tokens": LONG, "ignore_eos": True}
TEXT = {"model": "patient", "prompt": "hi", "max_tokens": LONG, "ignore_eos": True}
TOKENS = {"token_ids": [1, 2, 3], "sampling_params": {"max_tokens": LONG, "ignore_eos": True}}


@pytest.fixture(scope="module")
def patient(tmp_path_factory, write_tiny, start_server):
    """A server over a tiny model with a very long context."""
    directory = tmp_path_factory.mktemp("bases") / "patient"
    write_tiny(directory, context=LONG + 1000)
    running = start_server(f"path:{directory}", tmp_path_factory.mktemp("state"))
    yield running
    running.end()


def works(server, seconds=0.5):
    """Whether the server spends more than a tenth of a core."""
    process = psutil.Process(server.process.pid)
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return sum(process.cpu_times()[:2]) - before > 0.1 * seconds


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", CHAT), ("/v1/completions", TEXT), ("/inference/v1/generate", TOKENS)],
)
def test_a_client_that_leaves_ends_its_rows(patient, path, body, stream):
    """Guards against replies that are sampled to their end for nobody."""
    headers = {"Authorization": f"Bearer {patient.token}"}
    with httpx.Client(headers=headers, base_url=patient.url) as client:
        if stream:
            with client.stream("POST", path, json={**body, "stream": True}) as answer:
                lines = answer.iter_lines()
                assert all(line.startswith("data: {") for line in [next(lines) for _ in range(9)] if line)
                assert any(works(patient) for _ in range(20))
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post(path, json=body, timeout=httpx.Timeout(60, read=2))
    for _ in range(60):
        if not works(patient):
            return
    pytest.fail("the server goes on sampling for a client that has gone")
