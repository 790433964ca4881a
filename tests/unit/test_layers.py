"""The import arrows of the house."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trainsmith

ROOT = Path(trainsmith.__file__).parent
LAYERS = (
    ("errors", "records", "config", "paths", "seeds", "files", "progress", "runs", "versions", "reward"),
    ("families", "bases", "jobs"),
    ("jail", "engine"),
    ("rollout",),
    ("probe", "trainers", "grading"),
    ("ledger",),
    ("pool",),
    ("episode",),
    ("agents",),
    ("workshop",),
    ("report",),
    ("cli",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def unit(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Units of trainsmith that a module names in an import, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "trainsmith":
                found |= {alias.name for alias in node.names}
            elif node.module.startswith("trainsmith."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("trainsmith.")}
    return found & RANK.keys()


def test_every_module_has_a_layer() -> None:
    """Guards against a package that nobody has placed."""
    assert {unit(path) for path in modules()} - {"__init__"} <= RANK.keys()


def test_imports_point_downwards() -> None:
    """Guards against cycles and shortcuts between the layers."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules()
        if unit(path) in RANK
        for name in imported(path)
        if name != unit(path) and RANK[name] > RANK[unit(path)]
    ]
    assert wrong == []


def test_files_stay_small() -> None:
    """Guards against a file that only grows."""
    assert {str(p): n for p in modules() if (n := p.read_text().count("\n")) > 600} == {}


@pytest.mark.parametrize(
    "module",
    [
        "trainsmith",
        "trainsmith.cli.main",
        "trainsmith.config.commands",
        "trainsmith.workshop",
        "trainsmith.jobs",
    ],
)
def test_heavy_libraries_are_not_imported_early(module: str) -> None:
    """Guards against `trainsmith --help` that waits for torch."""
    heavy = ("torch", "transformers", "verifiers", "reasoning_gym", "tinker")
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
