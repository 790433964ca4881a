"""The JSON bodies that the SDK posts. Keys that no version of ours knows are left to later versions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_SAMPLES = 1024


class Body(BaseModel):
    """A request's JSON document."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class CreateSession(Body):
    user_metadata: dict[str, Any] | None = None
    display_name: str | None = None


class OfSession(Body):
    session_id: str


class LoraConfig(Body):
    rank: int = Field(ge=1, le=4096)
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class OptimiserConfig(Body):
    type: str = "adamw"


class CreateModel(Body):
    session_id: str
    model_seq_id: int = Field(ge=0)
    base_model: str
    user_metadata: dict[str, Any] | None = None
    lora_config: LoraConfig | None = None
    optimizer_config: OptimiserConfig = OptimiserConfig()


class OfModel(Body):
    model_id: str
    seq_id: int | None = Field(None, ge=0)


class AdamParams(Body):
    learning_rate: float = Field(1e-4, allow_inf_nan=False)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.95, ge=0, lt=1)
    eps: float = Field(1e-12, ge=0, allow_inf_nan=False)
    weight_decay: float = Field(0.0, allow_inf_nan=False)
    grad_clip_norm: float = Field(0.0, allow_inf_nan=False)


class OptimStep(OfModel):
    adam_params: AdamParams | None = None


class SaveWeights(OfModel):
    path: str | None = None
    ttl_seconds: int | None = Field(None, ge=1)
    overwrite: bool = False
    user_metadata: dict[str, str] | None = None


class SaveForSampler(SaveWeights):
    sampling_session_seq_id: int | None = Field(None, ge=0)
    kind: str = "snapshot"


class LoadWeights(Body):
    model_id: str | None = None
    seq_id: int | None = Field(None, ge=0)
    session_id: str | None = None
    model_seq_id: int | None = Field(None, ge=0)
    base_model: str | None = None
    user_metadata: dict[str, Any] | None = None
    path: str
    optimizer: bool = False
    optimizer_config: OptimiserConfig | None = None


class CreateSamplingSession(Body):
    session_id: str
    sampling_session_seq_id: int = Field(ge=0)
    base_model: str | None = None
    model_path: str | None = None


class Chunk(Body):
    type: str
    tokens: tuple[int, ...] = ()


class ModelInput(Body):
    chunks: tuple[Chunk, ...]


class SamplingParams(Body):
    max_tokens: int | None = Field(None, ge=1)
    seed: int | None = None
    stop: str | tuple[int, ...] | tuple[str, ...] | None = None
    temperature: float = Field(1.0, ge=0, allow_inf_nan=False)
    top_k: int = Field(-1, ge=-1)
    top_p: float = Field(1.0, gt=0, le=1)


class Sample(Body):
    num_samples: int = Field(1, ge=1, le=MAX_SAMPLES)
    prompt: ModelInput
    sampling_params: SamplingParams = SamplingParams()
    base_model: str | None = None
    model_path: str | None = None
    sampling_session_id: str | None = None
    seq_id: int | None = Field(None, ge=0)
    prompt_logprobs: bool | None = None
    prompt_logprobs_last_n: int | None = Field(None, ge=1)
    topk_prompt_logprobs: int = 0
    topk_sample_logprobs: int = 0
    target_prompt_logprobs: Any = None
    prompt_alt_tokens_k: int = 0
    record_stability_info: bool | None = None


class OfFuture(Body):
    request_id: str


class WeightsInfo(Body):
    tinker_path: str


class TimeToLive(Body):
    ttl_seconds: int | None = Field(None, ge=1)


class Finish(Body):
    reason: Annotated[Any, Field(default=None)]
    detail: str | None = None


Category = Literal["user", "server", "unknown"]
