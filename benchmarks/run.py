"""`make bench`: every comparison in turn, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

COMPARISONS: tuple[tuple[str, ...], ...] = (("benchmarks.sampling",),)


def main() -> int:
    """Run all; the exit status is 1 if any failed."""
    failed = [module for module, *arguments in COMPARISONS if _run(module, arguments)]
    print(f"failed: {', '.join(failed)}" if failed else "all comparisons ran")
    return 1 if failed else 0


def _run(module: str, arguments: list[str]) -> int:
    print(f"== python -m {module} {' '.join(arguments)}".rstrip(), flush=True)
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
