"""Batches must serve every request within the bounds of memory."""

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.batching import BatchLimits, Fill, header_with, prefill_chunks, shared_header
from trainsmith.engine.records import SampleRequest
from trainsmith.engine.token_tree import build_tree


def batches(requests, limits, token_bytes):
    """Requests in order, each batch as full as it gets."""
    result = []
    while sum(map(len, result)) < len(requests):
        fill = Fill(limits, token_bytes)
        rest = requests[sum(map(len, result)) :]
        result.append(list(takewhile(fill.add, rest)))
    return result


PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=12).map(tuple)


@given(st.lists(st.tuples(PROMPT, st.integers(1, 9)), max_size=20), st.integers(1, 8), st.integers(1, 60))
def test_every_request_is_served_once_within_rows_and_memory(asked, rows, room):
    """Guards against a request lost, and against long prompts that pad a whole batch out of memory."""
    requests = [SampleRequest(prompt, new, 1.0, 0) for prompt, new in asked]
    result = batches(requests, BatchLimits(rows, room * 8, 100), token_bytes=8)
    assert [request for batch in result for request in batch] == requests
    for members in result:
        prompts = {request.prompt for request in members}
        header = shared_header(sorted(prompts))
        tails = len(prompts) * (max(map(len, prompts)) - header)
        need = header + tails + len(members) * max(request.max_tokens for request in members)
        assert len(members) <= rows
        assert need <= room or len(members) == 1


def test_a_long_prompt_does_not_pad_the_short_ones():
    """Guards against one prompt of 2,000 tokens costing 2,000 for each of 100 short ones."""
    requests = [SampleRequest((n, 1), 4, 1.0, 0) for n in range(100)] + [
        SampleRequest((1,) * 2000, 4, 1.0, 0)
    ]
    assert [len(batch) for batch in batches(requests, BatchLimits(256, 10_000, 100), 1)] == [100, 1]


def test_a_common_header_is_counted_once():
    """Guards against a long system prompt that keeps all but a few requests out."""
    requests = [SampleRequest((*range(2000), n), 4, 1.0, 0) for n in range(64)]
    assert [len(batch) for batch in batches(requests, BatchLimits(256, 10_000, 100), 1)] == [64]


def test_what_is_live_already_takes_room():
    """Guards against a batch that grows past its bounds when requests join it."""
    request = SampleRequest((1, 2, 3), 2, 1.0, 0)
    for limits, tokens, rows, fits in [((4, 10), 5, 1, 1), ((4, 10), 6, 1, 0), ((4, 100), 6, 4, 0)]:
        fill = Fill(BatchLimits(limits[0], limits[1], 100), 1, tokens, rows)
        assert [fill.add(request), fill.joined] == [bool(fits), fits]


@given(PROMPT, st.integers(0, 12), st.sets(PROMPT, min_size=1, max_size=6).map(sorted))
def test_a_header_in_company_is_everybodys(member, header, prompts):
    """Guards against a header that newcomers do not have, or that leaves one of them without a token."""
    shared = header_with(min(header, len(member) - 1), member, prompts)
    assert shared <= min(header, len(member) - 1)
    assert all(prompt[:shared] == member[:shared] and len(prompt) > shared for prompt in prompts)


@given(st.sets(PROMPT, min_size=1, max_size=12).map(sorted), st.integers(1, 40))
def test_chunks_keep_their_limit_and_order(prompts, limit):
    """Guards against a chunk that holds more than it says, or prompts out of order."""
    chunks = prefill_chunks(prompts, limit)
    assert [index for chunk in chunks for index in chunk] == list(range(len(prompts)))
    for chunk in chunks:
        assert len(build_tree([prompts[index] for index in chunk])) <= max(limit, len(prompts[chunk[0]]))


@given(st.sets(PROMPT, min_size=1, max_size=12).map(sorted))
def test_the_header_is_common_and_leaves_every_prompt_a_token(prompts):
    """Guards against a header that is longer than a prompt, or that one prompt does not have."""
    header = shared_header(prompts)
    assert len({prompt[:header] for prompt in prompts}) == 1
    assert all(len(prompt) > header for prompt in prompts)
