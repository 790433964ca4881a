"""The compiled filter, run by a small interpreter of classic BPF: what each call gets on each machine."""

from __future__ import annotations

import struct

import pytest

from trainsmith.jail.inside import seccomp
from trainsmith.jail.inside.seccomp import Policy, program
from trainsmith.jail.inside.syscalls import ARCHITECTURES, NUMBERS, number

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
HARMLESS = {"x86_64": (0, 1, 9, 39, 57, 59, 231), "aarch64": (63, 64, 222, 172, 221, 94, 93)}
"""read, write, mmap, getpid, fork or munmap, execve, exit_group and the like."""


def evaluate(code: bytes, call: int, arguments: tuple[int, ...] = (), architecture: int = 0xC000003E) -> int:
    """The filter's answer; asserts that every jump stays inside the program."""
    lines = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    padded = (*arguments, *(0 for _ in range(6 - len(arguments))))
    data = struct.pack("=IIQ6Q", call & 0xFFFFFFFF, architecture, 0, *padded)
    accumulator, at = 0, 0
    while True:
        code_, if_true, if_false, value = lines[at]
        at += 1
        if code_ == 0x06:
            return value
        if code_ == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
            continue
        held = {
            0x15: accumulator == value,
            0x35: accumulator >= value,
            0x45: bool(accumulator & value),
        }[code_]
        at += if_true if held else if_false


def answer(machine: str, name: str, *arguments: int, policy: Policy | None = None) -> int | None:
    call = number(name, machine)
    if call is None:
        return None
    return evaluate(program(machine, policy or Policy()), call, arguments, ARCHITECTURE[machine])


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_denied_calls_are_denied(machine):
    """Guards against a wrong number in the table of one machine, and a jump that skips a rule."""
    for policy in (Policy(), Policy(network=True, metadata=False, same_user=True, signals=False)):
        for name in seccomp.ALWAYS:
            assert answer(machine, name, policy=policy) in (ERRNO | 1, None), name


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_ordinary_calls_are_allowed(machine):
    """Guards against a filter under which no program runs."""
    for policy in (Policy(), Policy(metadata=False, same_user=True, signals=False, unnamed_files=False)):
        code = program(machine, policy)
        for call in HARMLESS[machine]:
            assert evaluate(code, call, (), ARCHITECTURE[machine]) == ALLOW, call


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_clone_is_allowed_without_new_namespaces_only(machine):
    """Guards against threads that do not start, and namespaces that do."""
    assert answer(machine, "clone", 0x003D0F00) == ALLOW
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, "clone", flag | 17) == ERRNO | 1
    assert answer(machine, "clone3") == ERRNO | 38


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_limits_may_be_asked_of_oneself_only(machine):
    """Guards against a jailed process that lowers the limits of its caller."""
    assert answer(machine, "prlimit64", 0) == ALLOW
    assert answer(machine, "prlimit64", 4711) == ERRNO | 1
    assert answer(machine, "sched_setaffinity", 4711) == ERRNO | 1


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_sockets_follow_the_policy(machine):
    """Guards against vsock and netlink, which a network namespace does not hold, and against any without."""
    inside = Policy(network=True)
    assert [answer(machine, "socket", family, policy=inside) for family in (1, 2, 10)] == [ALLOW] * 3
    assert {answer(machine, "socket", family, policy=inside) for family in (0, 16, 17, 40)} == {ERRNO | 97}
    assert {answer(machine, "socket", family) for family in (1, 2, 10, 16, 40)} == {ERRNO | 1}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_metadata_and_signals_follow_the_policy(machine):
    """Guards against files outside that are touched, and callers signalled, where only the filter holds."""
    strict = Policy(metadata=False, same_user=True, signals=False)
    for name in seccomp.METADATA + seccomp.OWNERS + seccomp.SIGNALS:
        assert answer(machine, name, policy=strict) in (ERRNO | 1, None), name
        assert answer(machine, name) in (ALLOW, None), name
    for name in seccomp.TIMES + seccomp.MODES:
        assert answer(machine, name, policy=strict) in (ERRNO | 0, None), name
        assert answer(machine, name) in (ALLOW, None), name


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_unnamed_files_follow_the_policy(machine):
    """Guards against files that the watcher of the disk cannot see."""
    watched = Policy(unnamed_files=False)
    assert answer(machine, "openat", 0, 0, 0o20200002, policy=watched) == ERRNO | 1
    assert answer(machine, "openat", 0, 0, 0o100, policy=watched) == ALLOW
    assert answer(machine, "openat2", policy=watched) == ERRNO | 38
    assert answer(machine, "openat", 0, 0, 0o20200002) == ALLOW


def test_another_architecture_is_killed_and_x32_is_denied():
    """Guards against calls that go by other numbers."""
    code = program("x86_64", Policy())
    assert evaluate(code, 0, (), 0x40000003) == KILL
    assert evaluate(code, 0x40000000 | 41) == ERRNO | 1
    assert evaluate(program("aarch64", Policy()), 0, (), 0xC000003E) == KILL


def test_an_unknown_machine_fails_closed():
    """Guards against a jail without a filter on a machine that has no table."""
    with pytest.raises(OSError, match="riscv64"):
        program("riscv64", Policy())


def test_the_tables_name_each_number_once():
    """Guards against a number that was copied into the wrong line."""
    for place in range(len(ARCHITECTURES)):
        numbers = [pair[place] for pair in NUMBERS.values() if pair[place] is not None]
        assert len(numbers) == len(set(numbers))
    assert all(pair[0] == pair[1] for pair in NUMBERS.values() if (pair[0] or 0) >= 424)
