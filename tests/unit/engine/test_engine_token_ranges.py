"""The book of a cache's free places."""

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.cuda.token_ranges import TokenRanges


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=60))
def test_ranges_never_overlap_and_come_back_whole(moves):
    """Guards against two rows that write the same place, and places lost for good."""
    ranges, held = TokenRanges(40), []
    for take, number in moves:
        if take:
            first = ranges.take(number)
            if first is not None and number:
                held.append((first, number))
        elif held:
            ranges.give(*held.pop(number % len(held)))
        taken = [place for first, count in held for place in range(first, first + count)]
        assert len(set(taken)) == len(taken)
        assert ranges.free == 40 - len(taken)
        assert all(0 <= place < 40 for place in taken)
    for first, count in held:
        ranges.give(first, count)
    assert ranges.take(40) == 0


def test_more_places_join_the_hole_at_the_end():
    """Guards against a grown cache whose new places cannot be used together with the old ones."""
    ranges = TokenRanges(10)
    assert ranges.take(6) == 0
    assert ranges.take(6) is None
    ranges.extend(20)
    assert ranges.take(14) == 6
