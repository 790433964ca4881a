"""Keys and values of prime-rl that are not the author's, with the reason and what to do instead."""

from __future__ import annotations

from typing import NamedTuple


class Reason(NamedTuple):
    """Why a key is refused, and what to do."""

    why: str
    fix: str = "remove it"


_MACHINE = Reason("where and how a job runs is set by trainsmith")
_PORTS = Reason("ports and hosts are set by trainsmith")
_PATHS = Reason("paths are set by trainsmith")
_TRACKING = Reason("logs and metrics are set by trainsmith")
_VARIABLES = Reason("environment variables are not the author's")
_RENDERER = Reason("the tokenizer and the chat template are the base model's")
_EVALUATION = Reason("the evaluation is the task's own, with hidden items")
_SEED = Reason("seeds of training are drawn by trainsmith")
_WHOLE_JOB = "a job has one source: set it for all of the job"
_AGENT = Reason("the agent's program, model and place are set by trainsmith")
_WEIGHTS = Reason("which weights are read and written is set by trainsmith")
_CODE = Reason(
    "functions plugged in by an import path are not allowed", "write them in the environment's Task"
)

KEYS: dict[str, Reason] = {
    "ckpt": _WEIGHTS,
    "clean": _PATHS,
    "deployment": _MACHINE,
    "dry_run": _MACHINE,
    "env_vars": _VARIABLES,
    "log": _TRACKING,
    "monitors": _TRACKING,
    "output_dir": _PATHS,
    "resume": _WEIGHTS,
    "rollout_transport": _PORTS,
    "run": _PATHS,
    "seed": _SEED,
    "slurm": _MACHINE,
    "tokenizer": _RENDERER,
    "weight_broadcast": _WEIGHTS,
    "model.vlm": Reason("base models read text only"),
    "orchestrator.ckpt": _WEIGHTS,
    "orchestrator.collect_inference_metrics": _TRACKING,
    "orchestrator.concurrency": _MACHINE,
    "orchestrator.env_server_base_port": _PORTS,
    "orchestrator.eval": _EVALUATION,
    "orchestrator.max_steps": Reason("it is set once for all parts", "set max_steps at the top of the file"),
    "orchestrator.model": Reason("the model is named once for all parts", "set model.name"),
    "orchestrator.num_train_workers": _MACHINE,
    "orchestrator.output_dir": _PATHS,
    "orchestrator.renderer": _RENDERER,
    "orchestrator.resume": _WEIGHTS,
    "orchestrator.rollout_transport": _PORTS,
    "orchestrator.seq_len": Reason("it is set once for all parts", "set seq_len at the top of the file"),
    "orchestrator.tasks_per_minute": _MACHINE,
    "orchestrator.token_batch_size": Reason("batches are counted in rollouts", "set orchestrator.batch_size"),
    "orchestrator.tokenizer": _RENDERER,
    "orchestrator.weight_broadcast": _WEIGHTS,
    "orchestrator.algo.sampling": Reason("rollouts are always sampled from the model in training"),
    "orchestrator.train.sampling.extra_body": Reason("only temperature and max_completion_tokens may be set"),
    "orchestrator.train.source.algo": Reason(_WHOLE_JOB, "set orchestrator.algo"),
    "orchestrator.train.source.group_size": Reason(_WHOLE_JOB, "set orchestrator.group_size"),
    "orchestrator.train.source.sampling": Reason(_WHOLE_JOB, "set orchestrator.train.sampling"),
    "orchestrator.train.source.serve": _PORTS,
    "orchestrator.train.source.curriculum.sampler.seed": _SEED,
    "orchestrator.train.source.env.id": Reason(
        "the Env of the package named by taskset.id is found by itself"
    ),
    "orchestrator.train.source.env.interception": _MACHINE,
    "orchestrator.train.source.env.max_concurrent_agents": _MACHINE,
    "orchestrator.train.source.env.retries": _MACHINE,
    "orchestrator.train.source.env.timeout": Reason(
        "an episode's time is limited by the task", "set env.agent.timeout for one rollout"
    ),
    "orchestrator.train.source.env.agent.client": _AGENT,
    "orchestrator.train.source.env.agent.harness": _AGENT,
    "orchestrator.train.source.env.agent.model": _AGENT,
    "orchestrator.train.source.env.agent.retries": _AGENT,
    "orchestrator.train.source.env.agent.runtime": _AGENT,
    "orchestrator.train.source.env.agent.sampling": Reason(_WHOLE_JOB, "set orchestrator.train.sampling"),
    "orchestrator.train.source.env.taskset.system_prompt": Reason(
        "files of the machine are not read", "set system_prompt in each TaskData"
    ),
    "orchestrator.train.source.env.taskset.task.judges": Reason("judges need a network, which a job has not"),
    "orchestrator.train.source.env.taskset.task.metrics": _CODE,
    "orchestrator.train.source.env.taskset.task.rewards": _CODE,
    "orchestrator.train.source.env.taskset.task.stops": _CODE,
    "trainer.ckpt": _WEIGHTS,
    "trainer.data": Reason("training data comes from rollouts"),
    "trainer.max_steps": Reason("it is set once for all parts", "set max_steps at the top of the file"),
    "trainer.metrics_server": _PORTS,
    "trainer.output_dir": _PATHS,
    "trainer.resume": _WEIGHTS,
    "trainer.rollout_transport": _PORTS,
    "trainer.tokenizer": _RENDERER,
    "trainer.weight_broadcast": _WEIGHTS,
    "trainer.loss.import_path": Reason("custom losses would run your code in the trainer"),
    "trainer.loss.kwargs": Reason("custom losses would run your code in the trainer"),
    "trainer.loss.ipo_threshold": Reason('only the loss "default" may be used'),
    "trainer.model.name": Reason("the model is named once for all parts", "set model.name"),
    "trainer.model.seq_len": Reason("it is set once for all parts", "set seq_len at the top of the file"),
    "inference.backend_port": _PORTS,
    "inference.router": _PORTS,
    "inference.server": _PORTS,
    "inference.vllm.model": Reason("the model is named once for all parts", "set model.name"),
}
"""Refused keys by dotted path. A table here stands for all that is in it."""

_TABLES: dict[str, Reason] = {
    "inference": Reason("of the sampler only vllm.max_model_len may be set"),
    "trainer.model": Reason("of the trained model only the table lora may be set"),
    "trainer.model.lora": Reason("of LoRA only rank, alpha and dropout may be set"),
}
"""Tables whose other keys all belong to trainsmith; asked after a likely slip has been ruled out."""

_NAMES: dict[str, Reason] = {"env_vars": _VARIABLES, "host": _PORTS, "port": _PORTS, "seed": _SEED}
"""Refused under any table but the environment's own arguments."""

VALUES: dict[tuple[str, str], Reason] = {
    ("trainer.loss.type", "custom"): Reason(
        "custom losses would run your code in the trainer", 'use "default"'
    ),
    ("trainer.loss.type", "ipo"): Reason("this loss may not be used", 'use "default"'),
    **{
        ("orchestrator.algo.type", name): Reason(why, 'use "grpo" or "max_rl"')
        for name, why in {
            "echo": "this algorithm trains on tokens that the model did not write",
            "hierarchical_grpo": "this algorithm needs an environment of prime-rl's own",
            "opd": "this algorithm needs another model behind an address",
            "opsd": "this algorithm may not be used",
            "rae": "this algorithm may not be used",
            "sft": "this algorithm needs another model behind an address",
        }.items()
    },
}
"""Refused values of keys that an author may set."""


def reason(path: str) -> Reason | None:
    """Why the key at a dotted path (without list indices) is refused; None if it is merely unknown."""
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        if found := KEYS.get(".".join(parts[:end])):
            return found
    return _NAMES.get(parts[-1])


def table_reason(path: str) -> Reason | None:
    """Why no further key may be set in the table that holds the key at `path`."""
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if found := _TABLES.get(".".join(parts[:end])):
            return found
    return None
