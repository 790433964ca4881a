"""Tinker's protobuf messages to the engine's records and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from tinker.proto import tinker_public_pb2 as pb

from trainsmith.engine.records import (
    Cispo,
    Completion,
    CrossEntropy,
    Datum,
    ForwardBackward,
    ImportanceSampling,
    LossSpec,
    Ppo,
)
from trainsmith.engine.server.errors import HttpError
from trainsmith.errors import UserError

_LOSSES: dict[str, type[Any]] = {
    "cross_entropy": CrossEntropy,
    "importance_sampling": ImportanceSampling,
    "ppo": Ppo,
    "cispo": Cispo,
}
_NUMPY = {pb.DTYPE_FLOAT32: np.float32, pb.DTYPE_INT64: np.int64, pb.DTYPE_INT32: np.int32}
_INPUTS = ("target_tokens", "weights", "logprobs", "advantages")
_STOP = {"stop": pb.STOP_REASON_STOP, "length": pb.STOP_REASON_LENGTH}


def parse_forward_backward(body: bytes) -> pb.ForwardBackwardRequest:
    """Raises HttpError 400 for anything but a whole message."""
    message = pb.ForwardBackwardRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise HttpError(400, "the body is no ForwardBackwardRequest") from error
    if not message.model_id:
        raise HttpError(400, "the body is no ForwardBackwardRequest: it names no model")
    return message


def to_loss(message: pb.ForwardBackwardRequest) -> LossSpec:
    """The loss with its settings. Raises UserError for one that is not served."""
    if message.loss_fn not in _LOSSES:
        what = f"the loss {message.loss_fn!r} is not served"
        raise UserError(what, where="loss_fn", fix=f"use one of: {', '.join(_LOSSES)}")
    settings: dict[str, Any] = dict(message.loss_fn_config)
    for key, value in message.loss_fn_config_v2.items():
        settings[key] = value.text if value.WhichOneof("value") == "text" else value.number
    kind = _LOSSES[message.loss_fn]
    unknown = set(settings) - set(getattr(kind, "__dataclass_fields__", {}))
    if unknown or not all(isinstance(value, float) for value in settings.values()):
        what = f"{message.loss_fn} takes no setting {', '.join(sorted(unknown)) or 'that is a text'}"
        raise UserError(what, where="loss_fn_config")
    loss: LossSpec = kind(**settings)
    return loss


def to_data(message: pb.ForwardBackwardRequest) -> list[Datum]:
    """Raises UserError for a datum that no loss here can read."""
    return [_datum(each, message.loss_fn, number) for number, each in enumerate(message.data)]


def forward_backward_output(outcome: ForwardBackward) -> bytes:
    """The logprobs of all data in one record, and the metrics under names that say how chunks add up."""
    output = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
    metrics = outcome.metrics
    output.metrics["loss:sum"] = outcome.loss
    output.metrics["trained_tokens:sum"] = metrics.trained_tokens
    output.metrics["packed_tokens:sum"] = metrics.packed_tokens
    output.metrics["entropy:mean"] = metrics.entropy
    output.metrics["mismatch_kl:mean"] = metrics.mismatch_kl
    output.metrics["masked_fraction:mean"] = metrics.masked_fraction
    record = output.loss_fn_outputs.add()
    record.num_datums = len(outcome.logprobs)
    field = record.fields["logprobs"]
    field.dtype = pb.DTYPE_FLOAT32
    lines = [np.asarray(line, dtype=np.float32) for line in outcome.logprobs]
    field.data = b"".join(line.tobytes() for line in lines)
    field.offsets = np.cumsum([0, *(line.nbytes for line in lines)], dtype=np.int64).tobytes()
    return bytes(output.SerializeToString())


def sample_response(
    completions: Sequence[Completion], prompt_logprobs: Sequence[float | None] | None
) -> bytes:
    """Sequences in order; a prompt token without a logprob has NaN."""
    response = pb.SampleResponse()
    if prompt_logprobs is not None:
        numbers = [np.nan if each is None else each for each in prompt_logprobs]
        response.prompt_logprobs = np.asarray(numbers, dtype=np.float32).tobytes()
    for completion in completions:
        sequence = response.sequences.add()
        sequence.stop_reason = _STOP[completion.finish]
        sequence.tokens = np.asarray(completion.tokens, dtype=np.int32).tobytes()
        sequence.logprobs = np.asarray(completion.logprobs, dtype=np.float32).tobytes()
    return bytes(response.SerializeToString())


def _datum(message: pb.Datum, loss: str, number: int) -> Datum:
    where = f"datum {number}"
    unknown = set(message.loss_fn_inputs) - set(_INPUTS)
    if unknown:
        raise UserError(f"{loss} reads no input {', '.join(sorted(unknown))}", where=where)
    inputs = {name: _array(tensor, f"{where}, {name}") for name, tensor in message.loss_fn_inputs.items()}
    needed = ("target_tokens",) if loss == "cross_entropy" else ("target_tokens", "logprobs", "advantages")
    for name in needed:
        if name not in inputs:
            raise UserError(f"{loss} needs the input {name}", where=where)
    tokens = _tokens(message, where)
    zeros, ones = np.zeros(len(tokens)), np.ones(len(tokens))
    return Datum(
        tokens=tuple(tokens.tolist()),
        targets=tuple(inputs["target_tokens"].tolist()),
        weights=tuple(inputs.get("weights", ones).tolist()),
        logprobs=tuple(inputs.get("logprobs", zeros).tolist()),
        advantages=tuple(inputs.get("advantages", zeros).tolist()),
    )


def _tokens(message: pb.Datum, where: str) -> NDArray[np.int32]:
    chunks = []
    for chunk in message.model_input:
        if not chunk.HasField("encoded_text"):
            raise UserError("only text can be trained on", where=where)
        chunks.append(_numbers(chunk.encoded_text.tokens, np.dtype(np.int32), where))
    return np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int32)


def _array(tensor: pb.Tensor, where: str) -> NDArray[Any]:
    if tensor.HasField("sparse_csr") or len(tensor.shape) > 1:
        raise UserError("several targets a position are not served", where=where, fix="give one dimension")
    if tensor.dtype not in _NUMPY:
        raise UserError(f"unknown type {tensor.dtype}", where=where, fix="use float32 or int64")
    return _numbers(tensor.dense, np.dtype(_NUMPY[tensor.dtype]), where)


def _numbers(raw: bytes, kind: np.dtype[Any], where: str) -> NDArray[Any]:
    if len(raw) % kind.itemsize:
        raise UserError(f"{len(raw)} bytes are no array of {kind.name}", where=where)
    return np.frombuffer(raw, kind)
