"""How figures are made of readings."""

import json

import pytest
from benchmarks import output, server_soak
from benchmarks.machine import this_machine
from benchmarks.prompts import token_rows
from benchmarks.turns import Turn, speeds, take_turns


def turn(wall, cpu=1.0, tokens=100, memory=1):
    return Turn(wall=wall, cpu=cpu, tokens=tokens, memory=memory)


class Scripted:
    """A side that takes as long as it is told."""

    def __init__(self, name, walls, log):
        self.name, self.walls, self.log = name, list(walls), log

    def turn(self, order=""):
        self.log.append((self.name, order))
        return turn(self.walls.pop(0))


def test_speeds_are_medians_and_memory_is_the_most():
    """Guards against a mean that one slow turn moves, and a peak that a later turn hides."""
    made = speeds("a", [turn(3.0, memory=5), turn(1.0, memory=9), turn(2.0, memory=7)])
    assert (made.n, made.wall, made.wall_low, made.wall_high, made.memory) == (3, 2.0, 1.0, 3.0, 9)
    assert made.per_wall_second == 50


def test_unequal_work_is_refused():
    """Guards against a ratio between different numbers of tokens."""
    with pytest.raises(ValueError):
        speeds("a", [turn(1.0), turn(1.0, tokens=99)])


def test_sides_alternate_and_take_the_first_turn_in_turn():
    """Guards against a busy minute that falls on one side, turns put to the wrong side, a counted warm-up."""
    log = []
    first, second = Scripted("a", [99, 1, 2, 3], log), Scripted("b", [99, 10, 20, 30], log)
    made = take_turns([first, second], 3, "work")
    assert [name for name, _ in log] == list("ababbaab")
    assert {order for _, order in log} == {"work"}
    assert [(side.side, side.wall, side.wall_low) for side in made] == [("a", 2, 1), ("b", 20, 10)]


def test_ratios_say_how_much_faster_the_first_side_is():
    """Guards against a ratio upside down."""
    row = output.Comparison(
        name="w",
        threads=1,
        dtype="float32",
        prompt_tokens=3,
        sides=(speeds("ours", [turn(1.0, cpu=1.0)]), speeds("theirs", [turn(3.0, cpu=2.0)])),
    )
    document = output.Document(benchmark="b", machine=this_machine(["torch", "no-such"]), rows=(row,))
    (told,) = json.loads(document.as_json())["rows"]
    assert told["ratios"] == {"theirs": {"wall": 3.0, "cpu": 2.0}}
    assert set(document.machine.versions) == {"torch"}


@pytest.mark.parametrize(("last", "percent"), [(100, 0.0), (110, 10.0), (95, -5.0)])
def test_growth_is_counted_from_after_the_warm_up(last, percent):
    """Guards against growth that the start-up's own hides or makes."""
    resident = [*range(1, 21), *([100] * 70), *([last] * 10)]
    assert server_soak.growth(resident) == pytest.approx(percent)


def test_latency_quantiles():
    """Guards against a p99 that is the median's neighbour, or an index past the end."""
    made = server_soak.latency("sample", [float(n) for n in range(100)])
    assert (made.n, made.p50, made.p99, made.most) == (100, 50.0, 99.0, 99.0)
    assert server_soak.latency("sample", [2.0]).p99 == 2.0


def test_token_rows_share_their_head_alone():
    """Guards against prompts that are equal, which one side would read once."""
    made = token_rows(8, 100, 70, 300)
    assert {len(row) for row in made} == {100}
    assert len({row[:70] for row in made}) == 1 and len({row[70:] for row in made}) == 8
