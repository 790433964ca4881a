"""`trainsmith doctor`: what works on this machine, and the fix for what does not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator

import psutil

from trainsmith import bases, jail, paths
from trainsmith.cli.invocation import Invocation
from trainsmith.config.commands import ListConfig
from trainsmith.records import Record

GIB = 2**30
NEEDED_MEMORY = 6 * GIB
NEEDED_DISK = 3 * GIB


class Finding(Record):
    """One thing that was looked at."""

    name: str
    works: bool
    needed: bool
    """False for what only other commands need."""
    detail: str
    fix: str = ""


def run(invocation: Invocation) -> int:
    """Print all findings; exit status 1 if something that every command needs does not work."""
    invocation.config(ListConfig)
    findings = [finding for look in _LOOKS for finding in look()]
    invocation.answer(findings, "\n".join(_row(finding) for finding in findings))
    return 0 if all(finding.works or not finding.needed for finding in findings) else 1


def _row(finding: Finding) -> str:
    mark = "ok" if finding.works else "FAIL" if finding.needed else "no"
    fix = f"\n      fix: {finding.fix}" if finding.fix and not finding.works else ""
    return f"{mark:<5} {finding.name:<12} {finding.detail}{fix}"


def _python() -> Iterator[Finding]:
    works = (3, 11) <= sys.version_info < (3, 14)
    yield Finding(
        name="python",
        works=works,
        needed=True,
        detail=f"{platform.python_version()} on {platform.machine()}",
        fix="use Python 3.11, 3.12 or 3.13",
    )


def _packages() -> Iterator[Finding]:
    for package in ("torch", "verifiers", "transformers", "tinker"):
        found = importlib.util.find_spec(package) is not None
        yield Finding(
            name=package,
            works=found,
            needed=package != "tinker",
            detail=importlib.metadata.version(package) if found else "not installed",
            fix="pip install --requirement requirements.lock",
        )


def _gpu() -> Iterator[Finding]:
    import torch

    found = torch.cuda.is_available()
    detail = torch.cuda.get_device_name() if found else "none: jobs run on the CPU"
    yield Finding(name="gpu", works=found, needed=False, detail=detail)


def _jails() -> Iterator[Finding]:
    reports = jail.available()
    any_works = any(report.works for report in reports)
    for report in reports:
        yield Finding(
            name=f"jail {report.kind}",
            works=report.works,
            needed=not any_works,
            detail=report.why,
            fix=report.fix,
        )


def _models() -> Iterator[Finding]:
    for name in bases.names():
        cached = bases.cached(name)
        detail = "cached" if cached else "not fetched yet; the first command that needs it fetches it"
        yield Finding(name=name, works=cached, needed=False, detail=detail)


def _room() -> Iterator[Finding]:
    memory = psutil.virtual_memory().available
    yield Finding(
        name="memory",
        works=memory >= NEEDED_MEMORY,
        needed=False,
        detail=f"{memory / GIB:.1f} GiB available of the {NEEDED_MEMORY / GIB:.0f} that a micro job may take",
        fix="close other programs",
    )
    existing = next(parent for parent in (paths.cache_dir(), *paths.cache_dir().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    yield Finding(
        name="disk",
        works=free >= NEEDED_DISK,
        needed=False,
        detail=f"{free / GIB:.1f} GiB free for the model cache in {paths.cache_dir()}",
        fix="free disk space, or set TRAINSMITH_CACHE",
    )


def _accounts() -> Iterator[Finding]:
    for name, use in (("TINKER_API_KEY", "training an agent on Tinker's service"),):
        found = name in os.environ
        detail = "set" if found else f"not set; only {use} needs it"
        yield Finding(name=name, works=found, needed=False, detail=detail)


_LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _gpu,
    _jails,
    _models,
    _room,
    _accounts,
)
