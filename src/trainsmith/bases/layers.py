"""A copy of a model directory without some of its decoder layers."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from trainsmith.bases.safetensors_file import RawTensor, read_tensors, write_safetensors
from trainsmith.errors import UserError

_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")


def drop_layers(source: Path, target: Path, dropped: tuple[int, ...]) -> None:
    """Write into `target` the model of `source` without the layers of these indices, the rest renumbered."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    layers = int(config["num_hidden_layers"])
    if not set(dropped) < set(range(layers)):
        raise UserError(f"cannot drop layers {dropped} of {layers}", where=str(source))
    kept = [index for index in range(layers) if index not in dropped]
    tensors: dict[str, RawTensor] = {}
    for file in sorted(source.glob("*.safetensors")):
        for name, tensor in read_tensors(file):
            renamed = _renamed(name, kept)
            if renamed is not None:
                tensors[renamed] = tensor
    write_safetensors(target / "model.safetensors", tensors)
    config["num_hidden_layers"] = len(kept)
    if "layer_types" in config:
        config["layer_types"] = [config["layer_types"][index] for index in kept]
    (target / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    for file in source.iterdir():
        if file.suffix in {".json", ".jinja", ".txt"} and not _belongs_to_weights(file.name):
            shutil.copyfile(file, target / file.name)


def _belongs_to_weights(name: str) -> bool:
    return name in {"config.json", "manifest.json", "model.safetensors.index.json"}


def _renamed(name: str, kept: list[int]) -> str | None:
    """The tensor's name after renumbering; None when its layer is dropped."""
    match = _LAYER.fullmatch(name)
    if match is None:
        return name
    index = int(match.group(1))
    return f"model.layers.{kept.index(index)}.{match.group(2)}" if index in kept else None
