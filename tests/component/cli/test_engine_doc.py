"""Every command and program of docs/engine.md, typed in order on the server that it starts."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.component, pytest.mark.model, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "engine.md"
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)
HARNESS = "--env.agent.harness.id http_harness --no-rich"
"""The harness that comes with verifiers is fetched with `uv`; the tests have no network."""


@pytest.fixture
def shell(tmp_path):
    """What is typed goes here: the environment of a reader's shell."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environments = ROOT / "tests" / "environments"
    own = {"PATH": path, "TRAINSMITH_STATE": str(tmp_path / "state"), "TINKER_TELEMETRY": "0"}
    return os.environ | own | {"HF_HUB_OFFLINE": "1", "ENVIRONMENTS": str(environments)}


def exported(server):
    """The variables of the two lines that are to be pasted."""
    lines = [server.stdout.readline() for _ in range(3)]
    return dict(
        word.split("=", 1) for line in lines if line.startswith("export ") for word in line.split()[1:]
    )


def test_the_page_works_from_top_to_bottom(shell, tmp_path):
    """Guards against a page that tells of commands, options, fields or models that do not exist."""
    (_, serve), *blocks = BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))
    server = subprocess.Popen(serve.split(), env=shell, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        variables = exported(server)
        assert {"TINKER_BASE_URL", "TINKER_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"} == set(variables)
        script = "\n".join(_typed(kind, text) for kind, text in blocks)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=shell | variables,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "tinker://" in done.stdout and "Paris" in done.stdout
        # vf-eval ends with 0 even when nothing worked.
        traces = [file.read_text() for file in tmp_path.glob("outputs/*/traces.jsonl")]
        assert sum(text.count('"is_completed":true') for text in traces) == 8
        assert all('"ok":false' not in text for text in traces)
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 130


def _typed(kind, text):
    if kind == "python":
        return f"python - <<'END'\n{text}END"
    return re.sub(r"PYTHONPATH=(\S+) (vf-eval .*)", rf"PYTHONPATH=\1:$ENVIRONMENTS \2 {HARNESS}", text)
