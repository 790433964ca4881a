"""Base models as policies: fetched, loaded once, and sampled on one thread of their own.

Torch work runs on a single worker thread, so that the event loop stays free, results do not depend on thread
scheduling, and two users of a policy never interleave inside a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trainsmith import bases
from trainsmith.config.engine import EngineConfig
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.progress import Listener, Phase, Progress, silent

if TYPE_CHECKING:
    from trainsmith.engine.chat import ChatTokenizer
    from trainsmith.engine.policy import Policy

T = TypeVar("T")


class LoadedPolicy:
    """One policy bound to the torch thread."""

    def __init__(self, base: str, directory: Path, policy: Policy, policies: Policies) -> None:
        self.base = base
        self.directory = directory
        self.policy = policy
        self._policies = policies

    @property
    def tokenizer(self) -> ChatTokenizer:
        """Renders and decodes; safe to use from any thread."""
        return self.policy.tokenizer

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """Sample on the torch thread."""
        return await self._policies.call(lambda: self.policy.sample(requests))

    async def reset(self) -> None:
        """Put the base weights back."""
        await self._policies.call(self.policy.reset)

    async def load_weights(self, path: Path) -> None:
        """Take over weights that have passed the grader's allow-list."""
        await self._policies.call(lambda: self.policy.load_weights(path))


class Policies:
    """The policies of this process. Each base is loaded at its first use."""

    def __init__(self, config: EngineConfig, listen: Listener = silent) -> None:
        self._config = config
        self._listen = listen
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="torch")
        self._loaded: dict[str, LoadedPolicy] = {}
        self._lock = asyncio.Lock()
        self.exclusive = asyncio.Lock()
        """Held by whoever needs a policy's weights to stay as they are: a probe, a job, a grading."""

    @property
    def engine(self) -> str:
        """What may move a sampled token beside the weights: device and precision, as configured."""
        return f"{self._config.device}/{self._config.dtype}"

    async def get(self, base: str) -> LoadedPolicy:
        """The policy of a base model, with whatever weights it holds now."""
        async with self._lock:
            if base not in self._loaded:
                self._loaded[base] = await self.call(lambda: self._load(base))
            return self._loaded[base]

    async def untrained(self, base: str) -> LoadedPolicy:
        """The policy of a base model with the base's own weights."""
        policy = await self.get(base)
        await policy.reset()
        return policy

    async def tokenizer(self, base: str) -> ChatTokenizer:
        """The tokenizer of a base model, without its weights."""
        if base in self._loaded:
            return self._loaded[base].tokenizer
        return await self.call(lambda: self._load_tokenizer(base))

    async def call(self, function: Callable[[], T]) -> T:
        """Run a blocking function on the torch thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def close(self) -> None:
        """Let go of the models; work in flight is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._loaded.clear()

    def _fetch(self, base: str) -> Path:
        return bases.fetch(base, progress=lambda text: self._listen(Progress(Phase.FETCH, text)))

    def _load_tokenizer(self, base: str) -> ChatTokenizer:
        from trainsmith.engine.chat import ChatTokenizer

        return ChatTokenizer.load(self._fetch(base))

    def _load(self, base: str) -> LoadedPolicy:
        directory = self._fetch(base)
        from trainsmith.engine.policy import Policy  # torch is imported on its own thread, on first use

        policy = Policy.load(directory, device=self._config.device, dtype=self._config.dtype)
        return LoadedPolicy(base, directory, policy, self)
