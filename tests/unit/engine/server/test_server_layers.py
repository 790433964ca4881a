"""What the server's modules may import."""

import ast
from pathlib import Path

from trainsmith.engine import server

TORCH = {"host", "models", "samplers"}
"""The host and what only its thread touches."""


def test_torch_stays_behind_the_host():
    """Guards against torch, or the engine's modules that import it, in a protocol."""
    light = {"records", "server", "chat", "conversation", "hermes", "text_stream", "tool_reader"}
    for file in Path(server.__file__).parent.rglob("*.py"):
        if file.stem in TORCH:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.split(".")[0] != "torch", file
                if node.module.startswith("trainsmith.engine."):
                    assert node.module.split(".")[2] in light, (file, node.module)
