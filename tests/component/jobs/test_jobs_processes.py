"""What only shows in processes of their own: imports, speed, a kill in the middle, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.component

RL_TOML = """
max_steps = 40
seq_len = 192
model.name = "smollm2-135m"
orchestrator.group_size = 16
orchestrator.train.sampling.max_completion_tokens = 16
[[orchestrator.train.source]]
env.taskset.id = "last_word"
"""
TASK = """
from trainsmith.records import Budget, Task
budget = Budget(train_seconds=1, max_steps=60, max_tokens=10**7)
task = Task(id="a/b@0", family="a", kind="b", seed=0, tier="micro", brief="", prefix=(), examples=(),
            bases=("smollm2-135m",), budget=budget)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "job" / "environment" / "last_word"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for index in range(97):
        (package / f"{index}.txt").write_bytes(os.urandom(50_000))
    (tmp_path / "job" / "rl.toml").write_text(RL_TOML)
    return tmp_path / "job"


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, timeout=60
    )


def test_no_heavy_imports() -> None:
    """Fault: reading a job's config costs seconds, because torch, verifiers or a data set comes along."""
    code = """
    import sys
    import trainsmith.jobs
    heavy = {"torch", "transformers", "verifiers", "numpy", "datasets", "reasoning_gym"}
    print(sorted(heavy & set(sys.modules)))
    """
    assert _python(code).stdout.strip() == "[]"


def test_loading_and_resolving_is_quick(folder: Path) -> None:
    """Fault: checking a job of the largest size costs more than 50 ms (here: of 98 files and 4.9 MB)."""
    code = f"""{TASK}
import sys, time
from pathlib import Path
from trainsmith import jobs
times = []
for _ in range(5):
    began = time.perf_counter()
    jobs.resolve(jobs.load(Path(sys.argv[1]), task), task, "r", "embedded", 0)
    times.append(time.perf_counter() - began)
print(min(times))
"""
    result = _python(code, str(folder))
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 0.05


def test_a_kill_in_the_middle_leaves_no_half_snapshot(folder: Path, tmp_path: Path) -> None:
    """Fault: after kill -9 a half-written job folder is taken for a whole one."""
    code = """
    import sys
    from pathlib import Path
    from trainsmith import jobs
    print("ready", flush=True)
    for index in range(10_000):
        jobs.snapshot(Path(sys.argv[1]), Path(sys.argv[2]) / str(index))
    """
    target = tmp_path / "copies"
    for delay in (0.05, 0.12, 0.2):
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(folder), str(target)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        names = sorted(path.relative_to(folder) for path in folder.rglob("*"))
        whole = [path for path in target.iterdir() if not path.name.startswith(".")]
        assert whole
        for copy in whole:
            assert sorted(path.relative_to(copy) for path in copy.rglob("*")) == names
        for path in (*target.rglob("*.txt"), *target.rglob("*.toml"), *target.rglob("*.py")):
            path.unlink()
        target.rename(tmp_path / f"done{delay}")


def test_a_full_disk_is_a_fault_of_the_machine(folder: Path, tmp_path: Path) -> None:
    """Fault: a failed write leaves half a folder, or is blamed on the author (a limit plays the disk)."""
    code = """
    import resource, sys
    from pathlib import Path
    from trainsmith import jobs
    from trainsmith.errors import MachineError
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        jobs.snapshot(Path(sys.argv[1]), Path(sys.argv[2]))
    except MachineError as error:
        print(error)
    """
    result = _python(code, str(folder), str(tmp_path / "runs" / "copy"))
    assert "cannot be written (File too large). Fix: free disk space" in result.stdout, result.stderr
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_folder_that_changes_all_the_time_yields_a_whole_job_or_an_error(folder: Path) -> None:
    """Fault: a file swapped for a link between check and use is followed (the links point at /etc/passwd)."""
    swap = """
    import os, sys
    path = sys.argv[1]
    while True:
        os.symlink("/etc/passwd", path + ".new"); os.replace(path + ".new", path)
        open(path + ".new", "w").close(); os.replace(path + ".new", path)
    """
    code = """
    import sys
    from pathlib import Path
    from trainsmith.jobs.tree import read_tree
    secret = Path("/etc/passwd").read_bytes()
    seen = set()
    for _ in range(300):
        tree = read_tree(Path(sys.argv[1]))
        assert secret not in tree.contents.values()
        seen |= {problem.what for problem in tree.problems}
    print(sorted(seen))
    """
    victim = folder / "environment" / "last_word" / "victim.py"
    victim.touch()
    for path in folder.rglob("*.txt"):
        path.unlink()
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(swap), str(victim)]) as process:
        try:
            result = _python(code, str(folder))
        finally:
            process.kill()
    assert result.returncode == 0, result.stderr
    assert "is a symbolic link" in result.stdout
