"""Which rows read which cached tokens together."""

from hypothesis import given, settings
from hypothesis import strategies as st

from trainsmith.engine.cuda.attention_jobs import MAX_PARTS, Group, Segment, attention_jobs
from trainsmith.engine.cuda.sizes import rounded, rounded_rows

GROUPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 900), st.integers(1, 20)), min_size=1, max_size=8
)


@settings(deadline=None)
@given(GROUPS, st.integers(1, 16))
def test_every_row_reads_all_of_its_prompt_once(groups, job_rows):
    """Guards against tokens that a row misses or sees twice, and two jobs that write one part of a row."""
    headers = [(), (Segment(0, 40),), (Segment(40, 700),), (Segment(740, 4500),)]
    built, first = [], 6000
    for header, tail, rows in sorted(groups):
        built.append(Group((*headers[header], Segment(first, tail)), rows))
        first += tail
    jobs, parts = attention_jobs(built, job_rows)
    rows = [group for group in built for _ in range(group.rows)]
    seen = [[] for _ in rows]
    used = [[] for _ in rows]
    for start, count, place, tokens, part in jobs.tolist():
        assert 1 <= count <= job_rows
        for row in range(start, start + count):
            seen[row] += range(place, place + tokens)
            used[row].append(part)
    for row, group in enumerate(rows):
        wanted = [place for each in group.segments for place in range(each.first, each.first + each.count)]
        assert sorted(seen[row]) == wanted
        assert sorted(used[row]) == list(range(parts[row]))
        assert parts[row] <= MAX_PARTS


def test_neighbouring_prompts_share_the_jobs_of_their_header():
    """Guards against a header that is read once for each prompt."""
    header = Segment(0, 100)
    jobs, _ = attention_jobs([Group((header, Segment(200 + 10 * n, 10)), 4) for n in range(4)], 16)
    assert [job for job in jobs.tolist() if job[2] == 0] == [[0, 16, 0, 100, 0]]


def test_no_rows_have_no_jobs():
    """Guards against a crash when the last row has left."""
    jobs, parts = attention_jobs([], 16)
    assert jobs.shape == (0, 5) and parts.shape == (0,)


@given(st.integers(1, 20_000))
def test_sizes_are_few_and_waste_little(count):
    """Guards against padding that costs more than a graph saves."""
    assert count <= rounded(count) <= max(256, count * 1.25 + 256)
    assert count <= rounded_rows(count) < 2 * count
