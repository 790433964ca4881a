"""Token bookkeeping of rollouts."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.records import Completion
from trainsmith.records import Message
from trainsmith.rollout.conversation import Conversations

END = 1000


class Letters:
    """A chat template of one token a character; a turn ends with END, a prompt with 2000."""

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return (*(token for message in messages for token in (*map(ord, message.content), END)), 2000)

    def encode_reply_tail(self, messages: Sequence[Message], *, stopped: bool = True) -> tuple[int, ...]:
        return (*(() if stopped else (END,)), *self.encode_chat(messages))


def said(text: str, finish: str = "stop") -> Completion:
    tokens = (*map(ord, text), END) if finish == "stop" else tuple(map(ord, text))
    return Completion(tokens, (-0.5,) * len(tokens), finish)  # type: ignore[arg-type]


def user(text: str) -> Message:
    return Message(role="user", content=text)


def play(turns: list[tuple[str, str, str]]) -> tuple[Conversations, tuple[Message, ...]]:
    conversations = Conversations(Letters())
    messages: tuple[Message, ...] = ()
    for question, reply, finish in turns:
        messages = (*messages, user(question))
        prompt = conversations.prompt("0", messages)
        conversations.commit("0", messages, prompt, said(reply, finish), reply)
        messages = (*messages, Message(role="assistant", content=reply))
    return conversations, messages


TURN = st.tuples(
    st.text("abc", min_size=1, max_size=4),
    st.text("xyz", min_size=1, max_size=4),
    st.sampled_from(["stop", "length"]),
)


@given(st.lists(TURN, min_size=1, max_size=4))
def test_turns_of_one_chat_are_one_sequence(turns: list[tuple[str, str, str]]) -> None:
    """Guards against a multi-turn rollout trained on re-rendered instead of sampled tokens."""
    conversations, messages = play(turns)
    (branch,) = conversations.branches("0")
    assert len(branch.tokens) == len(branch.mask) == len(branch.logprobs)
    sampled = [token for token, mine in zip(branch.tokens, branch.mask, strict=True) if mine]
    assert sampled == [token for _, reply, finish in turns for token in said(reply, finish).tokens]
    assert all((logprob == -0.5) == mine for logprob, mine in zip(branch.logprobs, branch.mask, strict=True))
    rendered = [token for token in Letters().encode_chat(messages) if token != 2000]
    whole = [token for token in branch.tokens if token != 2000]
    assert whole == rendered or [*whole, END] == rendered  # the last reply may have been cut short


def test_a_changed_history_opens_a_new_branch() -> None:
    """Guards against a rewritten chat that silently continues tokens it no longer contains."""
    conversations, _ = play([("a", "x", "stop")])
    messages = (user("a"), Message(role="assistant", content="CHANGED"), user("b"))
    prompt = conversations.prompt("0", messages)
    assert prompt == Letters().encode_chat(messages)
    conversations.commit("0", messages, prompt, said("y"), "y")
    assert [sum(branch.mask) for branch in conversations.branches("0")] == [2, 2]
    assert conversations.turns("0") == 2
    assert conversations.replies("0") == ("x", "y")


def test_traces_do_not_share_tokens() -> None:
    """Guards against one agent's turns extending another agent's chat."""
    conversations, messages = play([("a", "x", "stop")])
    assert conversations.prompt("1", (*messages, user("b"))) == Letters().encode_chat((*messages, user("b")))
