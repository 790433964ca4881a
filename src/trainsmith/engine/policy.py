"""A model that can be sampled: weights, tokenizer and sampler of one model directory on one device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainsmith.bases.architecture import read_architecture
from trainsmith.engine.chat import ChatTokenizer
from trainsmith.engine.device import Dtype, choose_device, choose_dtype
from trainsmith.engine.network import plain_network
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.sampling import Sampler
from trainsmith.engine.stored import Stored
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
        self._sampler = Sampler(plain_network(weights), self.architecture, self.rotary, tokenizer.stop_tokens)

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
            self._check(request)
        return self._sampler.sample(requests)

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

    def _check(self, request: SampleRequest) -> None:
        if not request.prompt:
            raise UserError("empty prompt", where="sample request")
        self.check_tokens(request.prompt, "sample request")
        if request.max_tokens < 1 or request.temperature < 0:
            raise UserError("max_tokens must be at least 1, temperature at least 0", where="sample request")
        total = len(request.prompt) + request.max_tokens
        if total > self.architecture.context:
            raise UserError(
                f"{len(request.prompt)} prompt tokens and {request.max_tokens} new ones exceed the context "
                f"of {self.architecture.context}",
                where="sample request",
                fix="shorten the prompt or lower max_tokens",
            )
