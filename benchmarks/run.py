"""`make bench`: every comparison that fits a CPU in turn, each in a process of its own.

    python -m benchmarks.run [--json DIRECTORY]
    python -m benchmarks.run --gpu      # those for a GPU; vLLM's and TRL's sides where they are installed

Exit status: 1 if any failed. One that misses a package (exit status 2) says which, and is no failure.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Command = tuple[str, ...]

ON_A_CPU: tuple[Command, ...] = (
    ("sampling",),
    ("grpo", "--threads", "1", "2"),
    ("server_soak",),
)
ON_A_GPU: tuple[Command, ...] = (
    ("sampling", "--device", "cuda"),
    ("grpo", "--device", "cuda", "--alone", "--work", "step", "--shape", "16", "16", "8"),
    ("grpo", "--device", "cuda", "--shape", "16", "16", "32", "--trl-micro-batch", "256"),
    ("server_soak", "--device", "cuda", "--dtype", "bfloat16"),
    ("jobs", "--device", "cuda", "--workers", "1", "4", "8", "--jobs", "48"),
)
MISSING = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--json", type=Path, help="a directory for every comparison's JSON")
    options = parser.parse_args(arguments)
    if options.json:
        options.json.mkdir(parents=True, exist_ok=True)
    commands = ON_A_GPU if options.gpu else ON_A_CPU
    ended = {number: _run(number, command, options.json) for number, command in enumerate(commands)}
    failed = [" ".join(commands[number]) for number, status in ended.items() if status not in (0, MISSING)]
    print(f"failed: {'; '.join(failed)}" if failed else "all comparisons ran, but for those named as missing")
    return 1 if failed else 0


def _run(number: int, command: Command, directory: Path | None) -> int:
    name, *settings = command
    if directory:
        settings += ["--json", str(directory / f"{number}-{name}.json")]
    words = ["-m", f"benchmarks.{name}", *settings]
    print(f"== python {' '.join(words)}", flush=True)
    return subprocess.run([sys.executable, *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
