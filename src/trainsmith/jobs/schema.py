"""The author's subset of prime-rl's `rl.toml`, as typed frozen records.

Keys, defaults and bounds are prime-rl's. A bound is narrower only where prime-rl takes a value that can train
nothing (a temperature of 0 samples one reply many times) or that its optimiser refuses later. What spans
several keys, the task or the folder is in `checks`; keys that are not the author's are in `forbidden`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator


class Table(BaseModel):
    """One TOML table: frozen, strict (no "3" for 3), closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _read_none(cls, table: Any) -> Any:
        """The string "None" unsets a key that may be unset, as in prime-rl: TOML has no null."""
        if not isinstance(table, dict):
            return table
        return {
            key: None if value == "None" and cls._may_be_unset(key) else value for key, value in table.items()
        }

    @classmethod
    def _may_be_unset(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        return field is not None and type(None) in get_args(field.annotation)


def _by_type(default: str) -> Discriminator:
    """Chooses a union member by the table's `type` key, which may be left out for the default."""

    def choose(table: Any) -> Any:
        return table.get("type", default) if isinstance(table, dict) else getattr(table, "type", None)

    return Discriminator(choose)


# [model]


class Model(Table):
    """Which base model is trained."""

    name: str
    """One of the task's base models."""


# [orchestrator]


class Sampling(Table):
    """How training rollouts are sampled."""

    temperature: float = Field(default=1.0, gt=0, le=2)
    """Sampling temperature; above 0, since a group needs replies that differ."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """New tokens a turn; unset: up to seq_len."""


class LengthPenalty(Table):
    """Subtracts from each reward: mean reward x weight x (own count / largest count of the group)."""

    type: Literal["linear"] = "linear"
    num_output_tokens_weight: float = Field(default=0.25, ge=0)
    """Weight of the sampled tokens."""
    num_input_tokens_weight: float = Field(default=0.1, ge=0)
    """Weight of the tokens that the model read."""
    num_turns_weight: float = Field(default=0.1, ge=0)
    """Weight of the turns."""


class Grpo(Table):
    """Advantage = reward - mean of the group."""

    type: Literal["grpo"] = "grpo"
    length_penalty: LengthPenalty | None = None
    """Makes long replies cheaper to avoid; off unless the table is there."""


class MaxRl(Table):
    """Advantage = (reward - mean of the group) / mean of the group."""

    type: Literal["max_rl"] = "max_rl"


Algo = Annotated[Annotated[Grpo, Tag("grpo")] | Annotated[MaxRl, Tag("max_rl")], _by_type("grpo")]


class StandardSampler(Table):
    """Tasks in their order, again and again."""

    type: Literal["standard"] = "standard"


class DifficultyPool(Table):
    """Tasks whose last mean reward is at most `threshold`."""

    threshold: float
    """Largest reward of this pool."""
    weight: float = Field(ge=0)
    """Relative frequency of its tasks."""


def _default_pools() -> dict[str, DifficultyPool]:
    return {
        "hard": DifficultyPool(threshold=0.25, weight=0.2),
        "normal": DifficultyPool(threshold=0.75, weight=1.0),
        "easy": DifficultyPool(threshold=1.0, weight=0.2),
    }


class DifficultySampler(Table):
    """Draws tasks from pools by their difficulty so far."""

    type: Literal["difficulty_pool"] = "difficulty_pool"
    pools: dict[str, DifficultyPool] = Field(default_factory=_default_pools, min_length=1)
    """Pools by name."""


Sampler = Annotated[
    Annotated[StandardSampler, Tag("standard")] | Annotated[DifficultySampler, Tag("difficulty_pool")],
    _by_type("standard"),
]


class AdvantageGate(Table):
    """Keeps a group out of training when all its advantages lie in [reject_min, reject_max]."""

    type: Literal["advantage_range"] = "advantage_range"
    reject_min: float = 0.0
    """Lower end."""
    reject_max: float = 0.0
    """Upper end."""


class Curriculum(Table):
    """Which tasks are drawn and which groups train."""

    sampler: Sampler = StandardSampler()
    """Order of the tasks."""
    gates: dict[str, AdvantageGate] = Field(default_factory=dict)
    """Gates by name; a group trains when every gate admits it."""


class Taskset(Table):
    """The environment and its own arguments: every other key goes to the taskset's config."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    id: str
    """Name of the package in environment/."""

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """The environment's own arguments, without the id."""
        return dict(self.__pydantic_extra__)


class Timeout(Table):
    """Wall seconds of one rollout's phases; unset: the task's own limit."""

    setup: float | None = Field(default=None, gt=0)
    """Set-up."""
    rollout: float | None = Field(default=None, gt=0)
    """The model's turns."""
    finalize: float | None = Field(default=None, gt=0)
    """After the last turn."""
    scoring: float | None = Field(default=None, gt=0)
    """Rewards and metrics."""


class Agent(Table):
    """Limits of one rollout."""

    max_turns: int | None = Field(default=None, ge=1)
    """Model turns a rollout; unset: the environment decides."""
    timeout: Timeout = Timeout()
    """Time limits."""


class Env(Table):
    """The verifiers environment."""

    taskset: Taskset
    """The environment and its arguments."""
    agent: Agent = Agent()
    """Limits of one rollout."""


class Source(Table):
    """Where training tasks come from; a job has exactly one."""

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    """Name in logs and metrics; unset: the taskset's id."""
    ratio: float = Field(default=1.0, gt=0)
    """Relative weight; without effect, since a job has one source."""
    env: Env
    """The environment."""
    curriculum: Curriculum | None = None
    """Which tasks are drawn and which groups train."""


class Train(Table):
    """Training rollouts."""

    source: Annotated[tuple[Source, ...], Field(strict=False)]
    """The environment, as [[orchestrator.train.source]]."""
    sampling: Sampling = Sampling()
    """How rollouts are sampled."""
    filter_zero_advantages: bool = True
    """Leave groups without signal out of the update."""


class Orchestrator(Table):
    """Rollouts and advantages."""

    batch_size: int = Field(default=128, ge=1)
    """Rollouts a step; a multiple of group_size."""
    group_size: int = Field(default=1, ge=1)
    """Rollouts a prompt; must be set, to 2 or more."""
    max_off_policy_steps: int = Field(default=8, ge=0)
    """How many updates old a rollout may be."""
    algo: Algo = Grpo()
    """How rewards become advantages."""
    train: Train
    """Training rollouts."""


# [trainer]


class _Optim(Table):
    lr: float = Field(default=1e-6, gt=0)
    """Peak learning rate."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled weight decay."""
    max_norm: float | None = Field(default=1.0, gt=0)
    """Largest gradient norm; gradients are scaled down to it."""


class AdamW(_Optim):
    """AdamW."""

    type: Literal["adamw"] = "adamw"
    betas1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the first moment."""
    betas2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the second moment."""


class Sgd(_Optim):
    """SGD with momentum."""

    type: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum factor."""
    nesterov: bool = True
    """Nesterov's form of momentum."""


class SignSgd(_Optim):
    """The sign of the gradient."""

    type: Literal["sign_sgd"] = "sign_sgd"


class Muon(_Optim):
    """Muon for matrices, AdamW for the rest."""

    type: Literal["muon"] = "muon"
    mu: float = Field(default=0.95, ge=0, lt=1)
    """Momentum factor."""
    betas1: float = Field(default=0.9, ge=0, lt=1)
    """First moment of the parameters that are not matrices."""
    betas2: float = Field(default=0.95, ge=0, lt=1)
    """Second moment of the parameters that are not matrices."""


Optim = Annotated[
    Annotated[AdamW, Tag("adamw")]
    | Annotated[Sgd, Tag("sgd")]
    | Annotated[SignSgd, Tag("sign_sgd")]
    | Annotated[Muon, Tag("muon")],
    _by_type("adamw"),
]


class ConstantSchedule(Table):
    """The same learning rate at every step."""

    type: Literal["constant"] = "constant"


class LinearSchedule(Table):
    """Linear warm-up, constant middle, linear decay over the last steps."""

    type: Literal["linear"] = "linear"
    warmup_steps: int = Field(default=10, ge=0)
    """Steps up to the peak."""
    decay_steps: int = Field(default=10, ge=0)
    """Last steps, over which the rate falls to min_lr."""
    min_lr: float = Field(default=0.0, ge=0)
    """Rate at the end."""


class CosineSchedule(Table):
    """Linear warm-up, then a cosine down to min_lr."""

    type: Literal["cosine"] = "cosine"
    warmup_steps: int = Field(default=10, ge=0)
    """Steps up to the peak."""
    min_lr: float = Field(default=0.0, ge=0)
    """Rate at the end."""


Schedule = Annotated[
    Annotated[ConstantSchedule, Tag("constant")]
    | Annotated[LinearSchedule, Tag("linear")]
    | Annotated[CosineSchedule, Tag("cosine")],
    _by_type("constant"),
]


class Loss(Table):
    """prime-rl's default policy loss."""

    type: Literal["default"] = "default"
    dppo_mask_low: float = Field(default=0.2, ge=0)
    """Masks a token of negative advantage whose probability fell by more than this."""
    dppo_mask_high: float = Field(default=0.2, ge=0)
    """Masks a token of positive advantage whose probability rose by more than this."""
    adv_tau: float = Field(default=1.0, gt=0)
    """Weight of the advantage."""
    kl_tau: float = Field(default=1e-3, ge=0)
    """Weight of the squared log ratio between trainer and sampler."""


class Lora(Table):
    """Low-rank adapters instead of full training."""

    rank: int = Field(default=16, ge=1, le=512)
    """Rank of the adapters."""
    alpha: float = Field(default=32.0, gt=0)
    """Scale: an adapter's output counts alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout before the adapter."""


class TrainerModel(Table):
    """What of the model is trained."""

    lora: Lora | None = None
    """LoRA; all weights are trained unless the table is there."""


class Trainer(Table):
    """The update."""

    optim: Optim = AdamW()
    """Optimiser."""
    scheduler: Schedule = ConstantSchedule()
    """Learning rate over the steps."""
    loss: Loss = Loss()
    """Policy loss."""
    model: TrainerModel = TrainerModel()
    """What of the model is trained."""


# [inference]


class Vllm(Table):
    """The sampler."""

    max_model_len: int | None = Field(default=None, ge=1)
    """Longest sequence it samples; at least seq_len, which is the default."""


class Inference(Table):
    """The sampler."""

    vllm: Vllm = Vllm()
    """The sampler."""


class AuthorConfig(Table):
    """All of `rl.toml` that an author may write."""

    max_steps: int = Field(ge=1)
    """Optimiser steps."""
    seq_len: int = Field(default=2048, ge=1)
    """Tokens of prompt and replies together; longer samples are cut."""
    model: Model
    """The base model."""
    orchestrator: Orchestrator
    """Rollouts and advantages."""
    trainer: Trainer = Trainer()
    """The update."""
    inference: Inference = Inference()
    """The sampler."""

    @property
    def source(self) -> Source:
        """The one training source."""
        return self.orchestrator.train.source[0]
