"""The journal: a rollout that is played again gets the same replies, and knows what its calls continue."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.jail.border.journal import Journal, chain
from trainsmith.jail.border.records import GenerateReply
from trainsmith.jail.border.worker.messages import Chat

USER = Chat("user", "hi")
CHATS = st.lists(st.builds(Chat, st.sampled_from(["user", "assistant"]), st.text(max_size=5)), max_size=6)


def test_a_second_attempt_gets_the_same_numbers():
    """Guards against replies that are sampled anew after a worker's death."""
    journal = Journal()
    first = [journal.place(0, "a", (USER,)), journal.place(1, "a", (USER,)), journal.place(0, "b", (USER,))]
    journal.restart()
    second = [journal.place(0, "a", (USER,)), journal.place(1, "a", (USER,)), journal.place(0, "b", (USER,))]
    assert [place.call for place in first] == [place.call for place in second] == [0, 1, 2]
    assert [place.new for place in first + second] == [True] * 3 + [False] * 3
    assert journal.calls(0) == (0, 2) and journal.calls(1) == (1,)


def test_a_call_knows_the_turn_that_it_continues():
    """Guards against a prompt that is rendered anew where sampled tokens exist."""
    journal = Journal()
    first = journal.place(0, None, (USER,))
    journal.commit(0, first, "hello")
    longer = (USER, Chat("assistant", "hello"), Chat("user", "more"))
    second = journal.place(0, None, longer)
    assert (second.previous, second.known) == (0, 2)
    journal.commit(0, second, "yes")
    third = journal.place(0, None, (*longer, Chat("assistant", "yes"), Chat("user", "and?")))
    assert (third.previous, third.known) == (1, 4)


def test_only_the_same_words_of_the_same_trace_are_continued():
    """Guards against tokens of one branch under the messages of another."""
    journal = Journal()
    journal.commit(0, journal.place(0, None, (USER,)), "hello")
    tail = Chat("user", "more")
    assert journal.place(0, None, (USER, Chat("assistant", "Hello"), tail)).previous is None
    assert journal.place(1, None, (USER, Chat("assistant", "hello"), tail)).previous is None
    assert journal.place(0, None, (Chat("user", "ho"), Chat("assistant", "hello"), tail)).previous is None


def test_a_reply_is_sampled_once_and_a_failed_one_again():
    """Guards against double sampling, and against a failure that is remembered."""
    journal, samples = Journal(), []

    def sample() -> asyncio.Future[GenerateReply]:
        future = asyncio.get_running_loop().create_future()
        samples.append(future)
        if len(samples) == 1:
            future.set_exception(KeyError("engine"))
        else:
            future.set_result(GenerateReply(text="x", finish="stop", prompt_tokens=1, completion_tokens=1))
        return future

    async def use() -> list[str]:
        try:
            await journal.reply(0, sample)
        except KeyError:
            samples.append(asyncio.get_running_loop().create_future())
        return [(await journal.reply(0, sample)).text for _ in range(3)]

    assert asyncio.run(use()) == ["x"] * 3 and len(samples) == 3


@given(CHATS, CHATS)
def test_digests_tell_conversations_apart(first, second):
    """Guards against two conversations that share a digest, as when texts are joined without a mark."""
    assert (chain(tuple(first))[-1] == chain(tuple(second))[-1]) == (first == second)
