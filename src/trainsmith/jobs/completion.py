"""Fills in what an author left out, and writes the whole for prime-rl's own parser.

The completed config is part of a job's identity; where it runs (`Placement`: paths, ports, GPUs) is not.
"""

from __future__ import annotations

from typing import Any

from trainsmith.jobs.schema import AuthorConfig, DifficultySampler
from trainsmith.jobs.toml_text import to_toml
from trainsmith.records import Record


class Placement(Record):
    """Where prime-rl runs a job. Two runs on one host need distinct folders and ports."""

    output_dir: str = "outputs"
    run_name: str = "run"
    """Folder under `output_dir`."""
    model: str = ""
    """Hub name or model directory of the base; empty: its id."""
    renderer: str = "default"
    """Name of prime-rl's renderer of the chat template; Qwen3 models need "qwen3"."""
    harness: str = ""
    """Importable harness that plays the rollouts in its process; empty: the environment's own."""
    environment_address: str = ""
    """ZMQ address of a running environment server; empty: prime-rl starts one."""
    agents: tuple[str, ...] = ("agent",)
    """Roles of the environment; the author's limits and the place to run hold for each."""
    train_gpus: int = 1
    infer_gpus: int = 1
    gpu_memory_utilization: float = 0.9
    """Share of a GPU's memory that the sampler takes."""
    server_port: int = 8000
    engine_port: int = 8100
    environment_port: int = 5000
    transport_port: int = 5555


def complete(config: AuthorConfig) -> AuthorConfig:
    """The config with the defaults that depend on other keys."""
    source = config.source
    named = source.model_copy(update={"name": source.name or source.env.taskset.id})
    train = config.orchestrator.train.model_copy(update={"source": (named,)})
    vllm = config.inference.vllm
    longest = vllm.model_copy(update={"max_model_len": vllm.max_model_len or config.seq_len})
    return config.model_copy(
        update={
            "orchestrator": config.orchestrator.model_copy(update={"train": train}),
            "inference": config.inference.model_copy(update={"vllm": longest}),
        }
    )


def prime_rl_toml(config: AuthorConfig, seed: int, placement: Placement) -> str:
    """The whole `rl.toml` of a completed config."""
    document = _plain(config.model_dump(mode="json"))
    document["trainer"]["optim"].setdefault("max_norm", "None")  # off; prime-rl would clip to 1.0
    document["model"]["name"] = placement.model or config.model.name
    document.update(_run_tables(config, placement))
    document["orchestrator"] |= _orchestrator_tables(placement)
    _complete_source(config, document["orchestrator"]["train"]["source"][0], seed, placement)
    document["inference"] |= {
        "server": {"port": placement.server_port},
        "backend_port": placement.engine_port,
    }
    document["inference"]["vllm"] |= {
        "gpu_memory_utilization": placement.gpu_memory_utilization,
        "seed": seed,
    }
    return to_toml(document)


def _plain(value: Any) -> Any:
    """Without what is off: it is off in prime-rl, too, when it is not written."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _run_tables(config: AuthorConfig, placement: Placement) -> dict[str, Any]:
    return {
        "output_dir": placement.output_dir,
        "run": {"name": placement.run_name},
        "deployment": {
            "num_train_gpus": placement.train_gpus,
            "num_infer_gpus": placement.infer_gpus,
            "gpus_per_node": placement.train_gpus + placement.infer_gpus,
        },
        "weight_broadcast": {"type": "filesystem"},
        "rollout_transport": {"type": "zmq", "port": placement.transport_port},
        "ckpt": {"interval": config.max_steps, "keep_last": 1},
    }


def _orchestrator_tables(placement: Placement) -> dict[str, Any]:
    return {
        "env_server_base_port": placement.environment_port,
        "renderer": {"name": placement.renderer, "enable_thinking": False},
    }


def _complete_source(config: AuthorConfig, source: dict[str, Any], seed: int, placement: Placement) -> None:
    """The environment runs as a plain subprocess: verifiers' own default is a paid remote sandbox."""
    place: dict[str, Any] = {"runtime": {"type": "subprocess"}}
    if placement.harness:
        place["harness"] = {"id": placement.harness}
    limits = source["env"].pop("agent")
    source["env"] |= {agent: {**limits, **place} for agent in placement.agents}
    if placement.environment_address:
        source["serve"] = {"address": placement.environment_address}
    if config.source.curriculum and isinstance(config.source.curriculum.sampler, DifficultySampler):
        source["curriculum"]["sampler"]["seed"] = seed
