"""Batches must serve every request within the bounds of memory."""

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.batching import BatchLimits, batches, prefill_chunks, shared_header
from trainsmith.engine.records import SampleRequest
from trainsmith.engine.token_tree import build_tree

PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=12).map(tuple)


@given(st.lists(st.tuples(PROMPT, st.integers(1, 9)), max_size=20), st.integers(1, 8), st.integers(1, 60))
def test_every_request_is_served_once_within_rows_and_memory(asked, rows, room):
    """Guards against a request lost, and against long prompts that pad a whole batch out of memory."""
    requests = [SampleRequest(prompt, new, 1.0, 0) for prompt, new in asked]
    result = batches(requests, BatchLimits(rows, room * 8, 100), token_bytes=8)
    assert sorted(index for batch in result for index in batch) == list(range(len(requests)))
    for batch in result:
        members = [requests[index] for index in batch]
        prompts = {request.prompt for request in members}
        need = len(prompts) * max(map(len, prompts)) + len(members) * max(r.max_tokens for r in members)
        assert len(members) <= rows
        assert need <= room or len(members) == 1


def test_a_long_prompt_does_not_pad_the_short_ones():
    """Guards against one prompt of 2,000 tokens costing 2,000 for each of 100 short ones."""
    requests = [SampleRequest((n, 1), 4, 1.0, 0) for n in range(100)] + [
        SampleRequest((1,) * 2000, 4, 1.0, 0)
    ]
    assert [len(batch) for batch in batches(requests, BatchLimits(256, 10_000, 100), 1)] == [100, 1]


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
