"""Turns of sampling and training on the one thread."""

import threading

import pytest

from trainsmith.engine.server.torch_thread import TorchThread


class Turns:
    """Writes down who had a turn; samples while it has rows. A step takes 1 second by its clock."""

    def __init__(self):
        self.seen = []
        self.rows = 0
        self.now = 0
        self.unit = 1
        self.thread = TorchThread(self.sample, lambda: self.now)

    def sample(self):
        if not self.rows:
            return False
        self.rows -= 1
        self.now += 1
        self.seen.append("sample")
        return True

    def job(self, name, units):
        def run():
            for _ in range(units):
                self.seen.append(name)
                self.now += self.unit
                yield
            return name

        return run


@pytest.fixture
def turns():
    made = Turns()
    yield made
    assert made.thread.close(5)


def held(turns):
    """The thread waits until the returned event is set, so that a test can line up work."""
    gate = threading.Event()
    turns.thread.call(gate.wait)
    return gate


def test_sampling_and_training_take_turns(turns):
    """Guards against a long training request that stops sampling, or the other way round."""
    gate = held(turns)
    turns.rows = 6
    outcome = turns.thread.submit("a", turns.job("a", 6))
    gate.set()
    assert outcome.result(5) == "a"
    assert turns.seen == ["sample", "a"] * 6


def test_time_is_shared_and_not_turns(turns):
    """Guards against samples that get one token for each slow micro-batch."""
    gate = held(turns)
    turns.rows, turns.unit = 100, 20
    outcome = turns.thread.submit("a", turns.job("a", 4))
    gate.set()
    assert outcome.result(5) == "a"
    spells = "".join(each[0] for each in turns.seen).split("a")
    assert [len(each) for each in spells[:4]] == [1, 20, 20, 20]


def test_idle_time_is_not_owed(turns):
    """Guards against a side that blocks the other once it is back, for the time that it was not there."""
    turns.unit = 50
    assert turns.thread.submit("a", turns.job("a", 5)).result(5) == "a"
    gate = held(turns)
    turns.rows = 200
    outcome = turns.thread.submit("b", turns.job("b", 1))
    gate.set()
    assert outcome.result(5) == "b"
    assert turns.seen.index("b") == 6


def test_lanes_take_turns_and_keep_their_order(turns):
    """Guards against one run that waits for another's whole request, and against reordered requests."""
    gate = held(turns)
    outcomes = [
        turns.thread.submit(lane, turns.job(name, 2))
        for lane, name in (("a", "a1"), ("a", "a2"), ("b", "b1"))
    ]
    gate.set()
    assert [each.result(5) for each in outcomes] == ["a1", "a2", "b1"]
    assert turns.seen == ["a1", "b1", "a1", "b1", "a2", "a2"]


def test_a_failure_is_its_own(turns):
    """Guards against a job whose exception ends the thread or the jobs behind it."""

    def broken():
        yield
        raise ValueError("broken")

    bad, good = turns.thread.submit("a", broken), turns.thread.submit("a", turns.job("a", 1))
    with pytest.raises(ValueError, match="broken"):
        bad.result(5)
    assert good.result(5) == "a"


def test_what_has_not_begun_can_be_cancelled(turns):
    """Guards against work that is done for a client that has left."""
    gate = held(turns)
    unwanted = turns.thread.submit("a", turns.job("unwanted", 1))
    assert unwanted.cancel()
    gate.set()
    assert turns.thread.submit("a", turns.job("wanted", 1)).result(5) == "wanted"
    assert turns.seen == ["wanted"]


def test_closing_cancels_what_waits():
    """Guards against callers that wait for ever once the thread has ended."""
    turns = Turns()
    gate = held(turns)
    outcome = turns.thread.submit("a", turns.job("a", 1))
    assert not turns.thread.close(0)
    gate.set()
    assert turns.thread.close(5)
    assert outcome.cancelled()
