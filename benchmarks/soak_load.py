"""What the soak's clients do: samples by the Tinker SDK, chats by the OpenAI client, training beside them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.served import Address

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from tinker import SamplingClient, ServiceClient, TrainingClient, types

CHAT_EVERY = 4
"""Of so many requests one is a chat."""
SNAPSHOT_EVERY = 10
"""Steps after which the samplers go over to the newest weights."""
STATE_EVERY = 100
"""Steps after which weights and optimiser are saved, under a name that is used again."""
SEQUENCES, LENGTH = 8, 48
"""A training batch."""
TEXT = b"a hundred quick brown foxes jump over as many lazy dogs, and none of them looks back. "


@dataclass
class Tally:
    """What has been done so far."""

    latencies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds of each request that succeeded, by kind."""
    failures: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    async def count(self, kind: str, request: Callable[[], Awaitable[object]]) -> None:
        """Make one request; a failure is data, whatever it is."""
        began = time.perf_counter()
        try:
            await request()
        except Exception as error:  # noqa: BLE001 - any failure of any client is what the soak looks for
            self.failures[kind].append(f"{type(error).__name__}: {error}"[:200])
        else:
            self.latencies[kind].append(time.perf_counter() - began)


class Load:
    """All clients of one server."""

    def __init__(self, address: Address, new: int) -> None:
        from openai import AsyncOpenAI
        from tinker import ServiceClient

        self._model, self._new = address.model, new
        self._service: ServiceClient = ServiceClient(base_url=address.url, api_key=address.token)
        self._openai: AsyncOpenAI = AsyncOpenAI(
            base_url=f"{address.url}/v1", api_key=address.token, max_retries=0
        )
        self.tally = Tally()
        self.sampled = self.steps = 0
        """Begun so far."""

    async def run(self, requests: int, steps: int, concurrency: int, seen: Callable[[int], None]) -> None:
        """Everything; `seen` hears the number of sampling requests that are done, one by one."""
        self._run: TrainingClient = await self._service.create_lora_training_client(self._model, rank=8)
        self._sampler: SamplingClient = await self._run.save_weights_and_get_sampling_client()
        workers = (self._work(requests, seen) for _ in range(concurrency))
        await asyncio.gather(self._train(steps), *workers)
        await self._openai.close()

    async def _work(self, requests: int, seen: Callable[[int], None]) -> None:
        """One client: a request, its reply, the next request."""
        while self.sampled < requests:
            number = self.sampled
            self.sampled += 1
            if number % CHAT_EVERY:
                await self.tally.count("sample", lambda number=number: self._sample(number))  # type: ignore[misc]
            else:
                await self.tally.count("chat", lambda number=number: self._chat(number))  # type: ignore[misc]
            seen(number + 1)

    async def _sample(self, number: int) -> None:
        from tinker import types

        start = number % len(TEXT)
        prompt = types.ModelInput.from_ints(list((TEXT + TEXT)[start : start + 24 + number % 17]))
        settings = types.SamplingParams(max_tokens=self._new, seed=number, temperature=1.0, stop=[])
        reply = await self._sampler.sample(prompt, 1, settings)
        assert len(reply.sequences[0].tokens) == self._new

    async def _chat(self, number: int) -> None:
        """Every other one is streamed."""
        from openai.types.chat import ChatCompletionUserMessageParam

        content = f"{number}: {TEXT[: number % 60].decode()}"
        messages = [ChatCompletionUserMessageParam(role="user", content=content)]
        create, new = self._openai.chat.completions.create, self._new
        if number // CHAT_EVERY % 2:
            stream = await create(
                model=self._model, messages=messages, max_tokens=new, seed=number, stream=True
            )
            async for _ in stream:
                pass
        else:
            await create(model=self._model, messages=messages, max_tokens=new, seed=number)

    async def _train(self, steps: int) -> None:
        for number in range(steps):
            self.steps = number + 1
            await self.tally.count("step", lambda number=number: self._step(number))  # type: ignore[misc]
            if number % SNAPSHOT_EVERY == SNAPSHOT_EVERY - 1:
                await self.tally.count("snapshot", self._snapshot)
            if number % STATE_EVERY == STATE_EVERY - 1:
                await self.tally.count("save", self._save)

    async def _step(self, number: int) -> None:
        from tinker import types

        loss = self._run.forward_backward(batch(number), "importance_sampling")
        moved = self._run.optim_step(types.AdamParams(learning_rate=1e-4))
        await loss
        await moved

    async def _snapshot(self) -> None:
        self._sampler = await self._run.save_weights_and_get_sampling_client()

    async def _save(self) -> None:
        await self._run.save_state("soak", overwrite=True)


def batch(number: int) -> list[types.Datum]:
    """Sequences that share a prompt; what they say does not matter, only that it differs."""
    from tinker import types

    draw = np.random.default_rng(number)
    made = []
    for _ in range(SEQUENCES):
        tokens = [*TEXT[:16], *draw.integers(0, 256, LENGTH - 16).tolist()]
        logprobs, advantages = draw.normal(-5, 0.1, LENGTH - 1), draw.normal(0, 1) * np.ones(LENGTH - 1)
        arrays = {
            "target_tokens": np.asarray(tokens[1:]),
            "logprobs": logprobs.astype(np.float32),
            "advantages": advantages.astype(np.float32),
        }
        inputs = {name: types.TensorData.from_numpy(array) for name, array in arrays.items()}
        read = types.ModelInput.from_ints(tokens[:-1])
        made.append(types.Datum(model_input=read, loss_fn_inputs=inputs))
    return made
