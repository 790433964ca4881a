"""From bytes to plain values: whatever the bytes are, the author gets a place and a mend."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.jobs.limits import MAX_TOML_BYTES
from trainsmith.jobs.problems import JobError
from trainsmith.jobs.reading import read_toml


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"max_steps = 4\nlr = [1,\n", "rl.toml: is not TOML: Invalid value (at end of document)"),
        (b'a = 1\nb = "x\n', "rl.toml: is not TOML: Illegal character '\\n' (at line 2, column 7)"),
        (b"a = 1\na = 2\n", "rl.toml: is not TOML: Cannot overwrite a value (at line 2, column 6)"),
        (b"a = 1\nb = '\xff'\n", "rl.toml: is not UTF-8 (line 2)"),
        (b"x" * (MAX_TOML_BYTES + 1), "rl.toml: has 65537 bytes; the limit is 65536"),
        (b"a = " + b"[" * 5000, "rl.toml: nests arrays or tables too deeply"),
        (b"a = " + b"9" * 5000, "rl.toml: has a number that cannot be read"),
        (b"[t]\na = 0x" + b"f" * 5000, "rl.toml: t.a: is an integer of more than 64 bits"),
        (b"a = [" + b"[" * 20 + b"]" * 20 + b"]", "is nested too deeply"),
        (b"[t]\na = nan\n", "rl.toml: t.a: nan is not a finite number"),
        (b"[t]\na = [1, -inf]\n", "rl.toml: t.a[1]: -inf is not a finite number"),
        (b"a = 1979-05-27\n", "rl.toml: a: '1979-05-27' is a date or time"),
        (b'"a\\nb" = nan\n', "rl.toml: 'a\\nb': nan is not a finite number"),
    ],
)
def test_unreadable_values_get_one_line(content: bytes, line: str) -> None:
    """Fault: a traceback, a crash of the controller, or a message without the place."""
    with pytest.raises(JobError) as caught:
        read_toml(content)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert all(problem.fix for problem in caught.value.problems)


def test_every_unusable_value_is_told_at_once() -> None:
    """Fault: an author mends one value a probe, though all were known."""
    with pytest.raises(JobError) as caught:
        read_toml(b"a = nan\nb = inf\nc = 12:00:00\n")
    assert len(caught.value.problems) == 3


def test_byte_order_mark_is_read_over() -> None:
    """Fault: a file saved by an editor that writes a byte order mark is refused."""
    assert read_toml(b"\xef\xbb\xbfa = 1\n") == {"a": 1}


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    """Fault: some byte string raises anything but JobError."""
    try:
        assert read_toml(content) == tomllib.loads(content.decode("utf-8-sig"))
    except JobError as error:
        assert error.problems


@given(st.text(alphabet="[]{}=\"'.,\n a1#_-:\\T", max_size=120))
def test_any_toml_like_text_is_read_or_refused(text: str) -> None:
    """Fault: some near-TOML text raises anything but JobError."""
    try:
        read_toml(text.encode())
    except JobError as error:
        assert error.problems
