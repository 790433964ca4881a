"""A learner's state in a directory: `state.json` names the safetensors files beside it.

Files never change once written: a new state is written under new names, then `state.json` is replaced in one
step, then the old files go. A reader or a crash at any time finds the old state or the new one.
Nothing is pickled. Not here: gradients, which end with the process.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import Optimizer

from trainsmith.engine.adapters import make_adapters, named_adapters
from trainsmith.engine.lora_training import frozen_weights
from trainsmith.engine.network import Network, adapted_network, plain_network
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import LoraSpec
from trainsmith.engine.tensor_file import read_tensors, write_tensors
from trainsmith.engine.weights import load_weights
from trainsmith.errors import MachineError, UserError
from trainsmith.files import write_atomic

MANIFEST = "state.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class State:
    """What a learner is beside its tensors."""

    step: int
    lora: LoraSpec | None
    """None: all weights are trained."""
    optimiser: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A saved state and its files."""

    state: State
    weights: str
    moments: str
    """The optimiser's tensors; empty when they were not saved."""


def save(directory: Path, state: State, weights: Mapping[str, Tensor], optimiser: Optimizer | None) -> None:
    """Write a state, replacing the one that is there. Raises MachineError when the disk refuses."""
    tag = secrets.token_hex(4)
    moments = f"optimiser-{tag}.safetensors" if optimiser else ""
    manifest = Manifest(state, f"weights-{tag}.safetensors", moments)
    try:
        write_tensors(weights, directory / manifest.weights)
        if optimiser:
            write_tensors(_moments(optimiser), directory / manifest.moments)
        document = {"version": _VERSION, **asdict(manifest)}
        write_atomic(directory / MANIFEST, json.dumps(document, indent=1) + "\n")
    except MachineError:
        _remove(directory, f"*-{tag}.safetensors", keep=())
        raise
    _remove(directory, "*.safetensors", keep=(manifest.weights, manifest.moments))


def _remove(directory: Path, pattern: str, keep: tuple[str, ...]) -> None:
    for file in directory.glob(pattern):
        if file.name not in keep:
            file.unlink(missing_ok=True)


def read_manifest(directory: Path) -> Manifest:
    """The state that a directory holds. Raises UserError when there is none."""
    file = directory / MANIFEST
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["version"] != _VERSION:
            raise UserError(f"state of version {found['version']}, not {_VERSION}", where=str(file))
        state = found["state"]
        lora = LoraSpec(**state["lora"]) if state["lora"] else None
        names = [str(found[key]) for key in ("weights", "moments")]
        if any(Path(name).name != name for name in names):
            raise UserError("a file outside the directory is named", where=str(file))
        return Manifest(State(int(state["step"]), lora, str(state["optimiser"])), *names)
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"no saved state: {error}", where=str(file)) from error


@torch.no_grad()
def load(
    directory: Path,
    learner: State,
    weights: Mapping[str, Tensor],
    optimiser: Optimizer,
    *,
    with_optimiser: bool,
) -> int:
    """Copy a saved state into a learner's tensors and optimiser; the step at which it goes on.

    Without the optimiser its state is emptied and the step is 0. Raises UserError, and changes nothing, for a
    state that does not fit.
    """
    manifest = read_manifest(directory)
    if manifest.state.lora != learner.lora:
        what = f"the state is of {_kind(manifest.state)}, the learner is {_kind(learner)}"
        raise UserError(what, where=str(directory))
    saved = _fitting(directory / manifest.weights, weights)
    moments: dict[Tensor, dict[str, Tensor]] = {}
    if with_optimiser:
        moments = _read_moments(directory, manifest, learner, optimiser)
    for name, tensor in weights.items():
        tensor.copy_(saved[name])
    optimiser.state.clear()
    optimiser.state.update(moments)
    return manifest.state.step if with_optimiser else 0


def load_network(policy: Policy, directory: Path) -> Network:
    """The network of a saved state, to sample with: adapters over the policy's weights, or its own weights.

    Raises UserError for a state that does not fit the policy.
    """
    manifest = read_manifest(directory)
    file, lora = directory / manifest.weights, manifest.state.lora
    if lora is None:
        return plain_network(load_weights(file, policy.architecture, policy.device, policy.dtype))
    frozen = frozen_weights(policy.weights, copy=False)
    spec = LoraSpec(lora.rank, lora.alpha)
    adapted = make_adapters(frozen, policy.architecture, spec, torch.Generator().manual_seed(0))
    named = named_adapters(adapted)
    with torch.no_grad():
        for name, saved in _fitting(file, named).items():
            named[name].copy_(saved).requires_grad_(False)
    return adapted_network(frozen, adapted)


def _fitting(file: Path, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file. Raises UserError unless names and shapes are those wanted."""
    saved = read_tensors(file)
    shapes = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    if shapes != {name: tuple(tensor.shape) for name, tensor in wanted.items()}:
        raise UserError("the saved tensors are not this model's", where=str(file))
    return saved


def _parameters(optimiser: Optimizer) -> list[Tensor]:
    return [tensor for group in optimiser.param_groups for tensor in group["params"]]


def _moments(optimiser: Optimizer) -> dict[str, Tensor]:
    """The optimiser's tensors as `number of the parameter.name`; a parameter not stepped yet has none."""
    return {
        f"{number}.{key}": value
        for number, parameter in enumerate(_parameters(optimiser))
        for key, value in optimiser.state.get(parameter, {}).items()
        if value is not None
    }


def _read_moments(
    directory: Path, manifest: Manifest, learner: State, optimiser: Optimizer
) -> dict[Tensor, dict[str, Tensor]]:
    if not manifest.moments or manifest.state.optimiser != learner.optimiser:
        what = f"no state of {learner.optimiser} was saved"
        raise UserError(what, where=str(directory), fix="load the weights alone")
    file, parameters = directory / manifest.moments, _parameters(optimiser)
    moments: dict[Tensor, dict[str, Tensor]] = {}
    for name, value in read_tensors(file).items():
        number, _, key = name.partition(".")
        if not number.isdecimal() or int(number) >= len(parameters):
            raise UserError(f"unknown tensor {name}", where=str(file))
        parameter = parameters[int(number)]
        if value.dim() and value.shape != parameter.shape:
            raise UserError(f"{name} has shape {tuple(value.shape)}", where=str(file))
        moments.setdefault(parameter, {})[key] = value.to(parameter.device)
    return moments


def _kind(state: State) -> str:
    return f"LoRA of rank {state.lora.rank}, alpha {state.lora.alpha:g}" if state.lora else "all weights"
