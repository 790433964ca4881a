"""What an author probably meant by an unknown key."""

from __future__ import annotations

import difflib

from trainsmith.jobs.keys import Key, keys, matches

_NEAR = 0.7
"""Likeness of names (0 to 1) from which a key of the same table counts as meant."""
_NEAR_ELSEWHERE = 0.85
"""The same for keys of other tables."""


_OTHER_NAMES = {
    "beta1": "betas1",
    "beta2": "betas2",
    "grad_clip": "max_norm",
    "kl_coef": "kl_tau",
    "learning_rate": "lr",
    "lora_alpha": "alpha",
    "lora_dropout": "dropout",
    "lora_r": "rank",
    "lora_rank": "rank",
    "max_grad_norm": "max_norm",
    "max_length": "seq_len",
    "max_new_tokens": "max_completion_tokens",
    "max_seq_length": "seq_len",
    "max_tokens": "max_completion_tokens",
    "num_generations": "group_size",
    "num_steps": "max_steps",
    "num_train_steps": "max_steps",
    "r": "rank",
    "rollouts_per_example": "group_size",
    "rollouts_per_prompt": "group_size",
}
"""What other trainers and older versions call a key."""


def fix(path: str, variant: str = "") -> str:
    """How to mend the unknown key at a dotted path; empty if no known key is near.

    `variant` is the `type` of the table around the key, where that table has several.
    """
    table, _, given = path.rpartition(".")
    name = _OTHER_NAMES.get(given, given)
    siblings = _of_table(table)
    if other := next((key for key in siblings if key.name == name and variant and key.variants), None):
        return f'remove it, or set {table}.type = "{other.variants[0]}"'
    usable = [key.name for key in siblings if not key.variants or variant in key.variants]
    if near := difflib.get_close_matches(name, usable, n=1, cutoff=_NEAR):
        return f"write {near[0]}"
    return _elsewhere(name)


def remove(path: str) -> str:
    """The fix when nothing is near: names the keys of the table."""
    own = list(dict.fromkeys(key.name for key in _of_table(path.rpartition(".")[0])))
    return f"remove it; keys of this table: {', '.join(own)}" if own else "remove it"


def _of_table(table: str) -> list[Key]:
    return [key for key in keys() if matches(key.table, table)]


def _elsewhere(name: str) -> str:
    paths = {
        key.path: key.name for key in keys() if "*" not in key.path and key.name not in {"type", "name", "id"}
    }
    near = difflib.get_close_matches(name, paths.values(), n=1, cutoff=_NEAR_ELSEWHERE)
    return f"set {' or '.join(path for path, known in paths.items() if known == near[0])}" if near else ""
