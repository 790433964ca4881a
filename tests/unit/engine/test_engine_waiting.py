"""OpenMP's waiting must be settled before torch, follow the machine, and leave the user's choice alone."""

import os
import subprocess
import sys

import pytest

from trainsmith.engine.waiting import _is_busy, _runnable

CODE = "import trainsmith.engine, os; print(os.environ['OMP_WAIT_POLICY'], os.environ.get('GOMP_SPINCOUNT'))"


def policy_of(**settings):
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment | settings, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_package_settles_it_and_the_user_overrides_it():
    """Guards against threads that spin for minutes beside other jobs, and against ignoring the user."""
    assert policy_of()[0] == "PASSIVE"
    assert policy_of(OMP_WAIT_POLICY="ACTIVE") == ["ACTIVE", "None"]


@pytest.mark.parametrize(
    ("runnable", "cores", "busy"), [(1, 2, False), (2, 2, True), (4, 16, False), (6, 16, True)]
)
def test_busy_is_a_quarter_of_the_cores(runnable, cores, busy):
    """Guards against counting this process itself, or one neighbour among many cores."""
    assert _is_busy(runnable, cores) is busy


def test_this_process_is_runnable():
    """Guards against a changed format of the kernel's file."""
    assert _runnable() >= 1
