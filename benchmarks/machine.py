"""What a figure needs beside it: the machine, its load, and the versions that were compared."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trainsmith.records import Record


class Machine(Record):
    """Where and with what a measurement ran."""

    cpu: str
    cores: int
    load: float
    """Of the whole machine over the last minute, this run's included."""
    gpu: str
    """Empty without one."""
    versions: dict[str, str]


def this_machine(packages: Sequence[str], gpu: str = "") -> Machine:
    """The machine as it is now; packages that are not installed are left out."""
    return Machine(
        cpu=cpu_name(),
        cores=os.cpu_count() or 1,
        load=os.getloadavg()[0],
        gpu=gpu,
        versions=versions(packages),
    )


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Installed versions by name."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def cpu_name() -> str:
    """The CPU's own name, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def gpu_name() -> str:
    """The first GPU's name; empty without one. Imports torch."""
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""
