"""Which names a job folder may hold. Pure: no file is touched here.

The tree reader asks `name_fault` about every name; `belongs` and `package_fault` say where a file may be and
what a package may be called.
"""

from __future__ import annotations

import keyword
import sys
from pathlib import PurePosixPath

from trainsmith.jobs.limits import MAX_NAME

CONFIG = "rl.toml"
ENVIRONMENT = "environment"
GUIDE = "GUIDE.md"

LEFT_OUT = frozenset(
    {"__pycache__", ".DS_Store", ".git", ".gitignore", ".mypy_cache", ".pytest_cache", ".ruff_cache", GUIDE}
)
"""Droppings of tools, and the guide: not of the job, so neither read, hashed nor copied."""

_TAKEN = """
    aiohttp anthropic anyio attr attrs certifi cffi click cryptography datasets dill gguf google
    grpc h11 httpcore httpx huggingface_hub idna jinja2 jiter markupsafe mcp msgpack multiprocess
    numpy openai packaging pandas prime_rl prime_sandboxes psutil pyarrow pydantic pydantic_config
    pydantic_core reasoning_gym regex renderers requests rich safetensors scipy six sniffio
    starlette sympy tenacity tiktoken tinker tinker_cookbook tokenizers tomli tomli_w tomlkit torch
    tqdm trainsmith transformers typing_extensions urllib3 uvicorn verifiers vllm yaml zmq
"""
"""Modules of the worker's own imports: an environment of that name would hide them."""

_BUILT_IN_TASKSETS = frozenset({"harbor", "nemo_gym", "openenv", "textarena"})
"""verifiers looks for an id among its own tasksets first."""


def name_fault(name: str) -> str:
    """Why one name of a path is not allowed; empty when it is."""
    if name in {"", ".", ".."} or "/" in name or "\\" in name:
        return "is not a plain name"
    if len(name) > MAX_NAME:
        return f"is longer than {MAX_NAME} characters"
    if not name.isprintable() or name != name.strip():
        return "has control characters or outer spaces"
    if name.startswith("."):
        return "is hidden (begins with a dot)"
    return ""


def belongs(path: str) -> bool:
    """Whether a file of this path may be in a job folder: rl.toml, a note at the top, or environment/."""
    parts = PurePosixPath(path).parts
    return parts[0] == ENVIRONMENT if len(parts) > 1 else path == CONFIG or path.endswith((".md", ".txt"))


def package_fault(name: str) -> str:
    """Why a directory under environment/ cannot be the environment's package; empty when it can."""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        return "is not a Python identifier"
    if name != name.lower():
        return "has capitals, which verifiers turns into small letters"
    if name in sys.stdlib_module_names or name in _TAKEN.split():
        return "hides the Python module of that name"
    if name in _BUILT_IN_TASKSETS:
        return "is the name of a taskset that verifiers brings itself"
    return ""
