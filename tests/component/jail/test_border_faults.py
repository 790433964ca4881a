"""Environments that misbehave in one rollout: the bad one is typed, the others come out right."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from trainsmith.jail.border import EnvironmentRollout, GenerateCall, GenerateReply, Reason

pytestmark = pytest.mark.component

GOOD = 16
VALUES = ("none", "nan", "text", "wild", "infinite", "list")
HARMLESS = ("raise", "exit", "huge_error", "memory", "disk", "print", "daemon", "hang")
DEADLY = ("os_exit", "kill", "junk", "block", "regex", "hang_on", "bomb")
FAULTS = (*VALUES, *HARMLESS, *DEADLY, "kill_zygote")


async def say(call: GenerateCall) -> GenerateReply:
    await asyncio.sleep(0.02)
    return GenerateReply(text="51", finish="stop", prompt_tokens=3, completion_tokens=2)


def play(loop, jail, faults: Sequence[str]) -> dict[str, EnvironmentRollout]:
    """Bad rollouts among good ones, all at once; asserts that the good ones came out right."""
    env = loop.environment(jail, "faults", faults=list(FAULTS))

    async def gather() -> list[EnvironmentRollout]:
        bad = [GOOD + FAULTS.index(fault) for fault in faults]
        return list(await asyncio.gather(*(env.rollout(index, say) for index in (*range(GOOD), *bad))))

    results = loop.run(gather())
    good = [(result.ok, result.traces[0].reward) for result in results[:GOOD]]
    assert good == [(True, 50.0)] * GOOD
    return dict(zip(faults, results[GOOD:], strict=True))


@pytest.fixture(scope="module")
def harmless(loop, bubblewrap) -> dict[str, EnvironmentRollout]:
    return play(loop, bubblewrap, [*VALUES, *HARMLESS])


@pytest.fixture(scope="module")
def deadly(loop, bubblewrap) -> dict[str, EnvironmentRollout]:
    return play(loop, bubblewrap, DEADLY)


@pytest.mark.parametrize("fault", VALUES)
def test_a_reward_that_is_no_finite_number_is_none(harmless, fault):
    """Guards against NaN, 1e308, text or None that reaches an advantage."""
    trace = harmless[fault].traces[0]
    assert trace.reward is None and trace.errors and harmless[fault].failure is None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise", "ZeroDivisionError: division by zero (environment/faults/__init__.py:"),
        ("exit", "SystemExit: 3 (environment/faults/__init__.py:"),
        ("huge_error", "ValueError: zzz"),
        ("memory", "MemoryError"),
        ("disk", "File too large"),
    ],
)
def test_an_exception_is_data_with_its_line(harmless, fault, said):
    """Guards against an exception, sys.exit or limit that ends more than its rollout, or has no place."""
    bad = harmless[fault]
    assert not bad.ok and bad.failure is None
    assert any(said in error for error in (*bad.errors, *bad.traces[0].errors))


def test_a_gigabyte_of_output_is_drained(harmless, loop, bubblewrap):
    """Guards against a print flood that fills the memory here or blocks the worker."""
    env = loop.environment(bubblewrap, "faults", faults=list(FAULTS))
    assert harmless["print"].ok and env.printed_bytes >= 1 << 30 and len(env.output_tail) <= 16_384


def test_a_reward_that_hangs_times_out(harmless):
    """Guards against an awaiting reward that holds its rollout for ever."""
    bad = harmless["hang"]
    assert bad.timed_out and bad.traces[0].timed_out and bad.traces[0].reward is None


@pytest.mark.parametrize(
    ("fault", "reason", "said"),
    [
        ("os_exit", Reason.EXITED, "exit status 3"),
        ("kill", Reason.EXITED, "signal 9"),
        ("junk", Reason.PROTOCOL, "a frame of 2147483647 bytes"),
        ("block", Reason.HUNG, "while True:"),
        ("regex", Reason.HUNG, "holds its worker"),
        ("hang_on", Reason.HUNG, "holds its worker"),
        ("bomb", Reason.HUNG, "holds its worker"),
    ],
)
def test_a_rollout_that_ends_its_worker_is_blamed(deadly, fault, reason, said):
    """Guards against innocents that fail with the guilty: seven guilty ones at once."""
    bad = deadly[fault]
    assert bad.failure is reason and said in bad.errors[0] and not bad.ok


def test_a_dead_zygote_is_replaced(loop, jail):
    """Guards against a jail that is not built anew, and against rollouts lost with it."""
    play(loop, jail, ["kill_zygote"])
    assert play(loop, jail, ["raise"])["raise"].traces[0].reward is None


def test_who_ends_the_jail_is_found_among_slow_ones(loop, jail):
    """Guards against a jail that is given up since the guilty rollout is never in it alone."""
    bad = play(loop, jail, ["hang", "kill_zygote"])
    assert bad["kill_zygote"].failure is Reason.EXITED
    assert bad["hang"].timed_out and bad["hang"].failure is None


def test_the_same_under_landlock(loop, landlock):
    """Guards against a jail without namespaces that mends less.

    Here nothing can stop the whole jail while a fork bomb is swept up: on a busy machine the bomb may take
    the zygote along, and is then blamed for that.
    """
    faults = ("memory", "daemon", "kill", "junk", "bomb")
    bad = play(loop, landlock, faults)
    found = [bad[fault].failure for fault in faults]
    assert found[:4] == [None, None, Reason.EXITED, Reason.PROTOCOL]
    assert found[4] in (Reason.HUNG, Reason.EXITED)
