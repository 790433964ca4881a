"""Every command of README.md and docs/ that a reader is told to type."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.component, pytest.mark.model]
ROOT = Path(__file__).parents[3]
BINARIES = Path(sys.executable).parent


def commands(document: str) -> list[str]:
    """The lines of all ```bash blocks."""
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def typed(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    path = f"{BINARIES}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        shell=True,
        cwd=place,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=400,
    )


@pytest.mark.parametrize("document", ["README.md", pytest.param("docs/jobs.md", marks=pytest.mark.slow)])
def test_the_commands_work_in_the_order_in_which_they_stand(document: str, tmp_path: Path) -> None:
    """Guards against a document that tells of commands, flags or tasks that do not exist."""
    told = commands(document)
    assert told
    for command in told:
        if command.startswith("make "):
            done = typed(f"make --dry-run --directory {ROOT} {command.removeprefix('make ')}", tmp_path)
        else:
            assert command.startswith("trainsmith ")
            done = typed(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_command_table_is_the_programs() -> None:
    """Guards against a command that the README forgets or invents."""
    from trainsmith.cli.main import COMMANDS

    told = set(re.findall(r"`trainsmith (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert told >= {command.name.split()[0] for command in COMMANDS}
    assert told <= {command.name.split()[0] for command in COMMANDS}
