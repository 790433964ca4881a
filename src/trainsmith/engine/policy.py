"""A model that can be sampled: weights, tokenizer and sampler of one model directory on one device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainsmith.bases.architecture import read_architecture
from trainsmith.engine.chat import ChatTokenizer
from trainsmith.engine.device import Dtype, choose_device, choose_dtype
from trainsmith.engine.network import Network, plain_network
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.sampling import CPU_LIMITS, GPU_LIMITS, Sampler
from trainsmith.engine.stored import Stored
from trainsmith.engine.torch_loop import TorchDecodeLoop
from trainsmith.engine.weights import Weights, copy_named, load_weights, read_named, tensor_specs
from trainsmith.errors import UserError


class Policy:
    """Weights in the compute type, with the sampler that reads them."""

    def __init__(self, model_dir: Path, weights: Weights, tokenizer: ChatTokenizer) -> None:
        self.model_dir = model_dir
        self.architecture = read_architecture(model_dir)
        self.weights = weights
        self.tokenizer = tokenizer
        self.device = str(weights.norm.device)
        self.dtype = weights.layers[0].down.dtype
        self.source = model_dir
        self.stored = Stored(model_dir, self.architecture, self.device)
        self.rotary = Rotary(self.architecture, self.device)
        self.sampler = self.sampler_for(plain_network(weights))
        """Samples the policy's own weights."""

    @classmethod
    def load(cls, model_dir: Path, *, device: str = "auto", dtype: Dtype = "auto") -> Policy:
        """Read a Hugging Face model directory. Raises UserError when it is not a supported model."""
        place = choose_device(device)
        stored = {spec.dtype for spec in tensor_specs(model_dir)}
        kind = choose_dtype(dtype, place, stored)
        weights = load_weights(model_dir, read_architecture(model_dir), place, kind)
        return cls(model_dir, weights, ChatTokenizer.load(model_dir))

    def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """One completion a request, in order. Raises UserError for a request that cannot be served."""
        for request in requests:
            self.check(request)
        return self.sampler.sample(requests)

    def sampler_for(self, network: Network) -> Sampler:
        """A sampler of other weights of the same architecture: adapters over these, say."""
        limits = CPU_LIMITS if self.device == "cpu" else GPU_LIMITS
        return Sampler(
            lambda: TorchDecodeLoop(network, self.architecture, self.rotary, limits),
            self.tokenizer.stop_tokens,
            self.tokenizer.decode,
        )

    def load_weights(self, file: Path) -> None:
        """Take the weights of a safetensors file with the same tensors. A learner of this policy ends.

        Raises UserError for any other file.
        """
        named = read_named(file, self.architecture)
        self._forget_gradients()
        copy_named(named, self.weights, self.architecture)
        self.source = file

    def reset(self) -> None:
        """Back to the weights of the model directory. A learner of this policy ends."""
        self._forget_gradients()
        self.stored.restore(self.weights)
        self.source = self.model_dir

    def check_tokens(self, tokens: Sequence[int], where: str) -> None:
        """Raise UserError for a token that the model does not have."""
        for token in (min(tokens), max(tokens)):
            if not 0 <= token < self.architecture.vocabulary:
                raise UserError(f"token {token} is not in the vocabulary", where=where)

    def _forget_gradients(self) -> None:
        for tensor in self.weights.tensors():
            tensor.grad = None

    def check(self, request: SampleRequest) -> None:
        """Raise UserError for a request that cannot be served."""
        if not request.prompt:
            raise UserError("empty prompt", where="sample request")
        self.check_tokens(request.prompt, "sample request")
        if request.max_tokens < 1 or request.temperature < 0:
            raise UserError("max_tokens must be at least 1, temperature at least 0", where="sample request")
        if not 0 < request.top_p <= 1 or request.top_k < 0:
            raise UserError("top_p must be in (0, 1], top_k at least 0", where="sample request")
        if "" in request.stop_strings:
            raise UserError("an empty stop string", where="sample request", fix="leave it out")
        total = len(request.prompt) + request.max_tokens
        if total > self.architecture.context:
            raise UserError(
                f"{len(request.prompt)} prompt tokens and {request.max_tokens} new ones exceed the context "
                f"of {self.architecture.context}",
                where="sample request",
                fix="shorten the prompt or lower max_tokens",
            )
