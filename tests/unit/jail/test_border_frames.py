"""The decoder of what comes out of a jail: any bytes at all give messages or BadFrame, nothing else."""

from __future__ import annotations

import random
import struct
from typing import get_args

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainsmith.jail.border.worker import messages as wire
from trainsmith.jail.border.worker.frames import MAX_UP, BadFrame, Decoder, encode

TABLES = {**wire.FROM_ZYGOTE, **wire.FROM_WORKER}
CHAT = (wire.Chat("system", "be brief"), wire.Chat("user", "grüße 你好 \U0001f600"))
SIGNALS = (
    wire.Signal("right", 1.0, 0.5),
    wire.Signal("nan", float("inf"), 1.0),
    wire.Signal("none", None, 1.0),
)
TRACE = wire.TraceEnd(0, "agent", True, True, "max_turns", False, 3, SIGNALS, SIGNALS, ("E: x",))
UPWARD = [
    wire.Hello(),
    wire.Ready(
        5, "Ones", "SingleAgentEnv", True, True, ("agent",), ("right",), (1.0,), (), False, ("a note",)
    ),
    wire.Failed("hung", "it hangs", "environment/a.py:1", "end the loop"),
    wire.Place("environment/a.py:1"),
    wire.Rows(3, (wire.Row("key", CHAT, "{}"), wire.Row("key", None, "{}"))),
    wire.Forked(1, False),
    wire.Exited(1, 9),
    wire.Up(),
    wire.Beat(),
    wire.Stuck(None, 2.5, ""),
    wire.Generate(7, 1, 0, None, CHAT, 16),
    wire.Done(7, True, False, (), (TRACE,)),
]
DOWNWARD = [
    wire.Load("arith", "{}", 10, 4, 1.0, 2.0, 3.0, 4.0, True),
    wire.List(0, 10),
    wire.Fork(1),
    wire.Kill(1),
    wire.Play(1, 0),
    wire.Reply(1, "text", "stop", 3, 4),
    wire.Refuse(1, "no"),
    wire.Cancel(1),
]
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


def decode(data: bytes, table=TABLES) -> list[object]:
    return [wire.read(frame, table) for frame in Decoder(MAX_UP).feed(data)]


def test_the_samples_cover_every_message():
    """Guards against a message that no test sends."""
    up = get_args(wire.FromZygote) + get_args(wire.FromWorker)
    down = get_args(wire.ToZygote) + get_args(wire.ToWorker)
    assert {type(message) for message in UPWARD} == set(up) == {*up} and len(UPWARD) == len(TABLES)
    assert {type(message) for message in DOWNWARD} == set(down)
    assert {kind.__name__ for kind in up} == TABLES.keys()


@pytest.mark.parametrize("message", UPWARD + DOWNWARD, ids=lambda message: type(message).__name__)
def test_every_message_survives_the_way(message):
    """Guards against fields that are packed in one order and read in another."""
    table = {**TABLES, **wire.TO_ZYGOTE, **wire.TO_WORKER}
    assert decode(wire.pack(message), table) == [message]


@given(st.lists(st.integers(0, len(UPWARD) - 1), max_size=8), st.data())
def test_pieces_of_any_size_give_the_same_messages(places, data):
    """Guards against frames that are lost where a read ends."""
    stream = b"".join(wire.pack(UPWARD[place]) for place in places)
    decoder, found, at = Decoder(MAX_UP), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += [wire.read(frame, TABLES) for frame in decoder.feed(stream[at : at + size])]
        at += size
    assert found == [UPWARD[place] for place in places]


@settings(max_examples=400)
@given(st.binary(max_size=200))
def test_any_bytes_give_messages_or_a_bad_frame(data):
    """Guards against an exception of another type, which would end the run and not the worker."""
    for framed in (data, struct.pack("!I", len(data)) + data):
        try:
            decode(framed)
        except BadFrame:
            continue


@settings(max_examples=400)
@given(st.sampled_from(sorted(TABLES)), st.lists(PLAIN, max_size=12))
def test_any_fields_give_a_message_or_a_bad_frame(tag, fields):
    """Guards against a field of another type that passes a check or breaks it."""
    body = msgpack.packb([tag, *fields], unicode_errors="surrogatepass")
    try:
        (message,) = decode(struct.pack("!I", len(body)) + body)
    except BadFrame:
        return
    assert type(message).__name__ == tag


def test_twenty_thousand_damaged_frames():
    """Guards against what no grammar thinks of: bytes changed, cut, doubled and inserted in honest frames."""
    rng = random.Random(7)
    honest = [wire.pack(message) for message in UPWARD]
    refused = 0
    for _ in range(20_000):
        frame = bytearray(rng.choice(honest))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(frame))
            action = rng.randrange(4)
            if action == 0:
                frame[at] = rng.randrange(256)
            elif action == 1:
                frame.insert(at, rng.randrange(256))
            elif action == 2 and len(frame) > 5:
                del frame[at]
            else:
                frame[at:at] = frame[at : at + 8]
        try:
            decode(bytes(frame))
        except BadFrame:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    "body",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 5000 + b"\x01",
        b"\x92\xa2Up\xd4\x01\x00",
        b"\x91\x01",
        b"\x90",
        b"\xc1",
        b"\x91\xa2Up\x91",
        b"\x92\xa2Up\x01",
        b"\x91\xa4\xff\xff\xff\xff",
        b"",
    ],
)
def test_lies_about_sizes_and_types_are_bad_frames(body):
    """Guards against lengths that reserve memory, deep nesting, extension types, and trailing bytes."""
    with pytest.raises(BadFrame):
        decode(struct.pack("!I", len(body)) + body)


def test_a_length_over_the_limit_is_refused_before_its_bytes_come():
    """Guards against memory that a worker reserves here with four bytes."""
    with pytest.raises(BadFrame, match="2147483647"):
        decode(b"\x7f\xff\xff\xff")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (["Ready", -1, "a", "b", True, True, [], [], [], [], False, []], "integer"),
        (["Ready", True, "a", "b", True, True, [], [], [], [], False, []], "integer"),
        (["Ready", 10**7, "a", "b", True, True, [], [], [], [], False, []], "integer"),
        (["Done", 1, 1, False, [], []], "boolean"),
        (["Done", 1, True, False, ["x" * 2001], []], "2000"),
        (["Done", 1, True, False, [], [[]]], "10 fields"),
        (["Generate", 1, 1, 0, None, [["root", "x"]], None], "one of"),
        (["Generate", 1, 1, 0, None, [["user", "x" * 150_000]] * 2, None], "characters"),
        (["Generate", 1, 1, 0, None, [["user", "x"]] * 257, None], "256"),
        (["Stuck", None, "1.0", ""], "number"),
        (["Nothing"], "unknown"),
    ],
)
def test_values_outside_their_bounds_are_bad_frames(message, why):
    """Guards against 10^7 tasks, booleans for numbers, huge texts and unknown roles."""
    with pytest.raises(BadFrame, match=why):
        decode(encode(message[0], message[1:]))


def test_text_that_is_no_unicode_still_crosses():
    """Guards against a worker that dies of a lone surrogate in an author's text."""
    (message,) = decode(wire.pack(wire.Place("a\ud800b")))
    assert message == wire.Place("a?b")
