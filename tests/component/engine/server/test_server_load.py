"""Many clients at once, and clients that go away."""

import asyncio
import subprocess
import sys
import time

import httpx
import numpy as np
import psutil
import pytest
from tinker import types

pytestmark = [pytest.mark.component, pytest.mark.filterwarnings("ignore::FutureWarning")]

TOKENS = list(b"a hundred quick brown foxes jump")
PROMPT = types.ModelInput.from_ints(TOKENS[:8])


def data(count):
    tokens = [TOKENS[n % 7 :] + TOKENS[: n % 7] + [n % 256] * (n % 90) for n in range(count)]
    return [
        types.Datum(
            model_input=types.ModelInput.from_ints(line[:-1]),
            loss_fn_inputs={"target_tokens": np.asarray(line[1:]), "weights": np.ones(len(line) - 1)},
        )
        for line in tokens
    ]


async def test_64_samples_at_once_beside_training(clients, server):
    """Guards against sampling that waits for a long training request, or the other way round."""
    trainer, other = await asyncio.to_thread(lambda: (clients(), clients()))
    run = await trainer.create_lora_training_client_async(server.model, rank=8)
    sampler = await other.create_sampling_client_async(base_model=server.model)
    order = []

    async def one(number):
        params = types.SamplingParams(max_tokens=8 + number % 5, seed=number, stop=[])
        reply = await sampler.sample(PROMPT, 2, params)
        order.append("sample")
        return [len(each.tokens) for each in reply.sequences]

    async def train():
        for _ in range(3):
            long = run.forward_backward(data(150), "cross_entropy")
            moved = run.optim_step(types.AdamParams(learning_rate=1e-3))
            await long
            await moved
            order.append("step")

    training = asyncio.create_task(train())
    await asyncio.sleep(0.1)
    lengths = await asyncio.gather(*(one(number) for number in range(64)))
    await training
    assert lengths == [[8 + number % 5] * 2 for number in range(64)]
    assert order.count("step") == 3
    assert order[-1] == "step", "64 short samples do not wait for three long training requests"


def test_a_long_answer_is_asked_for_again_and_again(servers, clients):
    """Guards against answers that take longer than one question waits."""
    server = servers("--poll-seconds", "0.05")
    sampler = clients(server).create_sampling_client(base_model=server.model).result()
    params = types.SamplingParams(max_tokens=480, stop=[])
    asked = [sampler.sample(PROMPT, 16, params) for _ in range(4)]
    assert [len(sequence.tokens) for each in asked for sequence in each.result().sequences] == [480] * 64


async def test_cancelled_samples_stop(clients, server):
    """Guards against rows that are decoded for nobody until their last token."""
    client = await asyncio.to_thread(clients)
    sampler = await client.create_sampling_client_async(base_model=server.model)
    params = types.SamplingParams(max_tokens=480, stop=[])
    asked = [asyncio.ensure_future(_sample(sampler, params)) for _ in range(32)]
    await asyncio.sleep(0.5)
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    assert len((await _sample(sampler, types.SamplingParams(max_tokens=2))).sequences[0].tokens) <= 2
    async with httpx.AsyncClient(headers={"X-API-Key": server.token}) as http:
        while (await http.get(f"{server.url}/api/v1/healthz")).json()["rows"]:
            await asyncio.sleep(0.2)


async def _sample(sampler, params):
    return await sampler.sample(PROMPT, 4, params)


def test_cancelling_is_acknowledged_and_the_answer_is_gone(server):
    """Guards against a cancelled request whose future is awaited for ever."""
    with httpx.Client(base_url=f"{server.url}/api/v1/", headers={"X-API-Key": server.token}) as http:
        prompt = {"chunks": [{"type": "encoded_text", "tokens": TOKENS}]}
        params = {"max_tokens": 470, "stop": []}
        body = {"num_samples": 64, "prompt": prompt, "sampling_params": params, "base_model": server.model}
        promise = http.post("asample", json=body).json()
        assert http.post("cancel_future", json={"request_id": promise["request_id"]}).status_code == 200
        assert http.post("retrieve_future", json={"request_id": promise["request_id"]}).status_code == 410


CLIENT = """
import sys, tinker
from tinker import types
url, token, model = sys.argv[1:]
client = tinker.ServiceClient(base_url=url, api_key=token)
run = client.create_lora_training_client(model, rank=4).result()
sampler = client.create_sampling_client(base_model=model).result()
prompt = types.ModelInput.from_ints([65] * 20)
asked = [sampler.sample(prompt, 64, types.SamplingParams(max_tokens=450, stop=[])) for _ in range(50)]
print(run.model_id, flush=True)
asked[-1].result()
"""


@pytest.mark.slow
def test_a_client_that_dies_frees_its_work(servers):
    """Guards against the queue and the adapters of dead clients, which starve the living ones."""
    server = servers("--idle-seconds", "15")
    command = [sys.executable, "-c", CLIENT, server.url, server.token, server.model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        run = client.stdout.readline().strip()
        assert run.endswith(":train:0")
        client.kill()
    with httpx.Client(base_url=f"{server.url}/api/v1/", headers={"X-API-Key": server.token}) as http:
        while any(held := [http.get("healthz").json()[name] for name in ("rows", "futures", "runs")]):
            time.sleep(1)
        assert held == [0, 0, 0]
        assert http.post("get_info", json={"model_id": run}).status_code == 404


@pytest.mark.slow
def test_a_living_client_is_not_idle(servers, clients):
    """Guards against a session that expires while its client only thinks: the SDK's heartbeat counts."""
    server = servers("--idle-seconds", "12")
    run = clients(server).create_lora_training_client(server.model, rank=4).result()
    time.sleep(26)
    assert run.get_info().lora_rank == 4


def test_memory_is_flat_over_many_requests(servers, clients):
    """Guards against futures, rows or snapshots that are never freed."""
    server = servers()
    client = clients(server)
    run = client.create_lora_training_client(server.model, rank=4).result()
    process = psutil.Process(server.process.pid)
    sizes = []
    for _ in range(6):
        for _ in range(5):
            run.forward_backward(data(8), "cross_entropy")
            run.optim_step(types.AdamParams(learning_rate=1e-3)).result()
        sampler = run.save_weights_and_get_sampling_client().result()
        asked = [sampler.sample(PROMPT, 2, types.SamplingParams(max_tokens=4)) for _ in range(60)]
        for each in asked:
            each.result()
        sizes.append(process.memory_info().rss)
    assert sizes[-1] < 1.05 * sizes[2]
