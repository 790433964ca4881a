"""Writes the environment package of a kind's reference job: one readable file.

The kind's own `Rule`, `question` and `reward` are its body, word for word, so that what the reference job
trains on is what `draws.training_items` keeps out of the hidden items.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from importlib.resources import files
from string import Template
from types import ModuleType
from typing import Any

from trainsmith.errors import MachineError
from trainsmith.families.answers import clean, exact
from trainsmith.families.draws import TRAINING_SEED, Source
from trainsmith.families.kind import Score
from trainsmith.records import Message

_WIDTH = 100


def environment(source: Source, prefix: tuple[Message, ...]) -> str:
    """The text of `__init__.py`. `prefix`: the messages before a question."""
    kind, rule = source.kind, source.rule
    return template().substitute(
        imports=_imports(source),
        skill=kind.skill,
        prefix=_prefix(prefix),
        rule_class=inspect.getsource(type(rule)).strip(),
        rule=_constructed(rule),
        question=inspect.getsource(kind.question).strip(),
        clean=inspect.getsource(clean).strip(),
        reward=_reward(kind.reward),
        num_tasks=kind.recipe.num_tasks,
        seed=TRAINING_SEED,
    )


def template() -> Template:
    """The file with a place for each part that differs between kinds."""
    return Template(files("trainsmith.families").joinpath("environment.py.tmpl").read_text(encoding="utf-8"))


def _imports(source: Source) -> str:
    """Import lines for the modules that the copied functions use.

    MachineError for a kind that uses anything else of its own module, which the file would lack.
    """
    modules = {"random"}
    for function in (source.kind.question, source.kind.reward):
        for name, value in _globals(function).items():
            if isinstance(value, ModuleType) and value.__name__ in sys.stdlib_module_names:
                modules.add(name)
            elif value not in (type(source.rule), clean):
                raise MachineError(
                    f"{function.__name__}() uses {name}, which its reference job has not",
                    where=source.id,
                    fix="let it use its arguments, the standard library and `clean` only",
                )
    return "\n".join(f"import {name}" for name in sorted(modules))


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function's body takes from its module, by name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    names = [node for part in tree.body for node in ast.walk(part) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(function.__code__.co_varnames)
    used = {node.id for node in names} - own
    return {name: function.__globals__[name] for name in sorted(used) if name in function.__globals__}


def _reward(reward: Score) -> str:
    """The reward's source under the name `reward`; `exact` is the one that kinds share."""
    text = inspect.getsource(reward).strip()
    return text.replace("def exact(", "def reward(", 1) if reward is exact else text


def _prefix(messages: tuple[Message, ...]) -> str:
    return "\n".join(
        f"    vf.{message.role.capitalize()}Message(content={_literal(message.content)}),"
        for message in messages
    )


def _constructed(rule: object) -> str:
    """The call that makes the rule anew: one line if it is short, else one a field."""
    parts = [f"{name}={_value(value)}" for name, value in vars(rule).items()]
    line = f"{type(rule).__name__}({', '.join(parts)})"
    if "\n" not in line and len(line) < _WIDTH:
        return line
    return "\n".join([f"{type(rule).__name__}(", *(f"    {part}," for part in parts), ")"])


def _value(value: object) -> str:
    """A field; a long tuple of words as one text that is split."""
    plain = _literal(value)
    if len(plain) < _WIDTH:
        return plain
    if isinstance(value, tuple) and all(isinstance(word, str) and word.isalnum() for word in value):
        words = textwrap.fill(" ".join(value), _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
        return f'tuple(\n        """\n{words}\n        """.split()\n    )'
    return plain


def _literal(value: object) -> str:
    """`repr`, with double quotes round text where that needs no escapes."""
    text = repr(value)
    if isinstance(value, str) and text[0] == "'" and '"' not in value:
        return f'"{text[1:-1]}"' if "\\'" not in text else text
    return text
